/* The Python types: an entry, and the caller that finds the entry for its arguments. */
static PyObject *stream_of;

static void free_entry(PyObject *self) {
  Entry *e = (Entry *)self;
  PyObject_GC_UnTrack(self);
  for (int i = 0; e->params && i < e->n_params; i++) {
    PyMem_Free(e->params[i].shape);
    Py_XDECREF(e->params[i].to_bits);
  }
  for (int i = 0; e->calls && i < e->n_calls; i++) PyMem_Free(e->calls[i].slots);
  for (int i = 0; i < MOST_STATES; i++) PyMem_Free(e->states[i].values);
  PyMem_Free(e->params);
  PyMem_Free(e->calls);
  PyMem_Free(e->zero);
  PyMem_Free(e->constants);
  Py_XDECREF(e->prepare);
  Py_XDECREF(e->failed);
  pthread_mutex_destroy(&e->lock);
  PyObject_GC_Del(self);
}

static int visit_entry(PyObject *self, visitproc visit, void *arg) {
  Entry *e = (Entry *)self;
  Py_VISIT(e->prepare);
  Py_VISIT(e->failed);
  for (int i = 0; e->params && i < e->n_params; i++) Py_VISIT(e->params[i].to_bits);
  return 0;
}

static int clear_entry(PyObject *self) {
  Entry *e = (Entry *)self;
  Py_CLEAR(e->prepare);
  Py_CLEAR(e->failed);
  return 0;
}

static int parse_param(Param *p, PyObject *row) {
  PyObject *shape, *to_bits;
  unsigned long long bits;
  int role;
  if (!PyArg_ParseTuple(row, "iiiO!KO", &role, &p->dtype, &p->writes, &PyTuple_Type, &shape, &bits,
                        &to_bits))
    return 0;
  p->role = (Role)role;
  p->bits = bits;
  p->to_bits = Py_NewRef(to_bits);
  p->ndim = (int)PyTuple_GET_SIZE(shape);
  if (!(p->shape = PyMem_Malloc(sizeof(int64_t) * (size_t)(p->ndim + 1)))) return 0;
  for (int i = 0; i < p->ndim; i++) p->shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
  return !PyErr_Occurred();
}

static int parse_call(Call *c, PyObject *row) {
  PyObject *slots;
  unsigned long long function;
  if (!PyArg_ParseTuple(row, "(III)(III)IKO!", &c->grid[0], &c->grid[1], &c->grid[2],
                        &c->block[0], &c->block[1], &c->block[2], &c->shared, &function,
                        &PyTuple_Type, &slots))
    return 0;
  c->function = function;
  c->n = (int)PyTuple_GET_SIZE(slots);
  if (c->n > 2 * MOST_ARGS || !(c->slots = PyMem_Malloc(sizeof(int) * (size_t)(c->n + 1)))) return 0;
  for (int i = 0; i < c->n; i++) c->slots[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(slots, i));
  return !PyErr_Occurred();
}

static int parse_range(Range *r, PyObject *row) {
  unsigned long long bytes;
  if (!PyArg_ParseTuple(row, "iK", &r->slot, &bytes)) return 0;
  r->bytes = (size_t)bytes;
  return 1;
}

/* Fills an array of rows from a tuple of tuples. */
#define PARSE_ALL(rows, count, given, type, parse)                                   \
  do {                                                                               \
    int n_ = (int)PyTuple_GET_SIZE(given);                                           \
    if (!((rows) = PyMem_Calloc((size_t)n_ + 1, sizeof(type)))) return -1;           \
    for ((count) = 0; (count) < n_;) {                                               \
      type *row_ = &(rows)[(count)++];                                               \
      if (!parse(row_, PyTuple_GET_ITEM(given, (count) - 1))) return -1;             \
    }                                                                                \
  } while (0)

