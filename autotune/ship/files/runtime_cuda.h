/* Runs kernels of the tables on CUDA devices, through the driver that is found when first needed:
 * neither CUDA's headers nor its libraries are needed to build this. Needs a driver of CUDA 12.0 or
 * later. Written by autotune; part of the exported project. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

#include "tables.h"

typedef int cu_result, cu_device;
typedef unsigned long long cu_pointer;
typedef void *cu_library, *cu_kernel, *cu_stream, *cu_context;

static struct {
  cu_result (*init)(unsigned);
  cu_result (*context)(cu_context *);
  cu_result (*context_device)(cu_device *);
  cu_result (*retain)(cu_context *, cu_device);
  cu_result (*make_current)(cu_context);
  cu_result (*attribute)(int *, int, cu_device);
  cu_result (*load)(cu_library *, const void *, void *, void *, unsigned, void *, void *, unsigned);
  cu_result (*kernel)(cu_kernel *, cu_library, const char *);
  cu_result (*global)(cu_pointer *, size_t *, cu_library, const char *);
  cu_result (*set)(int, int, cu_kernel, cu_device);
  cu_result (*launch)(cu_kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, cu_stream, void **, void **);
  cu_result (*allocate)(cu_pointer *, size_t, cu_stream);
  cu_result (*give_back)(cu_pointer, cu_stream);
  cu_result (*clear)(cu_pointer, unsigned char, size_t, cu_stream);
  cu_result (*copy)(cu_pointer, cu_pointer, size_t, cu_stream);
  cu_result (*text)(cu_result, const char **);
} cu;

static int at_driver_status = AT_NO_DRIVER;
static pthread_once_t at_driver_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t at_loading = PTHREAD_MUTEX_INITIALIZER;

#define AT_MOST_DEVICES 64
#define AT_MOST_CALLS 16
static struct {
  int ready;
  cu_library library;
  cu_kernel kernels[AT_MOST_CALLS];
  unsigned long long prepared; /* devices on which the kernels may use their shared memory */
} at_loaded[AT_N_IMAGES];

static void at_find_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  const struct {
    const char *name;
    void *slot;
  } wanted[] = {
      {"cuInit", &cu.init},
      {"cuCtxGetCurrent", &cu.context},
      {"cuCtxGetDevice", &cu.context_device},
      {"cuDevicePrimaryCtxRetain", &cu.retain},
      {"cuCtxSetCurrent", &cu.make_current},
      {"cuDeviceGetAttribute", &cu.attribute},
      {"cuLibraryLoadData", &cu.load},
      {"cuLibraryGetKernel", &cu.kernel},
      {"cuLibraryGetGlobal", &cu.global},
      {"cuKernelSetAttribute", &cu.set},
      {"cuLaunchKernel", &cu.launch},
      {"cuMemAllocAsync", &cu.allocate},
      {"cuMemFreeAsync", &cu.give_back},
      {"cuMemsetD8Async", &cu.clear},
      {"cuMemcpyDtoDAsync_v2", &cu.copy},
      {"cuGetErrorString", &cu.text},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!(*(void **)wanted[i].slot = dlsym(library, wanted[i].name))) return;
  at_driver_status = cu.init(0);
}

static const char *at_message(int status) {
  switch (status) {
    case AT_OK: return "no error";
    case AT_NO_WORKLOAD: return "no kernel was exported for these shapes";
    case AT_AMBIGUOUS: return "several kernels have these shapes: call one of them by its name";
    case AT_NO_DRIVER: return "no NVIDIA driver of CUDA 12.0 or later was found";
    case AT_NO_IMAGE: return "no kernel was exported for this kind of device";
    case AT_NO_MEMORY: return "no memory for the workspace of the kernel";
  }
  const char *text = "unknown error";
  if (status > 0 && cu.text) cu.text(status, &text);
  return text;
}

/* The device of the current context; without one, that of device 0 is made current, as the CUDA
 * runtime does. */
static int at_device(cu_device *device) {
  pthread_once(&at_driver_once, at_find_driver);
  if (at_driver_status) return at_driver_status;
  cu_context context = NULL;
  int status = cu.context(&context);
  if (!status && !context) {
    status = cu.retain(&context, 0);
    if (!status) status = cu.make_current(context);
  }
  return status ? status : cu.context_device(device);
}

static int at_arch(cu_device device, int *arch) {
  static int known[AT_MOST_DEVICES];
  if (device < AT_MOST_DEVICES && known[device]) return *arch = known[device], AT_OK;
  int major = 0, minor = 0;
  int status = cu.attribute(&major, 75, device);
  if (!status) status = cu.attribute(&minor, 76, device);
  *arch = 10 * major + minor;
  if (!status && device < AT_MOST_DEVICES) known[device] = *arch;
  return status;
}

