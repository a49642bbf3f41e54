/* Types of the tables of kernels. Written by autotune; part of the exported project. */
#ifndef AUTOTUNE_TABLES_H
#define AUTOTUNE_TABLES_H

#include <stdint.h>

/* One launch: a symbol of the image, or a C function; its arguments are numbers of the function's
 * own (0, 1, ...) or of its workspaces (-1, -2, ...). */
typedef struct {
  const char *symbol;
  void (*host)(void *const *);
  uint32_t grid[3], block[3], shared_bytes;
  int32_t n_args;
  const int16_t *args;
} at_call;

typedef struct {
  uint64_t bytes;
  int32_t zero;
} at_space;

typedef struct {
  const char *variable;
  int16_t arg;
  uint64_t bytes;
} at_constant;

/* Machine code of one workload. arch 90 is sm_90; 0 is this CPU. Architecture-specific code
 * (sm_90a) is exact; other code also runs on later devices of its generation, PTX on all later
 * ones. */
typedef struct {
  int32_t id, arch, exact, ptx;
  const void *data;
  void (*fill)(void *const *);
  int32_t n_calls, n_spaces, n_constants;
  const at_call *calls;
  const at_space *spaces;
  const at_constant *constants;
} at_image;

typedef struct {
  const char *name;
  const int64_t *extents; /* of all arrays, one after the other */
  int32_t ambiguous;      /* another workload has the same shapes */
  int32_t n_images;
  const at_image *images;
} at_workload;

typedef struct {
  const char *name;
  int32_t n_args;
  const int32_t *ranks; /* of each argument; -1 is a number */
  int32_t n_workloads;
  const at_workload *workloads;
} at_function;

enum {
  AT_OK = 0,
  AT_NO_WORKLOAD = -1,
  AT_AMBIGUOUS = -2,
  AT_NO_DRIVER = -3,
  AT_NO_IMAGE = -4,
  AT_NO_MEMORY = -5
};

#define AT_MOST_ARGS 64
#define AT_MOST_SPACES 16

/* Returns the workload with these shapes, or a negative status. */
static int at_find(const at_function *function, const int64_t *const *shapes) {
  for (int w = 0; w < function->n_workloads; w++) {
    const at_workload *one = &function->workloads[w];
    const int64_t *extent = one->extents;
    int same = 1;
    for (int i = 0; i < function->n_args && same; i++)
      for (int k = 0; k < function->ranks[i] && same; k++) same = shapes[i][k] == *extent++;
    if (same) return one->ambiguous ? AT_AMBIGUOUS : w;
  }
  return AT_NO_WORKLOAD;
}

#endif
