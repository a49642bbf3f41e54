// The scheduler: runs the blocks of a launch one after another, and the threads of a block as
// fibers: a thread runs until it waits at a barrier or a warp function, or exits.
#pragma once

#include <pthread.h>

#include <type_traits>
#include <utility>

#include "async.h"
#include "deadlock.h"

namespace emulator {

EMULATOR_STATE void (*enter_kernel)();
EMULATOR_STATE void** kernel_args;
// The state of a launch is in globals of the library.
EMULATOR_STATE pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;
EMULATOR_STATE uint16_t turn[most_threads];

EMULATOR_OWN void thread_body() {
  enter_kernel();
  settle();
  drop_copies();
  current->state = State::done;
  ++done_count;
  try_perform_all(static_cast<int>(current - threads) / 32);
  emulator_switch(&current->stack_pointer, scheduler_stack);
}

EMULATOR_OWN void resume(Thread& t) {
  if (!t.stack_pointer) {
    t.stack = free_stacks[--free_stack_count];
    t.stack_pointer = new_fiber(t.stack, thread_body);
  }
  current = &t;
  threadIdx = t.index;
  emulator_switch(&scheduler_stack, t.stack_pointer);
  current = nullptr;
  if (stack_end(t.stack) != stack_mark)
    give_up(EMULATOR_THREAD " needs more than %lu bytes for its local arrays",
            EMULATOR_WHERE(&t), static_cast<unsigned long>(stack_bytes));
  if (t.state == State::done) free_stacks[free_stack_count++] = t.stack;
}

EMULATOR_OWN void shuffle_turns() {
  if (options.order == 0 || options.order == 1) {
    for (int i = 0; i < thread_count; ++i)
      turn[i] = static_cast<uint16_t>(options.order ? thread_count - 1 - i : i);
    return;
  }
  for (int i = 0; i < thread_count; ++i) turn[i] = static_cast<uint16_t>(i);
  for (int i = thread_count - 1; i > 0; --i) {
    int j = static_cast<int>(next_random() % static_cast<uint64_t>(i + 1));
    uint16_t kept = turn[i];
    turn[i] = turn[j], turn[j] = kept;
  }
}

// Lets those go on that wait: all threads but those that have exited, as on compute capability 7.0.
EMULATOR_OWN bool release_barrier() {
  uint32_t count = 0;
  const Thread* first = nullptr;
  for (int i = 0; i < thread_count; ++i) {
    const Thread& t = threads[i];
    if (t.state == State::done) continue;
    if (!first) first = &t;
    if (t.line == first->line) continue;
    report_divergence();
    return false;
  }
  for (int i = 0; i < thread_count; ++i) {
    if (threads[i].state == State::done) continue;
    count += threads[i].vote != 0;
    threads[i].state = State::ready;
  }
  vote_any = count;
  vote_all = count == static_cast<uint32_t>(waiting_count);
  waiting_count = 0;
  ++epoch;
  memset(warp_epochs, 0, sizeof warp_epochs);
  return true;
}

EMULATOR_OWN bool run_block() {
  waiting_count = done_count = mbarrier_count = 0;
  for (int i = 0; i < thread_count; ++i) {
    threads[i].stack_pointer = nullptr;
    threads[i].state = State::ready;
    threads[i].copy_count = 0;
    threads[i].copy_group = 0;
  }
  free_all_stacks();
  shuffle_turns();
  while (done_count < thread_count) {
    bool moved = false;
    for (int i = 0; i < thread_count; ++i) {
      Thread& t = threads[turn[i]];
      if (t.state != State::ready) continue;
      resume(t);
      if (failed) return false;
      moved = true;
    }
    if (waiting_count && waiting_count + done_count == thread_count) {
      if (!release_barrier()) return false;
      if (options.order > 1) shuffle_turns();
    } else if (!moved && !wait_in_part()) {
      report_standstill();
      return false;
    }
  }
  return true;
}

EMULATOR_OWN void wait_at_barrier(uint32_t vote, int line) {
  settle();
  Thread& t = *current;
  t.vote = vote, t.line = line;
  t.state = State::at_barrier;
  ++waiting_count;
  emulator_switch(&t.stack_pointer, scheduler_stack);
}

EMULATOR_OWN void place_block(uint64_t flat) {
  uint64_t at = flat;
  blockIdx.x = static_cast<unsigned>(at % gridDim.x), at /= gridDim.x;
  blockIdx.y = static_cast<unsigned>(at % gridDim.y);
  blockIdx.z = static_cast<unsigned>(at / gridDim.y);
}

EMULATOR_OWN bool run_grid() {
  uint64_t blocks = uint64_t{gridDim.x} * gridDim.y * gridDim.z;
  // A stride without a common divisor visits every block once, in an order that looks random.
  uint64_t start = 0, stride = 1;
  if (options.order == 1) start = blocks - 1, stride = blocks - 1;
  if (options.order > 1) {
    start = next_random() % blocks;
    stride = next_random() % blocks;
    auto common = [](uint64_t a, uint64_t b) {
      while (b) {
        uint64_t rest = a % b;
        a = b, b = rest;
      }
      return a;
    };
    while (common(stride, blocks) != 1) ++stride;
  }
  size_t static_bytes = static_end - static_begin, dynamic_bytes = dynamic_end - dynamic_begin;
  for (uint64_t i = 0, at = start; i < blocks; ++i, at = (at + stride) % blocks) {
    place_block(at);
    memset(reinterpret_cast<void*>(static_begin), poison, static_bytes);
    memset(dynamic_shared, poison, dynamic_bytes);
    if (options.checked) clear_cells(static_bytes + dynamic_bytes + 64);
    if (!run_block()) return false;
  }
  return true;
}

EMULATOR_OWN bool place_threads() {
  thread_count = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  if (thread_count < 1 || thread_count > most_threads) {
    give_up("a block has 1 to %d threads, got (%u,%u,%u)", most_threads, blockDim.x, blockDim.y,
            blockDim.z);
    return false;
  }
  int i = 0;
  for (unsigned z = 0; z < blockDim.z; ++z)
    for (unsigned y = 0; y < blockDim.y; ++y)
      for (unsigned x = 0; x < blockDim.x; ++x) threads[i++].index = {x, y, z};
  return true;
}

struct Argument {
  const char* name;
  uint64_t bytes;  // none of a number, which is copied
  uint32_t item_bytes;
  bool written;
};

struct Request {
  void** args;
  const Argument* about;
  int arg_count;
  dim3 grid, block;
  uint64_t shared_bytes;
};

// An input whose memory is also that of a written argument: the kernel works in place.
EMULATOR_OWN bool in_place(const Request& request, int input) {
  const uint64_t bytes = request.about[input].bytes;
  for (int i = 0; i < request.arg_count; ++i)
    if (request.about[i].written && request.args[i] == request.args[input] &&
        request.about[i].bytes == bytes)
      return true;
  return false;
}

EMULATOR_OWN void prepare(const Request& request, void (*enter)()) {
  gridDim = request.grid, blockDim = request.block;
  random_state = 0x9E3779B97F4A7C15ull * (static_cast<uint64_t>(options.order) + 1);
  enter_kernel = enter, kernel_args = request.args;
  range_count = request.arg_count < most_ranges ? request.arg_count : most_ranges;
  for (int i = 0; i < range_count; ++i) {
    uintptr_t begin = reinterpret_cast<uintptr_t>(request.args[i]);
    const Argument& about = request.about[i];
    const bool written = about.written || in_place(request, i);
    ranges[i] = {about.name, begin, begin + about.bytes, written, about.item_bytes, nullptr};
  }
  find_library();
  dynamic_begin = reinterpret_cast<uintptr_t>(dynamic_shared);
  dynamic_end = dynamic_begin + request.shared_bytes;
  pending.set = fenced = false;
  launch_epoch = block_epoch = ++epoch;
  watch_ranges();
}

// Runs one launch; after a fault nothing runs until the fault has been queried.
EMULATOR_OWN void launch(const Request& request, void (*enter)()) {
  pthread_mutex_lock(&one_launch);
  if (!failed) {
    prepare(request, enter);
    if (request.shared_bytes > most_dynamic_shared)
      give_up("%lu bytes of dynamic shared memory; the emulator has %lu",
              static_cast<unsigned long>(request.shared_bytes),
              static_cast<unsigned long>(most_dynamic_shared));
    else if (!make_stacks())
      give_up("no address space for the stacks of a block");
    else if (place_threads())
      run_grid();
    current = nullptr;
    drop_stacks();
    drop_cells();
  }
  pthread_mutex_unlock(&one_launch);
}

// The value of a parameter: pointers are passed as addresses, other arguments are loaded from one.
template <class Parameter>
EMULATOR_RAW static Parameter argument_at(void* address) {
  if constexpr (std::is_pointer_v<Parameter>)
    return static_cast<Parameter>(address);
  else
    return *static_cast<std::remove_cv_t<Parameter>*>(address);
}

template <class... Parameters, size_t... I>
EMULATOR_RAW static void call_each(void (*kernel)(Parameters...), void** args,
                             std::index_sequence<I...>) {
  kernel(argument_at<Parameters>(args[I])...);
}

// Calls a kernel with the arguments of the launch.
template <class... Parameters>
EMULATOR_RAW static void call_kernel(void (*kernel)(Parameters...)) {
  call_each(kernel, kernel_args, std::index_sequence_for<Parameters...>{});
}

}  // namespace emulator

static inline void __syncthreads(int line = __builtin_LINE()) {
  emulator::wait_at_barrier(0, line);
}
static inline int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
  emulator::wait_at_barrier(predicate != 0, line);
  return static_cast<int>(emulator::vote_any);
}
static inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
  __syncthreads_count(predicate, line);
  return static_cast<int>(emulator::vote_all);
}
static inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
  return __syncthreads_count(predicate, line) != 0;
}
