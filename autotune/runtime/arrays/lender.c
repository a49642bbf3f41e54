/* Gives lent memory back. A borrower may do so in any thread, and while an error of Python is
   pending, in which no Python code can run. What is declared here is of Python's stable ABI. */
#include <stdint.h>
typedef struct _object PyObject;
extern int Py_IsInitialized(void);
extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int);
extern void PyErr_Fetch(PyObject **, PyObject **, PyObject **);
extern void PyErr_Restore(PyObject *, PyObject *, PyObject *);
extern void Py_DecRef(PyObject *);
extern int PyCapsule_IsValid(PyObject *, const char *);
extern void *PyCapsule_GetPointer(PyObject *, const char *);

/* The layouts of dlpack.h. */
typedef struct {
  void *data;
  int32_t device[2], ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct { DLTensor tensor; void *owner, *deleter; } Managed;
typedef struct { uint32_t version[2]; void *owner, *deleter; } ManagedVersioned;

/* After the interpreter has ended there is nothing to give it back to. */
static void give_back(PyObject *owner) {
  if (!Py_IsInitialized()) return;
  PyObject *type, *value, *trace;
  const int state = PyGILState_Ensure();
  PyErr_Fetch(&type, &value, &trace);
  Py_DecRef(owner);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(state);
}

void autotune_give_back(Managed *lent) { give_back(lent->owner); }
void autotune_give_back_versioned(ManagedVersioned *lent) { give_back(lent->owner); }

/* A capsule that was taken has another name, and its taker calls the deleter. */
void autotune_drop_capsule(PyObject *capsule) {
  static const char *plain = "dltensor", *versioned = "dltensor_versioned";
  if (PyCapsule_IsValid(capsule, plain))
    autotune_give_back(PyCapsule_GetPointer(capsule, plain));
  else if (PyCapsule_IsValid(capsule, versioned))
    autotune_give_back_versioned(PyCapsule_GetPointer(capsule, versioned));
}

/* What is compiled has an entry without arguments. */
void autotune_lender_entry(void) {}
