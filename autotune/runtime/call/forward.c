/* Forwards calls of instances of a Python class to the callable in one of their slots, without a
 * Python frame. */
typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyTypeObject *owner;
  Py_ssize_t at; /* offset of the slot that holds the callable */
  PyObject *method; /* the Python method, for an empty slot or options other than stream */
} Forward;

static int only_stream(PyObject *names) {
  return !names || !PyTuple_GET_SIZE(names) ||
         (PyTuple_GET_SIZE(names) == 1 &&
          PyUnicode_Compare(PyTuple_GET_ITEM(names, 0), s_stream) == 0);
}

static PyObject *call_forward(PyObject *self, PyObject *const *args, size_t flags,
                              PyObject *names) {
  Forward *forward = (Forward *)self;
  Py_ssize_t n = PyVectorcall_NARGS(flags);
  PyObject *held = NULL;
  if (n > 0 && PyObject_TypeCheck(args[0], forward->owner)) held = slot(args[0], forward->at);
  if (!held || held == Py_None || !only_stream(names))
    return PyObject_Vectorcall(forward->method, args, (size_t)n, names);
  Py_INCREF(held);
  PyObject *result = PyObject_Vectorcall(held, args + 1, (size_t)(n - 1), names);
  Py_DECREF(held);
  return result;
}

/* Forward(class, name of the slot, the method in Python) */
static PyObject *new_forward(PyTypeObject *type, PyObject *args, PyObject *options) {
  (void)options;
  PyTypeObject *owner;
  PyObject *method;
  const char *name;
  if (!PyArg_ParseTuple(args, "O!sO", &PyType_Type, &owner, &name, &method)) return NULL;
  Py_ssize_t at = place_of(owner, name);
  if (at < 0) return NULL;
  Forward *forward = (Forward *)type->tp_alloc(type, 0);
  if (!forward) return NULL;
  forward->vectorcall = call_forward;
  forward->at = at;
  forward->owner = (PyTypeObject *)Py_NewRef((PyObject *)owner);
  forward->method = Py_NewRef(method);
  return (PyObject *)forward;
}

static int clear_forward(PyObject *self) {
  Py_CLEAR(((Forward *)self)->owner);
  Py_CLEAR(((Forward *)self)->method);
  return 0;
}

static int visit_forward(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(((Forward *)self)->owner);
  Py_VISIT(((Forward *)self)->method);
  return 0;
}

static void free_forward(PyObject *self) {
  PyObject_GC_UnTrack(self);
  clear_forward(self);
  PyObject_GC_Del(self);
}

static PyObject *bound_forward(PyObject *self, PyObject *object, PyObject *type) {
  (void)type;
  return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

/* Its name, documentation and signature are those of the method. */
static PyObject *of_method(PyObject *self, void *name) {
  return PyObject_GetAttrString(((Forward *)self)->method, name);
}

static PyObject *wrapped(PyObject *self, void *unused) {
  (void)unused;
  return Py_NewRef(((Forward *)self)->method);
}

static PyGetSetDef forward_facts[] = {
    {"__doc__", of_method, NULL, NULL, "__doc__"},
    {"__name__", of_method, NULL, NULL, "__name__"},
    {"__qualname__", of_method, NULL, NULL, "__qualname__"},
    {"__module__", of_method, NULL, NULL, "__module__"},
    {"__wrapped__", wrapped, NULL, NULL, NULL},
    {0}};
static PyTypeObject ForwardType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "autotune_launcher.Forward",
    .tp_basicsize = sizeof(Forward),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Forward, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = free_forward,
    .tp_traverse = visit_forward,
    .tp_clear = clear_forward,
    .tp_descr_get = bound_forward,
    .tp_getset = forward_facts,
    .tp_new = new_forward,
};