static int parse_entry(Entry *e, PyObject *args) {
  PyObject *params, *calls, *zero, *constants, *prepare, *failed;
  unsigned long long context, filler;
  if (!PyArg_ParseTuple(args, "iiKO!O!iO!O!KOO", &e->cuda, &e->device_id, &context, &PyTuple_Type,
                        &params, &PyTuple_Type, &calls, &e->n_spaces, &PyTuple_Type, &zero,
                        &PyTuple_Type, &constants, &filler, &prepare, &failed))
    return -1;
  if (PyTuple_GET_SIZE(params) > MOST_ARGS || e->n_spaces > MOST_ARGS) {
    PyErr_SetString(PyExc_ValueError, "too many arguments");
    return -1;
  }
  e->context = (void *)(uintptr_t)context;
  e->filler = filler;
  e->prepare = Py_NewRef(prepare);
  e->failed = Py_NewRef(failed);
  PARSE_ALL(e->params, e->n_params, params, Param, parse_param);
  PARSE_ALL(e->calls, e->n_calls, calls, Call, parse_call);
  PARSE_ALL(e->zero, e->n_zero, zero, Range, parse_range);
  PARSE_ALL(e->constants, e->n_constants, constants, Range, parse_range);
  for (e->n_taken = 0; e->n_taken < e->n_params; e->n_taken++)
    if (e->params[e->n_taken].role == HIDDEN) break;
  return 0;
}

static PyObject *new_entry(PyTypeObject *type, PyObject *args, PyObject *options) {
  (void)options;
  Entry *e = (Entry *)type->tp_alloc(type, 0);
  if (!e) return NULL;
  pthread_mutex_init(&e->lock, NULL);
  if (parse_entry(e, args) < 0) {
    if (!PyErr_Occurred()) PyErr_NoMemory();
    Py_DECREF(e);
    return NULL;
  }
  return (PyObject *)e;
}

/* Drops what is known of a stream; returns whether nobody is using it. */
static PyObject *forget(PyObject *self, PyObject *args) {
  Entry *e = (Entry *)self;
  unsigned long long key, capture;
  if (!PyArg_ParseTuple(args, "KK", &key, &capture)) return NULL;
  for (int i = 0; i < MOST_STATES; i++) {
    State *s = &e->states[i];
    if (!s->used || s->stream != key || s->capture != capture) continue;
    if (s->users) Py_RETURN_FALSE;
    s->used = 0;
  }
  Py_RETURN_TRUE;
}

/* run(values, stream): starts it on addresses, and bits of numbers, that were checked before. */
static PyObject *run_entry(PyObject *self, PyObject *args) {
  Entry *e = (Entry *)self;
  uint64_t slots[2 * MOST_ARGS];
  PyObject *values;
  unsigned long long stream;
  if (!PyArg_ParseTuple(args, "O!K", &PyTuple_Type, &values, &stream)) return NULL;
  if (PyTuple_GET_SIZE(values) != e->n_params) {
    PyErr_SetString(PyExc_ValueError, "run: expected one value for each argument");
    return NULL;
  }
  for (int i = 0; i < e->n_params; i++)
    slots[i] = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(values, i));
  if (PyErr_Occurred()) return NULL;
  int done = e->cuda ? start_cuda(e, slots, (Stream)(uintptr_t)stream) : run_on_host(e, slots);
  if (!done) return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef entry_methods[] = {
    {"forget", forget, METH_VARARGS, NULL}, {"run", run_entry, METH_VARARGS, NULL}, {0}};
static PyTypeObject EntryType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "autotune_launcher.Entry",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = free_entry,
    .tp_traverse = visit_entry,
    .tp_clear = clear_entry,
    .tp_new = new_entry,
    .tp_methods = entry_methods,
};

/* ---- callers ---- */
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

/* The caller's current stream: of the library that a tensor is of, else of one that is loaded. */
static int current_stream(const Entry *e, const View *views, Stream *out) {
  const Exchange *exchange = NULL;
  for (int i = 0; i < e->n_taken && !exchange; i++)
    if (e->params[i].role == ARRAY) exchange = views[i].row->exchange;
  if (!exchange) exchange = torch_exchange;
  if (exchange) {
    void *found = NULL;
    if (exchange->current_stream(CUDA, e->device_id, &found) != 0) PyErr_Clear();
    *out = found;
    return 1;
  }
  PyObject *modules = PyImport_GetModuleDict();
  *out = NULL;
  if (!PyDict_GetItemWithError(modules, s_torch) && !PyDict_GetItemWithError(modules, s_cupy))
    return !PyErr_Occurred();
  return number_of_stream(Py_None, e->device_id, out);
}

static int is_written_tensor(const Param *p, const View *v) {
  return p->role == ARRAY && p->writes && v->row->of_torch;
}

/* Tells torch which of its tensors are written: backward refuses what it saved and was changed. */
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

static int start(Entry *e, const View *views, uint64_t *slots, PyObject *given) {
  Stream stream = NULL;
  if (!note_written(e, views)) return 0;
  if (!e->cuda) return run_on_host(e, slots);
  if (given ? !number_of_stream(given, e->device_id, &stream) : !current_stream(e, views, &stream))
    return 0;
  return start_cuda(e, slots, stream);
}

