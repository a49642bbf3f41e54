/* An entry: one loaded function on one device, the arguments that it accepts, and its launch. */

/* ---- CUDA's driver, whose functions Python looks up ---- */
typedef void *Stream;
/* CUlaunchAttribute and CUlaunchConfig, for kernels with programmatic dependent launch. */
enum { PROGRAMMATIC_STREAM_SERIALIZATION = 6 };
typedef struct {
  int id;
  union { int allowed; uint64_t room[8]; } value;
} LaunchAttribute;
typedef struct {
  unsigned grid[3], block[3], shared;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned n_attributes;
} LaunchConfig;
typedef struct {
  int (*current)(void **context);
  int (*push)(void *context);
  int (*pop)(void **context);
  int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                unsigned bz, unsigned shared, Stream stream, void **params, void **extra);
  int (*memset8)(uint64_t where, unsigned char byte, size_t bytes, Stream stream);
  int (*copy)(uint64_t to, uint64_t from, size_t bytes, Stream stream);
  int (*capture)(Stream stream, int *status, uint64_t *id, void **graph, void **nodes,
                 size_t *n_nodes);
  int (*stream_id)(Stream stream, uint64_t *id); /* since CUDA 12 */
  int (*launch_with)(const LaunchConfig *config, void *function, void **params,
                     void **extra); /* since CUDA 11.8 */
} Driver;
static Driver driver;
enum { ACTIVE = 1, MOST_STATES = 128 };

typedef enum { ARRAY, BY_VALUE, SIZE, HIDDEN } Role;
typedef struct {
  Role role;
  int ndim, dtype, writes;
  int64_t *shape;
  uint64_t bytes;   /* of an array */
  uint64_t bits;    /* of a size */
  PyObject *to_bits; /* converts any number to bits, or raises the error */
  PyObject *shape_of, *dtype_of, *device_of; /* those objects of an array of ours that fitted */
} Param;
typedef struct {
  unsigned grid[3], block[3], shared;
  int early;         /* whether it may start before the previous call is complete (PDL) */
  uint64_t function; /* of the host; a state has those of a device */
  int n, *slots;
} Call;
typedef struct { int slot; size_t bytes; } Range;
/* The state of a stream or a capture: functions, workspaces, addresses of constants. */
typedef struct {
  uint64_t stream, capture;
  int used, users, captured;
  uint64_t *values;
} State;

typedef struct {
  PyObject_HEAD
  int cuda, device_id, n_params, n_taken, n_calls, n_spaces, n_zero, n_constants;
  void *context;
  Param *params;
  Call *calls;
  Range *zero, *constants;
  uint64_t filler;
  PyObject *prepare;
  State states[MOST_STATES];
  int turn;
  pthread_mutex_t lock;
  PyObject *failed;
} Entry;

static int n_values(const Entry *e) {
  return (e->cuda ? e->n_calls + e->n_constants : 0) + e->n_spaces;
}

/* Whether a call must be atomic: it has several launches, or uses memory that calls share. */
static int is_joint(const Entry *e) {
  return e->cuda ? e->n_calls + e->n_zero + e->n_constants > 1 : e->n_constants > 0;
}

/* ---- do the arguments fit? ---- */
static int fits(const Entry *e, const Param *p, const View *v) {
  if (v->dtype != p->dtype || v->ndim != p->ndim || !v->dense) return 0;
  if (v->device_type != (e->cuda ? CUDA : CPU) || v->device_id != e->device_id) return 0;
  if ((p->writes && !v->writable) || ((uintptr_t)v->data & 15)) return 0;
  return memcmp(v->shape, p->shape, sizeof(int64_t) * (size_t)p->ndim) == 0;
}

