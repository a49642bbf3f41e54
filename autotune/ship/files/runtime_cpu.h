/* Runs kernels of the tables on the CPU. Written by autotune; part of the exported project. */
#include <stdlib.h>
#include <string.h>

#include "tables.h"

static const char *at_message(int status) {
  switch (status) {
    case AT_OK: return "no error";
    case AT_NO_WORKLOAD: return "no kernel was exported for these shapes";
    case AT_AMBIGUOUS: return "several kernels have these shapes: call one of them by its name";
    case AT_NO_MEMORY: return "no memory for the workspace of the kernel";
  }
  return "unknown error";
}

static int at_run(const at_function *function, const at_workload *workload, void *const *values,
                  void *stream) {
  (void)function, (void)stream;
  const at_image *image = workload->images;
  void *spaces[AT_MOST_SPACES] = {0}, *packed[AT_MOST_ARGS];
  int status = AT_OK;
  for (int i = 0; i < image->n_spaces && status == AT_OK; i++) {
    uint64_t whole = (image->spaces[i].bytes + 63) / 64 * 64;
    spaces[i] = aligned_alloc(64, whole);
    if (!spaces[i]) status = AT_NO_MEMORY;
    else if (image->spaces[i].zero) memset(spaces[i], 0, whole);
  }
  if (status == AT_OK && image->n_constants) {
    for (int i = 0; i < image->n_constants; i++) packed[i] = values[image->constants[i].arg];
    image->fill(packed);
  }
  for (int c = 0; c < image->n_calls && status == AT_OK; c++) {
    const at_call *call = &image->calls[c];
    for (int i = 0; i < call->n_args; i++) {
      int which = call->args[i];
      packed[i] = which >= 0 ? values[which] : spaces[-which - 1];
    }
    call->host(packed);
  }
  for (int i = 0; i < image->n_spaces; i++) free(spaces[i]);
  return status;
}

static int at_load(const at_function *functions, int count) {
  (void)functions, (void)count;
  return AT_OK;
}