/* Reads what arrays are; all entries of a caller have theirs in the same places. */
static int read_views(const Entry *e, PyObject *const *args, View *views) {
  for (int i = 0; i < e->n_taken; i++) {
    if (e->params[i].role != ARRAY) {
      views[i].object = args[i];
      views[i].row = row_of(Py_TYPE(args[i]));
    } else if (!read_view(&views[i], args[i])) {
      return 0;
    }
  }
  return 1;
}

/* Returns 1 if it was started, 0 if no entry is for these arguments, -1 with an exception. */
static int try_entries(Caller *caller, PyObject *const *args, Py_ssize_t n, PyObject *given) {
  View views[MOST_ARGS];
  uint64_t slots[2 * MOST_ARGS];
  if (!PyList_GET_SIZE(caller->entries) || n > MOST_ARGS) return 0;
  /* Held: others may drop entries whenever code of Python runs. */
  Entry *first = (Entry *)Py_NewRef(PyList_GET_ITEM(caller->entries, 0));
  int found = n == first->n_taken && (!given || first->cuda) && read_views(first, args, views);
  Py_DECREF(first);
  if (!found) return 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(caller->entries); i++) {
    Entry *e = (Entry *)Py_NewRef(PyList_GET_ITEM(caller->entries, i));
    found = match(e, views, slots);
    if (found > 0) found = start(e, views, slots, given) ? 1 : -1;
    Py_DECREF(e);
    if (found) return found;
  }
  return 0;
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

/* ---- module ---- */
static PyObject *set_driver(PyObject *module, PyObject *args) {
  (void)module;
  unsigned long long a[8];
  if (!PyArg_ParseTuple(args, "KKKKKKKK", &a[0], &a[1], &a[2], &a[3], &a[4], &a[5], &a[6], &a[7]))
    return NULL;
  void *functions[8];
  for (int i = 0; i < 8; i++) functions[i] = (void *)(uintptr_t)a[i];
  memcpy(&driver, functions, sizeof driver);
  Py_RETURN_NONE;
}

/* set_up(numpy's array type, our array type, ((dtype, code, numpy number), ...), stream_of,
 *        what gives what raises versions) */
static PyObject *set_up(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *rows;
  if (!PyArg_ParseTuple(args, "O!O!O!OO", &PyType_Type, &numpy_type, &PyType_Type, &our_type,
                        &PyTuple_Type, &rows, &stream_of, &find_raise_versions) ||
      !find_slots(our_type))
    return NULL;
  Py_INCREF(numpy_type);
  Py_INCREF(our_type);
  Py_INCREF(stream_of);
  Py_INCREF(find_raise_versions);
  for (n_dtypes = 0; n_dtypes < PyTuple_GET_SIZE(rows) && n_dtypes < 32; n_dtypes++) {
    int code, bits;
    PyObject *name;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, n_dtypes), "O!iii", &PyUnicode_Type, &name, &code,
                          &bits, &dtypes[n_dtypes].numpy_number))
      return NULL;
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    dtypes[n_dtypes].name = name;
    dtypes[n_dtypes].code = dtype_code(code, bits);
  }
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_driver", set_driver, METH_VARARGS, NULL}, {"set_up", set_up, METH_VARARGS, NULL}, {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "autotune_launcher", NULL, -1,
                                        functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_autotune_launcher(void) {
  static const struct { PyObject **where; const char *text; } names[] = {
      {&s_device_type, "device_type"}, {&s_index, "index"},
      {&s_exchange, "__dlpack_c_exchange_api__"}, {&s_requires_grad, "requires_grad"},
      {&s_stream, "stream"}, {&s_torch, "torch"}, {&s_cupy, "cupy"}, {&s_tensor, "Tensor"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!(*names[i].where = PyUnicode_InternFromString(names[i].text))) return NULL;
  if (PyType_Ready(&EntryType) < 0 || PyType_Ready(&CallerType) < 0) return NULL;
  PyObject *module = PyModule_Create(&definition);
  if (!module || PyModule_AddObjectRef(module, "Entry", (PyObject *)&EntryType) < 0 ||
      PyModule_AddObjectRef(module, "Caller", (PyObject *)&CallerType) < 0 ||
      PyModule_AddIntConstant(module, "MOST_ARGS", MOST_ARGS) < 0)
    return NULL;
  return module;
}

/* Named as the entry of this file; nobody calls it. */
void autotune_launcher_entry(void) {}
