"""The small C library with which kernels on the CPU are called, timed and kept cold.

It is compiled once by the host compiler and loaded for the life of the process, which also keeps
the OpenMP runtime loaded: its threads would not survive being unloaded with a kernel.
"""

from __future__ import annotations

import ctypes
import tempfile
from functools import cache

from autotune.kernel.kernel import Kernel, KernelCall
from autotune.runtime.compile.cached import compile_kernel
from autotune.target import Target

_SOURCE = """\
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef struct { void (*entry)(void **); void **args; } Call;
typedef struct { void *start; int64_t bytes; } Range;
typedef struct { int64_t n_calls, n_zero, n_args; Call *calls; Range *zero, *args; } Run;

void autotune_run(const Run *run) {
  for (int64_t i = 0; i < run->n_zero; i++)
    memset(run->zero[i].start, 0, (size_t)run->zero[i].bytes);
  for (int64_t i = 0; i < run->n_calls; i++)
    run->calls[i].entry(run->calls[i].args);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double autotune_time(const Run *runs, int64_t n_runs, int64_t number) {
  double start = now();
  for (int64_t i = 0; i < number; i++) autotune_run(&runs[i % n_runs]);
  return now() - start;
}

/* Write back and drop every line of the arguments, in the caches of all cores. */
void autotune_flush(const Run *run) {
  for (int64_t i = 0; i < run->n_args; i++)
    for (char *p = run->args[i].start, *end = p + run->args[i].bytes; p < end; p += 64) {
#if defined(__x86_64__)
      __builtin_ia32_clflush(p);
#elif defined(__aarch64__)
      __asm__ volatile("dc civac, %0" : : "r"(p) : "memory");
#endif
    }
#if defined(__x86_64__)
  __builtin_ia32_mfence();
#elif defined(__aarch64__)
  __asm__ volatile("dsb sy" : : : "memory");
#else
  static char sweep[1 << 27];
  for (size_t i = 0; i < sizeof sweep; i += 64) ((volatile char *)sweep)[i]++;
#endif
}

/* Makes this library need the OpenMP runtime, which so stays loaded. Nobody calls it. */
int autotune_threads(void) {
  int n = 0;
#pragma omp parallel reduction(+ : n)
  n += 1;
  return n;
}
"""


class CallStruct(ctypes.Structure):
    """One packed function and its arguments; ``Call`` in the C text."""

    _fields_ = [
        ("entry", ctypes.c_void_p),
        ("args", ctypes.POINTER(ctypes.c_void_p)),
    ]


class RangeStruct(ctypes.Structure):
    """A range of memory; ``Range`` in the C text."""

    _fields_ = [("start", ctypes.c_void_p), ("bytes", ctypes.c_int64)]


class RunStruct(ctypes.Structure):
    """One run of a function: what to clear, what to call, what to flush; ``Run`` in the C text."""

    _fields_ = [
        ("n_calls", ctypes.c_int64),
        ("n_zero", ctypes.c_int64),
        ("n_args", ctypes.c_int64),
        ("calls", ctypes.POINTER(CallStruct)),
        ("zero", ctypes.POINTER(RangeStruct)),
        ("args", ctypes.POINTER(RangeStruct)),
    ]


@cache
def host_helper() -> ctypes.CDLL:
    """Return the loaded library; the first call in a process compiles it or finds it cached.

    Starts no threads, so a process that forks may call it before and share it with its forks.
    """
    kernel = Kernel(
        name="autotune_helper",
        language="c",
        source=_SOURCE,
        args=(),
        calls=(KernelCall("autotune_threads", ()),),
    )
    with tempfile.TemporaryDirectory(prefix="autotune-helper-") as folder:
        output = compile_kernel(kernel, Target("c"), timeout_s=120, out_dir=folder)
        library = ctypes.CDLL(output.artifact)
    run = ctypes.POINTER(RunStruct)
    library.autotune_run.argtypes = [run]
    library.autotune_run.restype = None
    library.autotune_flush.argtypes = [run]
    library.autotune_flush.restype = None
    library.autotune_time.argtypes = [run, ctypes.c_int64, ctypes.c_int64]
    library.autotune_time.restype = ctypes.c_double
    return library
