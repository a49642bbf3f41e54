/* ---- numbers of objects ---- */
/* What a descriptor of a C type says of an object: an attribute, or a method without arguments. Without the lookup by
 * name this takes a third of the time. */
static PyObject *asked(PyObject *descriptor, PyObject *object) {
  if (!PyObject_TypeCheck(object, PyDescr_TYPE(descriptor)))
    return PyErr_Format(PyExc_TypeError, "expected %s, got %s", PyDescr_TYPE(descriptor)->tp_name,
                        Py_TYPE(object)->tp_name);
  if (Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) {
    const PyGetSetDef *found = ((PyGetSetDescrObject *)descriptor)->d_getset;
    return found->get(object, found->closure);
  }
  return ((PyMethodDescrObject *)descriptor)->d_method->ml_meth(object, NULL);
}

static int is_askable(PyObject *descriptor) {
  if (Py_IS_TYPE(descriptor, &PyGetSetDescr_Type))
    return ((PyGetSetDescrObject *)descriptor)->d_getset->get != NULL;
  return Py_IS_TYPE(descriptor, &PyMethodDescr_Type) &&
         ((PyMethodDescrObject *)descriptor)->d_method->ml_flags == METH_NOARGS;
}

/* have_numbers(descriptor, objects, numbers): whether it says of each object its number; int64 in bytes */
static PyObject *have_numbers(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *descriptor, *objects, *numbers;
  if (!PyArg_ParseTuple(args, "OO!S", &descriptor, &PyTuple_Type, &objects, &numbers)) return NULL;
  const Py_ssize_t count = PyTuple_GET_SIZE(objects);
  if (!is_askable(descriptor) || PyBytes_GET_SIZE(numbers) != count * (Py_ssize_t)sizeof(long long)) {
    PyErr_SetString(PyExc_TypeError, "expected an attribute or method in C, objects, and as many numbers");
    return NULL;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *found = asked(descriptor, PyTuple_GET_ITEM(objects, i));
    if (!found) return NULL;
    const long long number = (long long)PyLong_AsUnsignedLongLongMask(found);
    Py_DECREF(found);
    if (number == -1 && PyErr_Occurred()) return NULL;
    long long expected;
    memcpy(&expected, PyBytes_AS_STRING(numbers) + i * (Py_ssize_t)sizeof expected, sizeof expected);
    if (number != expected) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

