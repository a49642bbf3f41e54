"""The small C library with which kernels on the CPU are called, timed and kept cold.

It is compiled once by the host compiler and loaded for the life of the process, which also keeps
the OpenMP runtime loaded: its threads would not survive being unloaded with a kernel.
"""

from __future__ import annotations

import ctypes
from functools import cache

from autotune.kernel.kernel import Kernel, KernelCall
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.target import Target
from autotune.utils.libraries import load_library
from autotune.utils.scratch import temporary_folder

_SOURCE = """\
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
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

void autotune_repeat(const Run *runs, int64_t n_runs, int64_t number) {
  for (int64_t i = 0; i < number; i++) autotune_run(&runs[i % n_runs]);
}

typedef struct {
  double wall_s, thread_s, process_s;
  int64_t waits, preemptions;
} Moment;

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#ifdef RUSAGE_THREAD
/* Some systems count the time of threads in ticks, which would tell nothing of a short run. */
static int is_fine(void) {
  static int known = -1;
  if (known < 0) {
    double before, first = now(CLOCK_THREAD_CPUTIME_ID), next;
    do before = now(CLOCK_THREAD_CPUTIME_ID); while (before == first);
    do next = now(CLOCK_THREAD_CPUTIME_ID); while (next == before);
    known = next - before < 1e-5;
  }
  return known;
}

static void count(Moment *at) {
  struct rusage thread, process;
  getrusage(RUSAGE_THREAD, &thread);
  getrusage(RUSAGE_SELF, &process);
  at->waits = thread.ru_nvcsw;
  at->preemptions = process.ru_nivcsw;
}

static void use(Moment *at) {
  at->process_s = now(CLOCK_PROCESS_CPUTIME_ID);
  at->thread_s = now(CLOCK_THREAD_CPUTIME_ID);
}
#else
static int is_fine(void) { return 0; }
static void count(Moment *at) { at->waits = at->preemptions = 0; }
static void use(Moment *at) { (void)at; }
#endif

/* The wall clock is read last at the beginning and first at the end: what else is read is not
   timed. Where no clock tells of the CPU the wall time stands in for it. */
void autotune_begin(Moment *at) {
  const int fine = is_fine();
  count(at);
  if (fine) use(at);
  at->wall_s = now(CLOCK_MONOTONIC);
  if (!fine) at->process_s = at->thread_s = at->wall_s;
}

void autotune_end(Moment *at) {
  at->wall_s = now(CLOCK_MONOTONIC);
  if (is_fine()) use(at);
  else at->process_s = at->thread_s = at->wall_s;
  count(at);
}

void autotune_time(const Run *runs, int64_t n_runs, int64_t number, Moment *ends) {
  autotune_begin(&ends[0]);
  autotune_repeat(runs, n_runs, number);
  autotune_end(&ends[1]);
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


class MomentStruct(ctypes.Structure):
    """Clocks and counters at one moment; ``Moment`` in the C text."""

    _fields_ = [
        ("wall_s", ctypes.c_double),
        ("thread_s", ctypes.c_double),
        ("process_s", ctypes.c_double),
        ("waits", ctypes.c_int64),
        ("preemptions", ctypes.c_int64),
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
    with temporary_folder("helper") as folder:
        output = compile_kernel(kernel, Target("c"), timeout_s=120, out_dir=folder)
        library = load_library(output.artifact, "autotune's helper for kernels on the CPU")
    run = ctypes.POINTER(RunStruct)
    library.autotune_run.argtypes = [run]
    library.autotune_run.restype = None
    library.autotune_flush.argtypes = [run]
    library.autotune_flush.restype = None
    library.autotune_repeat.argtypes = [run, ctypes.c_int64, ctypes.c_int64]
    library.autotune_repeat.restype = None
    moment = ctypes.POINTER(MomentStruct)
    library.autotune_time.argtypes = [run, ctypes.c_int64, ctypes.c_int64, moment]
    library.autotune_time.restype = None
    for read in (library.autotune_begin, library.autotune_end):
        read.argtypes = [moment]
        read.restype = None
    return library