/* The machine code that fits a device best; without any, PTX, which the driver compiles. */
static const at_image *at_pick(const at_workload *workload, int arch) {
  const at_image *best = NULL;
  for (int i = 0; i < workload->n_images; i++) {
    const at_image *one = &workload->images[i];
    int runs = one->exact ? one->arch == arch
               : one->ptx ? one->arch <= arch
                          : one->arch / 10 == arch / 10 && one->arch <= arch;
    if (!runs) continue;
    if (!best || one->ptx < best->ptx || (one->ptx == best->ptx && one->arch > best->arch) ||
        (one->arch == best->arch && one->exact > best->exact))
      best = one;
  }
  return best;
}

static int at_prepare(const at_image *image, cu_device device) {
  unsigned long long bit = 1ull << (device % AT_MOST_DEVICES);
  int status = AT_OK;
  if (__atomic_load_n(&at_loaded[image->id].ready, __ATOMIC_ACQUIRE) &&
      (__atomic_load_n(&at_loaded[image->id].prepared, __ATOMIC_ACQUIRE) & bit))
    return AT_OK;
  pthread_mutex_lock(&at_loading);
  if (!at_loaded[image->id].ready) {
    status = cu.load(&at_loaded[image->id].library, image->data, NULL, NULL, 0, NULL, NULL, 0);
    for (int c = 0; c < image->n_calls && !status; c++)
      status = cu.kernel(&at_loaded[image->id].kernels[c], at_loaded[image->id].library,
                         image->calls[c].symbol);
    if (!status) __atomic_store_n(&at_loaded[image->id].ready, 1, __ATOMIC_RELEASE);
  }
  for (int c = 0; c < image->n_calls && !status; c++)
    if (image->calls[c].shared_bytes)
      status = cu.set(8, (int)image->calls[c].shared_bytes, at_loaded[image->id].kernels[c], device);
  if (!status) __atomic_or_fetch(&at_loaded[image->id].prepared, bit, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&at_loading);
  return status;
}

static int at_launch(const at_function *function, const at_image *image, void *const *values,
                     const cu_pointer *spaces, cu_stream stream) {
  cu_pointer pointers[AT_MOST_ARGS];
  void *params[AT_MOST_ARGS + 1];
  int status = AT_OK;
  for (int i = 0; i < function->n_args; i++) pointers[i] = (cu_pointer)(uintptr_t)values[i];
  for (int i = 0; i < image->n_constants && !status; i++) {
    const at_constant *constant = &image->constants[i];
    cu_pointer where;
    size_t bytes;
    status = cu.global(&where, &bytes, at_loaded[image->id].library, constant->variable);
    if (!status) status = cu.copy(where, pointers[constant->arg], constant->bytes, stream);
  }
  for (int c = 0; c < image->n_calls && !status; c++) {
    const at_call *call = &image->calls[c];
    for (int i = 0; i < call->n_args; i++) {
      int which = call->args[i];
      if (which < 0) params[i] = (void *)&spaces[-which - 1];
      else params[i] = function->ranks[which] < 0 ? values[which] : (void *)&pointers[which];
    }
    status = cu.launch(at_loaded[image->id].kernels[c], call->grid[0], call->grid[1], call->grid[2],
                       call->block[0], call->block[1], call->block[2], call->shared_bytes, stream,
                       params, NULL);
  }
  return status;
}

/* Queues the kernels of a workload on a stream; does not wait for them. */
static int at_run(const at_function *function, const at_workload *workload, void *const *values,
                  void *stream) {
  cu_device device = 0;
  int arch = 0, made = 0, status = at_device(&device);
  if (!status) status = at_arch(device, &arch);
  if (status) return status;
  const at_image *image = at_pick(workload, arch);
  if (!image) return AT_NO_IMAGE;
  status = at_prepare(image, device);
  cu_pointer spaces[AT_MOST_SPACES];
  for (; made < image->n_spaces && !status; made++) {
    status = cu.allocate(&spaces[made], image->spaces[made].bytes, stream);
    if (status) break;
    if (image->spaces[made].zero)
      status = cu.clear(spaces[made], 0, image->spaces[made].bytes, stream);
  }
  if (!status) status = at_launch(function, image, values, spaces, stream);
  while (made--) {
    int freed = cu.give_back(spaces[made], stream);
    if (!status) status = freed;
  }
  return status;
}

/* Loads all kernels for the device of the current context, as must be done before a graph is
 * captured. */
static int at_load(const at_function *functions, int count) {
  cu_device device = 0;
  int arch = 0, status = at_device(&device);
  if (!status) status = at_arch(device, &arch);
  for (int f = 0; f < count && !status; f++)
    for (int w = 0; w < functions[f].n_workloads && !status; w++) {
      const at_image *image = at_pick(&functions[f].workloads[w], arch);
      status = image ? at_prepare(image, device) : AT_NO_IMAGE;
    }
  return status;
}
