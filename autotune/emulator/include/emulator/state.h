// The state of the launch being emulated, and how a kernel is stopped with a message.
#pragma once

#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fibers.h"
#include "vectors.h"

EMULATOR_STATE uint3 threadIdx;
EMULATOR_STATE uint3 blockIdx;
EMULATOR_STATE dim3 blockDim;
EMULATOR_STATE dim3 gridDim;
static const int warpSize = 32;

namespace emulator {

enum class State : uint8_t { ready, at_barrier, at_warp, at_mbarrier, at_cluster, done };

struct Copy {  // one asynchronous copy that was issued and not yet waited for
  void* to;
  const void* from;
  uint32_t bytes, zeros;
  uint32_t group;
  uint32_t site;
};
constexpr int most_copies = 256;

struct Phases;

struct Sums;

// Groups of instructions that a thread has committed so far, and those of them that it has waited for.
struct Groups {
  uint32_t group, waited;
};

constexpr int most_calls = 64;

struct Thread {
  void* stack_pointer;
  uint3 index;
  int stack;
  State state;
  int line;           // of the barrier or warp function it waits in
  uint32_t vote;      // for __syncthreads_count and its kind
  const char* what;   // the warp function it waits in
  const char* file;      // of the wait for an mbarrier or the cluster
  const Phases* waited;  // that mbarrier
  int operation;
  uint32_t mask;
  uint64_t value;
  uint64_t result;
  int argument, width;
  uint32_t copy_group;  // groups committed so far, and of them those that have been waited for
  uint32_t copies_waited;
  int copy_count;
  Copy* copies;
  Groups products, stores;  // wgmma, and copies of boxes to global memory
  uint32_t fenced;          // at its last fence of proxies, see races.h
  Sums* sums;               // of products, see ptx_matrix.h
  uint32_t pending_sums;    // how many of them it has not waited for
  bool arrived;             // at the barrier of the cluster, in `cluster_phase`, and has not waited
  uint32_t cluster_phase;
  uint32_t polls, poll_site;  // of what others may change, see hooks.h; the last
  bool has_fenced;            // and has written nothing since
  bool has_fenced_registers;  // for products, which may read what it has put in them
  uint32_t call_count, calls[most_calls];  // functions that it is in: where each was called, see sites.h
};

struct Cell;

// The blocks of a cluster take turns. Shared memory is that of the one which runs, as addresses of
// shared objects are constants of the program; that of the others is kept in copies, at addresses
// that do not change. A block without a cluster is one by itself.
struct Block {
  uint3 index;
  int waiting, done;            // threads at __syncthreads, and those that have exited
  uint32_t vote_any, vote_all;  // of the last __syncthreads
  uint32_t epoch;               // while another block runs, see races.h
  bool started;
  Cell* cells;
  unsigned char* memory;
};

struct Range {  // one array argument
  const char* name;
  uintptr_t begin, end;
  bool written;
  uint32_t item_bytes;
  Cell* cells;  // the last accesses to its elements, if it is written and not too large
};

struct Options {
  int order;    // 0 forward, 1 reverse, else the seed of a random order
  int checked;  // whether memory accesses are checked
};

EMULATOR_STATE Block blocks[most_blocks];
EMULATOR_STATE Block* active = blocks;  // the one that runs
EMULATOR_STATE int block_count = 1;
EMULATOR_STATE dim3 cluster_dims;
EMULATOR_STATE size_t copy_bytes, copy_dynamic_bytes;  // of each `memory`, and where static begins
// Those of a block begin at a multiple of block_stride, which is one of 32; between are none.
EMULATOR_STATE Thread threads[most_blocks * most_threads];
EMULATOR_STATE Thread* current = nullptr;
EMULATOR_STATE void* scheduler_stack = nullptr;
EMULATOR_STATE int thread_count, block_stride, all_threads;  // of a block; of the cluster
EMULATOR_STATE uint64_t changes = 0;  // of memory, as far as it is watched
EMULATOR_STATE Options options = {0, 1};
EMULATOR_STATE bool failed = false;
EMULATOR_STATE char message[8192];
EMULATOR_STATE uint64_t random_state = 1;

// Where the threads are that run on without an end, at some moments: see watchdog.h.
constexpr int most_frames = 20, most_traces = 8;
struct Trace {
  uint32_t pcs[most_frames];
  int count;
};
EMULATOR_STATE Trace traces[most_traces];
EMULATOR_STATE int trace_count;
EMULATOR_STATE volatile bool overdue;

constexpr int most_ranges = 64;
EMULATOR_STATE Range ranges[most_ranges];
EMULATOR_STATE int range_count = 0;

constexpr size_t most_dynamic_shared = 228 * 1024;
alignas(1024) EMULATOR_STATE unsigned char dynamic_shared[most_dynamic_shared];
EMULATOR_STATE thread_local char shared_anchor;  // makes sure the segment of shared objects exists
EMULATOR_STATE uintptr_t static_begin, static_end, dynamic_begin, dynamic_end;
EMULATOR_STATE uintptr_t library_begin, library_end, library_base, code_begin, code_end;
EMULATOR_STATE char library_path[4096];

// Both are what an uninitialised read returns: a NaN as floats, -1 as ints.
constexpr int poison = 0xFF;

EMULATOR_OWN uint64_t next_random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

// Keeps the first message only.
EMULATOR_OWN void set_message(const char* format, va_list values) {
  if (failed) return;
  failed = true;
  vsnprintf(message, sizeof message, format, values);
}

// Ends the launch from inside a thread of the block. Never returns to the kernel.
[[noreturn]] EMULATOR_OWN void fail(const char* format, ...) {
  va_list values;
  va_start(values, format);
  set_message(format, values);
  va_end(values);
  void* nowhere;
  emulator_switch(&nowhere, scheduler_stack);
  __builtin_unreachable();
}

// Ends the launch from the scheduler.
EMULATOR_OWN void give_up(const char* format, ...) {
  va_list values;
  va_start(values, format);
  set_message(format, values);
  va_end(values);
}

#define EMULATOR_THREAD "thread (%u,%u,%u) of block (%u,%u,%u)"
#define EMULATOR_WHERE(t) \
  (t)->index.x, (t)->index.y, (t)->index.z, blockIdx.x, blockIdx.y, blockIdx.z

EMULATOR_OWN int visit_library(dl_phdr_info* info, size_t, void*) {
  uintptr_t own = reinterpret_cast<uintptr_t>(&visit_library);
  uintptr_t low = ~uintptr_t{0}, high = 0, shared = 0, text_begin = 0, text_end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_LOAD) {
      uintptr_t begin = info->dlpi_addr + segment.p_vaddr, end = begin + segment.p_memsz;
      if (begin < low) low = begin;
      if (end > high) high = end;
      if (segment.p_flags & PF_X) text_begin = begin, text_end = end;
    }
    if (segment.p_type == PT_TLS) shared = segment.p_memsz;
  }
  if (own < low || own >= high) return 0;
  library_begin = low, library_end = high, library_base = info->dlpi_addr;
  code_begin = text_begin, code_end = text_end;
  static_begin = reinterpret_cast<uintptr_t>(info->dlpi_tls_data);
  static_end = static_begin + shared;
  snprintf(library_path, sizeof library_path, "%s", info->dlpi_name);
  return 1;
}

// Finds the static shared objects of this library; they are those of the calling host thread.
EMULATOR_OWN void find_library() {
  *const_cast<volatile char*>(&shared_anchor) = 0;
  dl_iterate_phdr(visit_library, nullptr);
}

}  // namespace emulator