static int number_bits(const Param *p, PyObject *given, uint64_t *out) {
  int code = p->dtype >> 8, bits = p->dtype & 255;
  *out = 0;
  if (PyFloat_CheckExact(given) && code == 2 && bits >= 32) {
    double number = PyFloat_AS_DOUBLE(given);
    float narrow = (float)number;
    if (bits == 64 || !isinf(narrow) || isinf(number)) {
      if (bits == 64) memcpy(out, &number, 8);
      else memcpy(out, &narrow, 4);
      return 1;
    }
  } else if (PyLong_CheckExact(given) && code == 0) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(given, &overflow);
    long long most = bits == 64 ? INT64_MAX : (1LL << (bits - 1)) - 1;
    if (!overflow && number <= most && number >= -most - 1) {
      memcpy(out, &number, (size_t)bits / 8); /* little-endian, as all hosts of CUDA are */
      return 1;
    }
  }
  PyObject *found = PyObject_CallOneArg(p->to_bits, given);
  if (!found) return -1;
  *out = PyLong_AsUnsignedLongLongMask(found);
  Py_DECREF(found);
  return PyErr_Occurred() ? -1 : 1;
}

/* Matches numbers, and computes sizes from shapes. Returns as `match` does. */
static int match_numbers(const Entry *e, PyObject *const *args, uint64_t *slots) {
  for (int i = 0; i < e->n_params; i++) {
    const Param *p = &e->params[i];
    if (p->role == ARRAY) continue;
    if (p->role == HIDDEN) { slots[i] = p->bits; continue; }
    int found = number_bits(p, args[i], &slots[i]);
    if (found < 0) return -1;
    if (p->role == SIZE && slots[i] != p->bits) return 0;
  }
  return 1;
}

/* Whether an array that is written shares memory with another one. The whole of an array may be both
 * read and written by way of two arguments: kernels without exchange between elements work so. Arrays
 * are dense, so their bounds decide. */
static int overlaps(const Entry *e, const uint64_t *slots) {
  for (int i = 0; i < e->n_taken; i++) {
    const Param *p = &e->params[i];
    if (p->role != ARRAY || !p->writes) continue;
    for (int j = 0; j < e->n_taken; j++) {
      const Param *q = &e->params[j];
      if (j == i || q->role != ARRAY || slots[i] >= slots[j] + q->bytes ||
          slots[j] >= slots[i] + p->bytes)
        continue;
      if (q->writes || slots[i] != slots[j] || p->bytes != q->bytes) return 1;
    }
  }
  return 0;
}

/* Returns 1 and fills the slots, 0 if this is not the entry for them, -1 with an exception. */
static int match(const Entry *e, PyObject *const *args, const View *views, uint64_t *slots) {
  for (int i = 0; i < e->n_taken; i++) {
    if (e->params[i].role != ARRAY) continue;
    if (!fits(e, &e->params[i], &views[i])) return 0;
    slots[i] = (uint64_t)(uintptr_t)views[i].data;
  }
  return overlaps(e, slots) ? 0 : match_numbers(e, args, slots);
}

/* A fast path for calls with arrays of ours only: arrays of one shape share their shape, dtype and
 * device objects, so comparing addresses with those of arrays that fitted suffices. */
static int recall(const Entry *e, PyObject *const *args, uint64_t *slots) {
  for (int i = 0; i < e->n_taken; i++) {
    const Param *p = &e->params[i];
    if (p->role != ARRAY) continue;
    PyObject *array = args[i];
    if (Py_TYPE(array) != our_type || slot(array, at_shape) != p->shape_of || !p->shape_of ||
        slot(array, at_dtype) != p->dtype_of || slot(array, at_device) != p->device_of)
      return 0;
    PyObject *address = slot(array, at_address);
    if (!address || !PyLong_CheckExact(address)) return 0;
    slots[i] = PyLong_AsUnsignedLongLongMask(address);
    if (slots[i] & 15) return 0;
  }
  return overlaps(e, slots) ? 0 : match_numbers(e, args, slots);
}

