/* The functions of CUDA's driver that calls need, which do nothing: what is left is the caller's. */
#include <stddef.h>
#include <stdint.h>

static void *const context = (void *)0xC0DE;

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGet(int *device, int index) { return *device = index, 0; }
int cuDevicePrimaryCtxRetain(void **out, int device) { return *out = context, device; }
int cuCtxGetCurrent(void **out) { return *out = context, 0; }
int cuCtxPushCurrent_v2(void *pushed) { return (void)pushed, 0; }
int cuCtxPopCurrent_v2(void **out) { return *out = context, 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return (void)mode, 0; }
int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph, void **nodes,
                              size_t *count) {
  (void)stream, (void)id, (void)graph, (void)nodes, (void)count;
  return *status = 0;
}
int cuStreamGetId(void *stream, uint64_t *id) { return *id = (uint64_t)(uintptr_t)stream, 0; }
int cuStreamSynchronize(void *stream) { return (void)stream, 0; }
int cuModuleLoadData(void **module, const void *image) { return (void)image, *module = context, 0; }
int cuModuleUnload(void *module) { return (void)module, 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  return (void)name, *function = module, 0;
}
int cuModuleGetGlobal_v2(uint64_t *where, size_t *bytes, void *module, const char *name) {
  return (void)module, (void)name, *where = 4096, *bytes = 0, 0;
}
int cuFuncGetAttribute(int *out, int attribute, void *function) {
  return (void)attribute, (void)function, *out = 1024, 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  return (void)function, (void)attribute, (void)value, 0;
}
int cuMemAlloc_v2(uint64_t *where, size_t bytes) { return (void)bytes, *where = 8192, 0; }
int cuMemFree_v2(uint64_t where) { return (void)where, 0; }
int cuMemsetD8Async(uint64_t where, unsigned char byte, size_t bytes, void *stream) {
  return (void)where, (void)byte, (void)bytes, (void)stream, 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  return (void)to, (void)from, (void)bytes, (void)stream, 0;
}
int cuGetErrorString(int status, const char **text) {
  return (void)status, *text = "an error of a driver that does nothing", 0;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
  return (void)stream, (void)params, (void)extra, 0;
}

/* What calls by ctypes are compared with. */
int nothing(void) { return 0; }

/* Parts what valgrind counts. */
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
void autotune_mark(void) { CALLGRIND_DUMP_STATS; }
#else
void autotune_mark(void) {}
#endif

/* The entry of this file; nobody calls it. */
void idle_driver(void) {}
