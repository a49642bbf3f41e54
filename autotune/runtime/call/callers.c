/* The Python type of a caller: it dispatches a call to the entry that fits its arguments. */
static PyObject *stream_of;
typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *slow, *entries;
} Caller;

static int number_of_stream(PyObject *given, int device, Stream *out) {
  long long handle = PyLong_CheckExact(given) ? PyLong_AsLongLong(given) : -1;
  if (handle >= 0) {
    *out = (Stream)(uintptr_t)handle;
    return 1;
  }
  PyErr_Clear();
  PyObject *found = PyObject_CallFunction(stream_of, "Oi", given, device);
  if (!found) return 0;
  *out = PyLong_AsVoidPtr(found);
  Py_DECREF(found);
  return !PyErr_Occurred();
}

/* The current stream of the library that a tensor belongs to, else of one that is loaded. Without
 * views there are only arrays of ours. */
static int current_stream(const Entry *e, const View *views, Stream *out) {
  const Exchange *exchange = NULL;
  for (int i = 0; views && i < e->n_taken && !exchange; i++)
    if (e->params[i].role == ARRAY) exchange = views[i].row->exchange;
  if (!exchange) exchange = torch_exchange;
  if (exchange) {
    void *found = NULL;
    if (exchange->current_stream(CUDA, e->device_id, &found) != 0) PyErr_Clear();
    *out = found;
    return 1;
  }
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *torch = PyDict_GetItemWithError(modules, s_torch);
  *out = NULL;
  if (!torch && !PyDict_GetItemWithError(modules, s_cupy)) return !PyErr_Occurred();
  if (torch && uses_cuda(torch)) torch_exchange = exchange_of_torch(torch);
  PyErr_Clear();
  return number_of_stream(Py_None, e->device_id, out);
}

static int is_written_tensor(const Param *p, const View *v) {
  return p->role == ARRAY && p->writes && v->row->of_torch;
}

/* Raises the versions of tensors of torch that the call writes, so that backward refuses saved
 * tensors that were changed. */
static int note_written(const Entry *e, const View *views) {
  int count = 0;
  for (int i = 0; i < e->n_taken; i++) count += is_written_tensor(&e->params[i], &views[i]);
  if (!count) return 1;
  PyObject *written = PyTuple_New(count);
  for (int i = e->n_taken - 1; written && i >= 0; i--)
    if (is_written_tensor(&e->params[i], &views[i]))
      PyTuple_SET_ITEM(written, --count, Py_NewRef(views[i].object));
  PyObject *ignored = written ? PyObject_CallOneArg(raise_versions, written) : NULL;
  Py_XDECREF(written);
  Py_XDECREF(ignored);
  return ignored != NULL;
}

/* Starts an entry on its slots; `views` may be left out where there are only arrays of ours. */
static int start(Entry *e, const View *views, uint64_t *slots, PyObject *given) {
  Stream stream = NULL;
  if (views && !note_written(e, views)) return 0;
  if (!e->cuda) return run_on_host(e, slots);
  if (given ? !number_of_stream(given, e->device_id, &stream) : !current_stream(e, views, &stream))
    return 0;
  return start_cuda(e, slots, stream);
}

/* Reads the arrays among the arguments, whose positions all entries of a caller share. */
static int read_views(const Entry *e, PyObject *const *args, View *views) {
  for (int i = 0; i < e->n_taken; i++)
    if (e->params[i].role == ARRAY && !read_view(&views[i], args[i])) return 0;
  return 1;
}

/* Each of these returns 1 if it was started, 0 if no entry is for these arguments, -1 with an
 * exception. Entries are held: others may drop them whenever code of Python runs. */
static int try_known(PyObject *entries, PyObject *const *args, PyObject *given) {
  uint64_t slots[2 * MOST_ARGS];
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(entries); i++) {
    Entry *e = (Entry *)Py_NewRef(PyList_GET_ITEM(entries, i));
    int found = recall(e, args, slots);
    if (found > 0) found = start(e, NULL, slots, given) ? 1 : -1;
    Py_DECREF(e);
    if (found) return found;
  }
  return 0;
}