static void remember(Entry *e, const View *views) {
  for (int i = 0; i < e->n_taken; i++) {
    Param *p = &e->params[i];
    if (p->role != ARRAY || views[i].row->kind != OURS) continue;
    Py_XSETREF(p->shape_of, Py_XNewRef(slot(views[i].object, at_shape)));
    Py_XSETREF(p->dtype_of, Py_XNewRef(slot(views[i].object, at_dtype)));
    Py_XSETREF(p->device_of, Py_XNewRef(slot(views[i].object, at_device)));
  }
}

/* ---- states ---- */
static int read_values(const Entry *e, State *state, PyObject *given) {
  int n = n_values(e);
  if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != n) {
    PyErr_SetString(PyExc_SystemError, "prepare: expected one address for each value");
    return 0;
  }
  if (!state->values) state->values = PyMem_Malloc(sizeof(uint64_t) * (size_t)(n + 1));
  if (!state->values) { PyErr_NoMemory(); return 0; }
  for (int i = 0; i < n; i++)
    state->values[i] = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(given, i));
  return !PyErr_Occurred();
}

static State *free_state(Entry *e) {
  for (int i = 0; i < MOST_STATES; i++)
    if (!e->states[i].used && !e->states[i].users) return &e->states[i];
  for (int i = 0; i < MOST_STATES; i++) {
    State *next = &e->states[e->turn++ % MOST_STATES];
    if (!next->users) return next;
  }
  PyErr_SetString(PyExc_RuntimeError, "more calls of one function at once than there is room for");
  return NULL;
}

/* Calls Python to create the state of a stream; other threads may run meanwhile. */
static State *new_state(Entry *e, uint64_t key, Stream stream, uint64_t capture, void *graph) {
  PyObject *given = PyObject_CallFunction(
      e->prepare, "KKKK", (unsigned long long)key, (unsigned long long)(uintptr_t)stream,
      (unsigned long long)capture, (unsigned long long)(uintptr_t)graph);
  if (!given) return NULL;
  State *state = free_state(e);
  if (state && !read_values(e, state, given)) state = NULL;
  Py_DECREF(given);
  if (!state) return NULL;
  state->stream = key;
  state->capture = capture;
  state->used = 1;
  return state;
}

static int refuse(const Entry *e, const char *what, int status) {
  PyObject *ignored = PyObject_CallFunction(e->failed, "si", what, status);
  Py_XDECREF(ignored);
  return 0;
}

static State *state_on(Entry *e, Stream stream) {
  int status = 0, stateful = e->n_spaces || e->n_constants;
  uint64_t capture = 0, key = 0;
  void *graph = NULL;
  /* The default stream, by either of its names, can never be captured. */
  int is_default = (uintptr_t)stream <= 1;
  int code = is_default ? 0 : driver.capture(stream, &status, &capture, &graph, NULL, NULL);
  if (code) { refuse(e, "cuStreamGetCaptureInfo", code); return NULL; }
  if (status != ACTIVE) capture = 0;
  if (stateful || capture) {
    key = (uint64_t)(uintptr_t)stream;
    /* The handle of a destroyed stream may be reused; but querying it would end a capture. */
    if (!capture && driver.stream_id && (code = driver.stream_id(stream, &key))) {
      refuse(e, "cuStreamGetId", code);
      return NULL;
    }
  }
  for (int i = 0; i < MOST_STATES; i++)
    if (e->states[i].used && e->states[i].stream == key && e->states[i].capture == capture)
      return &e->states[i];
  return new_state(e, key, stream, capture, graph);
}

/* ---- start ---- */
static int launch(const Call *c, void *function, Stream stream, void **params) {
  const unsigned *g = c->grid, *b = c->block;
  if (!c->early)
    return driver.launch(function, g[0], g[1], g[2], b[0], b[1], b[2], c->shared, stream, params,
                         NULL);
  LaunchAttribute early = {PROGRAMMATIC_STREAM_SERIALIZATION, {.allowed = 1}};
  LaunchConfig config = {
      {g[0], g[1], g[2]}, {b[0], b[1], b[2]}, c->shared, stream, &early, 1};
  return driver.launch_with(&config, function, params, NULL);
}

