/* The Python type of an entry. */

static void free_entry(PyObject *self) {
  Entry *e = (Entry *)self;
  PyObject_GC_UnTrack(self);
  for (int i = 0; e->params && i < e->n_params; i++) {
    PyMem_Free(e->params[i].shape);
    Py_XDECREF(e->params[i].to_bits);
    Py_XDECREF(e->params[i].shape_of);
    Py_XDECREF(e->params[i].dtype_of);
    Py_XDECREF(e->params[i].device_of);
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
  uint64_t bits_in_all = (uint64_t)(p->dtype & 255);
  for (int i = 0; i < p->ndim; i++) {
    p->shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    bits_in_all *= (uint64_t)p->shape[i];
  }
  p->bytes = (bits_in_all + 7) / 8;
  return !PyErr_Occurred();
}

static int parse_call(Call *c, PyObject *row) {
  PyObject *slots;
  unsigned long long function;
  if (!PyArg_ParseTuple(row, "(III)(III)IiKO!", &c->grid[0], &c->grid[1], &c->grid[2],
                        &c->block[0], &c->block[1], &c->block[2], &c->shared, &c->early, &function,
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

/* Drops the state of a stream; returns whether it is not in use. */
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

