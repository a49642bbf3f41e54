/* ---- module ---- */
/* set_driver(address, ...): the functions of a Driver in its order, 0 for those it does not have */
static PyObject *set_driver(PyObject *module, PyObject *args) {
  (void)module;
  void *functions[sizeof driver / sizeof(void *)];
  const Py_ssize_t wanted = sizeof functions / sizeof *functions, given = PyTuple_GET_SIZE(args);
  if (given != wanted)
    return PyErr_Format(PyExc_TypeError, "expected %zd functions, got %zd", wanted, given);
  for (Py_ssize_t i = 0; i < wanted; i++)
    functions[i] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(args, i));
  if (PyErr_Occurred()) return NULL;
  memcpy(&driver, functions, sizeof driver);
  Py_RETURN_NONE;
}

/* set_up(numpy's array type, our array type, ((dtype, code, numpy number), ...), stream_of,
 *        find_raise_versions) */
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
    {"set_driver", set_driver, METH_VARARGS, NULL},
    {"set_up", set_up, METH_VARARGS, NULL},
    {"have_numbers", have_numbers, METH_VARARGS, NULL},
    {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "autotune_launcher", NULL, -1,
                                        functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_autotune_launcher(void) {
  static const struct { PyObject **where; const char *text; } names[] = {
      {&s_device_type, "device_type"}, {&s_index, "index"},
      {&s_exchange, "__dlpack_c_exchange_api__"}, {&s_requires_grad, "requires_grad"},
      {&s_stream, "stream"}, {&s_torch, "torch"}, {&s_cupy, "cupy"}, {&s_tensor, "Tensor"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!(*names[i].where = PyUnicode_InternFromString(names[i].text))) return NULL;
  if (PyType_Ready(&EntryType) < 0 || PyType_Ready(&CallerType) < 0 ||
      PyType_Ready(&ForwardType) < 0)
    return NULL;
  PyObject *module = PyModule_Create(&definition);
  if (!module || PyModule_AddObjectRef(module, "Entry", (PyObject *)&EntryType) < 0 ||
      PyModule_AddObjectRef(module, "Caller", (PyObject *)&CallerType) < 0 ||
      PyModule_AddObjectRef(module, "Forward", (PyObject *)&ForwardType) < 0 ||
      PyModule_AddIntConstant(module, "MOST_ARGS", MOST_ARGS) < 0)
    return NULL;
  return module;
}

/* Every compiled file names an entry; this one is never called. */
void autotune_launcher_entry(void) {}