static int try_all(PyObject *entries, PyObject *const *args, PyObject *given) {
  View views[MOST_ARGS];
  uint64_t slots[2 * MOST_ARGS];
  Entry *first = (Entry *)Py_NewRef(PyList_GET_ITEM(entries, 0));
  int found = read_views(first, args, views);
  Py_DECREF(first);
  if (!found) return 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(entries); i++) {
    Entry *e = (Entry *)Py_NewRef(PyList_GET_ITEM(entries, i));
    found = match(e, args, views, slots);
    if (found > 0) {
      remember(e, views);
      found = start(e, views, slots, given) ? 1 : -1;
    }
    Py_DECREF(e);
    if (found) return found;
  }
  return 0;
}

static int try_entries(Caller *caller, PyObject *const *args, Py_ssize_t n, PyObject *given) {
  PyObject *entries = caller->entries;
  if (!PyList_GET_SIZE(entries)) return 0;
  const Entry *first = (const Entry *)PyList_GET_ITEM(entries, 0);
  if (n != first->n_taken || (given && !first->cuda)) return 0;
  int ours = 0; /* whether the first array is of ours; then usually all are */
  for (int i = 0; i < first->n_taken && !ours; i++)
    if (first->params[i].role == ARRAY) {
      ours = Py_TYPE(args[i]) == our_type;
      break;
    }
  int found = ours ? try_known(entries, args, given) : 0;
  if (found) return found;
  /* Converting a number may have run Python code, which may have dropped all entries. */
  return PyList_GET_SIZE(entries) ? try_all(entries, args, given) : 0;
}

static PyObject *call_caller(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
  Caller *caller = (Caller *)self;
  Py_ssize_t n = PyVectorcall_NARGS(flags), options = names ? PyTuple_GET_SIZE(names) : 0;
  PyObject *given = NULL;
  if (options == 1 && PyUnicode_Compare(PyTuple_GET_ITEM(names, 0), s_stream) == 0) {
    given = args[n] == Py_None ? NULL : args[n];
    options = 0;
  }
  int found = options ? 0 : try_entries(caller, args, n, given);
  if (found > 0) Py_RETURN_NONE;
  if (found < 0 || PyErr_Occurred()) return NULL;
  return PyObject_Vectorcall(caller->slow, args, flags, names);
}

static PyObject *new_caller(PyTypeObject *type, PyObject *args, PyObject *options) {
  (void)options;
  PyObject *slow, *entries;
  if (!PyArg_ParseTuple(args, "OO!", &slow, &PyList_Type, &entries)) return NULL;
  Caller *caller = (Caller *)type->tp_alloc(type, 0);
  if (!caller) return NULL;
  caller->vectorcall = call_caller;
  caller->slow = Py_NewRef(slow);
  caller->entries = Py_NewRef(entries);
  return (PyObject *)caller;
}

static void free_caller(PyObject *self) {
  PyObject_GC_UnTrack(self);
  Py_XDECREF(((Caller *)self)->slow);
  Py_XDECREF(((Caller *)self)->entries);
  PyObject_GC_Del(self);
}

static int visit_caller(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(((Caller *)self)->slow);
  Py_VISIT(((Caller *)self)->entries);
  return 0;
}

static int clear_caller(PyObject *self) {
  Py_CLEAR(((Caller *)self)->entries);
  Py_CLEAR(((Caller *)self)->slow);
  return 0;
}

static PyTypeObject CallerType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "autotune_launcher.Caller",
    .tp_basicsize = sizeof(Caller),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Caller, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = free_caller,
    .tp_traverse = visit_caller,
    .tp_clear = clear_caller,
    .tp_new = new_caller,
};

