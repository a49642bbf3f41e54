/* Arguments of a call, read without Python code: torch's and other tensors by DLPack's C exchange,
 * arrays of ours by their slots, numpy's by its headers. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <pthread.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/ndarraytypes.h>

_Static_assert(sizeof(void *) == 8 && sizeof(npy_intp) == 8, "addresses of 64 bits");

enum { MOST_ARGS = 64, MOST_DIMS = 8, MOST_TYPES = 32, CPU = 1, CUDA = 2, CUDA_HOST = 3 };

/* ---- DLPack 1.3 (dlpack.h), the part that is used ---- */
typedef struct { int32_t type, id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct Exchange {
  uint32_t major, minor;
  struct Exchange *previous;
  void *allocate, *managed_from_object, *managed_to_object;
  int (*tensor_from_object)(void *object, DLTensor *out);
  int (*current_stream)(int32_t type, int32_t id, void **out);
} Exchange;

/* ---- what an argument is ---- */
typedef enum { UNKNOWN, OTHER, NUMPY, OURS, EXCHANGED } Kind;
typedef struct {
  PyTypeObject *type;
  Kind kind;
  const Exchange *exchange;
  int of_torch;
} TypeRow;
typedef struct {
  PyObject *object;
  const TypeRow *row;
  char *data;
  int ndim, dtype, device_type, device_id, writable, dense;
  const int64_t *shape;
  int64_t own[MOST_DIMS];
} View;

static TypeRow types[MOST_TYPES];
static int n_types;
static PyTypeObject *numpy_type, *our_type;
/* Names of element types and their DLPack code * 256 + bits; numpy's numbers of them. */
static struct { PyObject *name; int code, numpy_number; } dtypes[32];
static int n_dtypes;
static struct { PyObject *object; int type, id; } devices[16];
static int n_devices;
static PyObject *s_device_type, *s_index;
/* Offsets of the slots of an array of ours. */
static Py_ssize_t at_shape, at_dtype, at_device, at_address;
static PyObject *s_exchange, *s_requires_grad, *s_stream, *s_torch, *s_cupy, *s_tensor;
/* Of torch, once a tensor has come: torch.is_grad_enabled, torch.Tensor.is_neg and requires_grad,
 * and what raises the versions of several tensors. */
static PyObject *grad_enabled, *is_negated, *raise_versions, *gradient_of;
static PyObject *find_raise_versions; /* returns it */
static const Exchange *torch_exchange;

/* Booleans are bytes: libraries disagree on their DLPack code. */
static int dtype_code(int code, int bits) { return (code == 6 ? 1 : code) << 8 | bits; }

static const Exchange *exchange_of(PyTypeObject *type) {
  /* Of the type itself: a subclass may hold no memory, as torch's fake tensors do. */
  PyObject *capsule = type->tp_dict ? PyDict_GetItemWithError(type->tp_dict, s_exchange) : NULL;
  if (!capsule || !PyCapsule_IsValid(capsule, "dlpack_exchange_api")) return NULL;
  const Exchange *found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  while (found && found->major > 1) found = found->previous;
  return found && found->major == 1 && found->tensor_from_object && found->current_stream
             ? found
             : NULL;
}

static const Exchange *exchange_of_torch(PyObject *torch) {
  PyObject *tensor = PyObject_GetAttr(torch, s_tensor);
  const Exchange *found =
      tensor && PyType_Check(tensor) ? exchange_of((PyTypeObject *)tensor) : NULL;
  Py_XDECREF(tensor);
  return found;
}

/* Whether a program has used devices by torch; before that it can have no stream of its own. */
static int uses_cuda(PyObject *torch) {
  PyObject *cuda = PyObject_GetAttrString(torch, "cuda");
  PyObject *found = cuda ? PyObject_CallMethod(cuda, "is_initialized", NULL) : NULL;
  int used = found == Py_True;
  Py_XDECREF(cuda);
  Py_XDECREF(found);
  return used;
}

static int is_parameter(PyTypeObject *type) {
  return strcmp(type->tp_name, "Parameter") == 0 && type->tp_base &&
         strcmp(type->tp_base->tp_name, "Tensor") == 0;
}

static int learn_torch(PyObject *torch, PyObject *tensor, const Exchange *exchange) {
  if (!grad_enabled) grad_enabled = PyObject_GetAttrString(torch, "is_grad_enabled");
  if (!is_negated) is_negated = PyObject_GetAttrString(tensor, "is_neg");
  if (!gradient_of) gradient_of = PyObject_GetAttr(tensor, s_requires_grad);
  if (!raise_versions) raise_versions = PyObject_CallNoArgs(find_raise_versions);
  torch_exchange = exchange;
  return grad_enabled && is_negated && gradient_of && raise_versions;
}

static void learn_type(TypeRow *row, PyTypeObject *type) {
  row->type = (PyTypeObject *)Py_NewRef((PyObject *)type);
  row->kind = OTHER;
  if (type == our_type) row->kind = OURS;
  else if (type == numpy_type) row->kind = NUMPY;
  else {
    row->exchange = exchange_of(is_parameter(type) ? type->tp_base : type);
    if (!row->exchange) { PyErr_Clear(); return; }
    row->kind = EXCHANGED;
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *torch = PyDict_GetItemWithError(modules, s_torch);
    PyObject *tensor = torch ? PyObject_GetAttr(torch, s_tensor) : NULL;
    row->of_torch =
        tensor && PyType_Check(tensor) && PyType_IsSubtype(type, (PyTypeObject *)tensor);
    /* Without these functions, calls take the slow path in Python. */
    if (row->of_torch && !learn_torch(torch, tensor, row->exchange)) row->kind = OTHER;
    Py_XDECREF(tensor);
    PyErr_Clear();
  }
}

static const TypeRow *known_row(PyTypeObject *type) {
  for (int i = 0; i < n_types; i++)
    if (types[i].type == type) return &types[i];
  return NULL;
}

static const TypeRow *row_of(PyTypeObject *type) {
  static TypeRow unknown = {NULL, OTHER, NULL, 0};
  const TypeRow *known = known_row(type);
  if (known || n_types == MOST_TYPES) return known ? known : &unknown;
  /* This runs Python code, during which other threads may have done the same. */
  TypeRow fresh = {0};
  learn_type(&fresh, type);
  if ((known = known_row(type)) || n_types == MOST_TYPES) {
    Py_DECREF(fresh.type);
    return known ? known : &unknown;
  }
  types[n_types] = fresh;
  return &types[n_types++];
}

static int is_dense(int ndim, const int64_t *shape, const int64_t *strides) {
  int64_t step = 1;
  if (!strides) return 1;
  for (int i = ndim - 1; i >= 0; i--) {
    if (shape[i] != 1 && strides[i] != step) return 0;
    step *= shape[i];
  }
  return 1;
}

/* Reads an attribute of a tensor of torch by its getter, without looking that up again. */
static PyObject *wants_gradient(PyObject *tensor) {
  if (gradient_of && Py_TYPE(gradient_of) == &PyGetSetDescr_Type) {
    PyGetSetDef *known = ((PyGetSetDescrObject *)gradient_of)->d_getset;
    return known->get(tensor, known->closure);
  }
  return PyObject_GetAttr(tensor, s_requires_grad);
}

/* Whether a tensor may have torch's negative bit. Only imaginary parts of conjugated tensors have
 * it; they are strided, so that only those of one element appear dense. */
static int may_be_negated(const DLTensor *tensor) {
  for (int i = 0; i < tensor->ndim; i++)
    if (tensor->shape[i] != 1) return 0;
  return 1;
}

/* Whether a tensor of torch has the values of its memory, and needs no gradient. */
static int is_plain(PyObject *object, const DLTensor *tensor) {
  PyObject *wanted = wants_gradient(object);
  PyObject *on = wanted == Py_True ? PyObject_CallNoArgs(grad_enabled) : Py_XNewRef(wanted);
  int plain = on == Py_False;
  Py_XDECREF(wanted);
  Py_XDECREF(on);
  if (plain && may_be_negated(tensor)) {
    PyObject *negated = PyObject_CallOneArg(is_negated, object);
    plain = negated == Py_False;
    Py_XDECREF(negated);
  }
  return plain;
}

static int read_exchanged(View *view) {
  DLTensor tensor;
  if (view->row->exchange->tensor_from_object(view->object, &tensor) != 0) {
    PyErr_Clear();
    return 0;
  }
  if (tensor.dtype.lanes != 1 || !tensor.data) return 0;
  if (view->row->of_torch && !is_plain(view->object, &tensor)) { PyErr_Clear(); return 0; }
  view->data = (char *)tensor.data + tensor.byte_offset;
  view->ndim = tensor.ndim;
  view->shape = tensor.shape;
  view->dtype = dtype_code(tensor.dtype.code, tensor.dtype.bits);
  view->device_type = tensor.device.type == CUDA_HOST ? CPU : tensor.device.type;
  view->device_id = view->device_type == CPU ? 0 : tensor.device.id;
  view->writable = 1;
  view->dense = is_dense(tensor.ndim, tensor.shape, tensor.strides);
  return 1;
}

static int read_numpy(View *view) {
  PyArrayObject *array = (PyArrayObject *)view->object;
  int number = PyArray_DESCR(array)->type_num;
  view->dtype = 0;
  for (int i = 0; i < n_dtypes && !view->dtype; i++)
    if (dtypes[i].numpy_number == number) view->dtype = dtypes[i].code;
  view->data = PyArray_BYTES(array);
  view->ndim = PyArray_NDIM(array);
  view->shape = (const int64_t *)PyArray_DIMS(array);
  view->device_type = CPU;
  view->device_id = 0;
  view->writable = (PyArray_FLAGS(array) & NPY_ARRAY_WRITEABLE) != 0;
  view->dense = (PyArray_FLAGS(array) & NPY_ARRAY_C_CONTIGUOUS) != 0;
  return view->dtype && PyArray_DESCR(array)->byteorder != NPY_OPPBYTE;
}

static int device_of(View *view, PyObject *device) {
  for (int i = 0; i < n_devices; i++)
    if (devices[i].object == device) {
      view->device_type = devices[i].type;
      view->device_id = devices[i].id;
      return 1;
    }
  PyObject *type = PyObject_GetAttr(device, s_device_type);
  PyObject *index = PyObject_GetAttr(device, s_index);
  if (type && index) {
    view->device_type = (int)PyLong_AsLong(type);
    view->device_id = (int)PyLong_AsLong(index);
  }
  Py_XDECREF(type);
  Py_XDECREF(index);
  if (PyErr_Occurred()) return 0;
  if (n_devices < 16) {
    devices[n_devices].object = Py_NewRef(device);
    devices[n_devices].type = view->device_type;
    devices[n_devices++].id = view->device_id;
  }
  return 1;
}

static int our_shape(View *view, PyObject *shape) {
  if (!PyTuple_CheckExact(shape) || PyTuple_GET_SIZE(shape) > MOST_DIMS) return 0;
  view->ndim = (int)PyTuple_GET_SIZE(shape);
  view->shape = view->own;
  for (int i = 0; i < view->ndim; i++)
    view->own[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
  return !PyErr_Occurred();
}

static int our_dtype(View *view, PyObject *name) {
  for (int i = 0; i < n_dtypes; i++)
    if (dtypes[i].name == name) return view->dtype = dtypes[i].code;
  for (int i = 0; i < n_dtypes; i++)
    if (PyUnicode_Check(name) && PyUnicode_Compare(dtypes[i].name, name) == 0)
      return view->dtype = dtypes[i].code;
  return 0;
}

static PyObject *slot(PyObject *object, Py_ssize_t at) { return *(PyObject **)((char *)object + at); }

static int read_ours(View *view) {
  PyObject *shape = slot(view->object, at_shape), *dtype = slot(view->object, at_dtype);
  PyObject *device = slot(view->object, at_device), *address = slot(view->object, at_address);
  if (!shape || !dtype || !device || !address) return 0;
  int read = our_shape(view, shape) && our_dtype(view, dtype) && device_of(view, device);
  if (read) view->data = PyLong_AsVoidPtr(address);
  view->writable = view->dense = 1;
  if (PyErr_Occurred()) { PyErr_Clear(); return 0; }
  return read;
}

/* Returns the offset of a slot in instances of a class; -1 with an exception if it is not one. */
static Py_ssize_t place_of(PyTypeObject *type, const char *name) {
  PyObject *found = PyDict_GetItemString(type->tp_dict, name);
  if (!found || Py_TYPE(found) != &PyMemberDescr_Type) {
    PyErr_Format(PyExc_TypeError, "%s has no slot %s", type->tp_name, name);
    return -1;
  }
  return ((PyMemberDescrObject *)found)->d_member->offset;
}

static int find_slots(PyTypeObject *type) {
  return (at_shape = place_of(type, "shape")) >= 0 && (at_dtype = place_of(type, "dtype")) >= 0 &&
         (at_device = place_of(type, "device")) >= 0 &&
         (at_address = place_of(type, "_address")) >= 0;
}

/* Returns whether the object is an array that could be read. */
static int read_view(View *view, PyObject *object) {
  view->object = object;
  view->row = row_of(Py_TYPE(object));
  switch (view->row->kind) {
    case EXCHANGED: return read_exchanged(view);
    case OURS: return read_ours(view);
    case NUMPY: return read_numpy(view);
    default: return 0;
  }
}