static const char *launch_all(Entry *e, const State *state, uint64_t *slots, Stream stream,
                              int *status) {
  const uint64_t *constants = state->values + e->n_calls + e->n_spaces;
  memcpy(slots + e->n_params, state->values + e->n_calls, sizeof(uint64_t) * (size_t)e->n_spaces);
  for (int i = 0; i < e->n_constants; i++) {
    const Range *r = &e->constants[i];
    if ((*status = driver.copy(constants[i], slots[r->slot], r->bytes, stream)))
      return "cuMemcpyDtoDAsync";
  }
  for (int i = 0; i < e->n_zero; i++) {
    const Range *r = &e->zero[i];
    if ((*status = driver.memset8(slots[r->slot], 0, r->bytes, stream))) return "cuMemsetD8Async";
  }
  for (int i = 0; i < e->n_calls; i++) {
    const Call *c = &e->calls[i];
    void *params[2 * MOST_ARGS];
    for (int j = 0; j < c->n; j++) params[j] = &slots[c->slots[j]];
    *status = launch(c, (void *)(uintptr_t)state->values[i], stream, params);
    if (*status) return c->early ? "cuLaunchKernelEx" : "cuLaunchKernel";
  }
  return NULL;
}

static int start_cuda(Entry *e, uint64_t *slots, Stream stream) {
  void *before = NULL;
  int status = driver.current(&before), pushed = before != e->context;
  if (pushed && (status = driver.push(e->context))) return refuse(e, "cuCtxPushCurrent", status);
  const char *what = NULL;
  State *state = state_on(e, stream);
  if (state) {
    state->users++;
    Py_BEGIN_ALLOW_THREADS
    if (is_joint(e)) pthread_mutex_lock(&e->lock);
    what = launch_all(e, state, slots, stream, &status);
    if (is_joint(e)) pthread_mutex_unlock(&e->lock);
    Py_END_ALLOW_THREADS
    state->users--;
  }
  if (pushed) driver.pop(&before);
  if (what) return refuse(e, what, status);
  return state != NULL;
}

static void run_host(Entry *e, const State *state, uint64_t *slots) {
  memcpy(slots + e->n_params, state->values, sizeof(uint64_t) * (size_t)e->n_spaces);
  if (e->n_constants) {
    void *from[MOST_ARGS];
    for (int i = 0; i < e->n_constants; i++)
      from[i] = (void *)(uintptr_t)slots[e->constants[i].slot];
    ((void (*)(void **))(uintptr_t)e->filler)(from);
  }
  for (int i = 0; i < e->n_zero; i++)
    memset((void *)(uintptr_t)slots[e->zero[i].slot], 0, e->zero[i].bytes);
  for (int i = 0; i < e->n_calls; i++) {
    const Call *c = &e->calls[i];
    void *args[2 * MOST_ARGS];
    for (int j = 0; j < c->n; j++) {
      int slot = c->slots[j];
      int by_value = slot < e->n_params && e->params[slot].role != ARRAY;
      args[j] = by_value ? (void *)&slots[slot] : (void *)(uintptr_t)slots[slot];
    }
    ((void (*)(void **))(uintptr_t)c->function)(args);
  }
}

/* Each run has its own workspaces: those of a completed run, or new ones. */
static int run_on_host(Entry *e, uint64_t *slots) {
  State *state = NULL;
  for (int i = 0; i < MOST_STATES && !state; i++)
    if (e->states[i].used && !e->states[i].users) state = &e->states[i];
  if (!state && !(state = new_state(e, 0, NULL, 0, NULL))) return 0;
  state->users++;
  Py_BEGIN_ALLOW_THREADS
  if (is_joint(e)) pthread_mutex_lock(&e->lock);
  run_host(e, state, slots);
  if (is_joint(e)) pthread_mutex_unlock(&e->lock);
  Py_END_ALLOW_THREADS
  state->users--;
  return 1;
}
