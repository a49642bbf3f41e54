/* A CUDA driver without a device: it says what it is asked to do. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int arch(void) { return atoi(getenv("FAKE_ARCH")); }
static int current = 0;

int cuInit(unsigned flags) { return (int)flags; }
int cuCtxGetCurrent(void **context) { return *context = current ? &current : NULL, 0; }
int cuCtxGetDevice(int *device) { return *device = 0, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &current, device; }
int cuCtxSetCurrent(void *context) { return current = context != NULL, 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
  (void)device;
  *value = which == 75 ? arch() / 10 : arch() % 10;
  return 0;
}
int cuLibraryLoadData(void **library, const void *data, void *a, void *b, unsigned c, void *d,
                      void *e, unsigned f) {
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
  const char *text = data;
  const char *target = memcmp(text, "\177ELF", 4) ? strstr(text, ".target sm_") : NULL;
  /* The architecture of a cubin stands in the flags of its header. */
  uint32_t flags;
  memcpy(&flags, text + 48, 4);
  int of = (int)((flags >> 8) & 255);
  if (target) printf("load ptx %d\n", atoi(target + 11));
  else printf("load cubin %d\n", of ? of : (int)(flags & 255));
  *library = (void *)data;
  return 0;
}
int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  (void)library;
  *kernel = strdup(name);
  return 0;
}
int cuLibraryGetGlobal(unsigned long long *where, size_t *bytes, void *library, const char *name) {
  (void)library;
  printf("global %s\n", name);
  return *where = 7, *bytes = 0, 0;
}
int cuKernelSetAttribute(int which, int value, void *kernel, int device) {
  (void)which, (void)device;
  printf("shared %d of %s\n", value, (char *)kernel);
  return 0;
}
int cuLaunchKernel(void *kernel, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  (void)z, (void)by, (void)bz, (void)extra, (void)params;
  printf("launch %.12s %ux%u of %u, %u bytes, stream %ld, first %llu\n", (char *)kernel, x, y, bx,
         shared, (long)(intptr_t)stream, *(unsigned long long *)params[0] & 0xffffffffu);
  return 0;
}
int cuMemAllocAsync(unsigned long long *where, size_t bytes, void *stream) {
  printf("allocate %zu on %ld\n", bytes, (long)(intptr_t)stream);
  return *where = 99, 0;
}
int cuMemFreeAsync(unsigned long long where, void *stream) {
  printf("free %llu on %ld\n", where, (long)(intptr_t)stream);
  return 0;
}
int cuMemsetD8Async(unsigned long long where, unsigned char value, size_t bytes, void *stream) {
  (void)stream;
  printf("clear %llu to %d: %zu\n", where, value, bytes);
  return 0;
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *s) {
  (void)s;
  printf("copy %llu to %llu: %zu\n", from, to, bytes);
  return 0;
}
int cuGetErrorString(int error, const char **text) { return *text = "an error", error * 0; }
