// The scheduler: runs the clusters of a launch one after another, the blocks of a cluster in turns,
// and the threads of a block as fibers: a thread runs until it waits at a barrier or a warp function,
// or exits; a block until none of its threads can go on.
#pragma once

#include <pthread.h>

#include <type_traits>
#include <utility>

#include "async.h"
#include "watchdog.h"

namespace emulator {

EMULATOR_STATE void (*enter_kernel)();
EMULATOR_STATE void** kernel_args;
// The state of a launch is in globals of the library.
EMULATOR_STATE pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;
EMULATOR_STATE uint16_t turn[most_threads];
EMULATOR_STATE bool polling;  // a thread has had its turn and only looked at memory
// Turns of threads that poll while nothing else happens, until they wait for what does not come.
constexpr uint64_t most_in_vain = 1 << 18;

EMULATOR_OWN void thread_body() {
  enter_kernel();
  settle();
  drop_copies();
  drop_sums(*current, true);
  settle();
  current->state = State::done;
  ++active->done;
  exits = exits + 1;
  const int number = static_cast<int>(current - threads);
  lanes_present[number / 32] &= ~(1u << number % 32);
  leave_cluster(*current);
  try_perform_all(number / 32);
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
  Thread* const own = threads + (active - blocks) * block_stride;
  for (int i = 0; i < thread_count; ++i) {
    const Thread& t = own[i];
    if (t.state == State::done) continue;
    if (!first) first = &t;
    if (t.line == first->line) continue;
    report_divergence();
    return false;
  }
  for (int i = 0; i < thread_count; ++i) {
    if (own[i].state == State::done) continue;
    count += own[i].vote != 0;
    own[i].state = State::ready;
  }
  active->vote_any = count;
  active->vote_all = count == static_cast<uint32_t>(active->waiting);
  active->waiting = 0;
  epoch = ++last_epoch;
  const int first_warp = static_cast<int>(own - threads) / 32, warps = block_stride / 32;
  memset(warp_epochs + first_warp, 0, static_cast<size_t>(warps) * sizeof warp_epochs[0]);
  if (block_count > 1) order_warps(first_warp, first_warp + warps);
  return true;
}

EMULATOR_OWN void begin_cluster() {
  mbarrier_count = 0, proxy_fences = 0;
  for (int i = 0; i < warp_count; ++i) lanes_present[i] = lanes_waiting[i] = 0;
  for (int i = 0; i < all_threads; ++i) {
    threads[i].stack_pointer = nullptr;
    const bool exists = i % block_stride < thread_count;
    threads[i].state = exists ? State::ready : State::done;
    if (exists) lanes_present[i / 32] |= 1u << i % 32;
    threads[i].copy_count = 0;
    threads[i].arrived = false;
    threads[i].fenced = 0;
    threads[i].polls = 0, threads[i].has_fenced = threads[i].has_fenced_registers = false;
    begin_calls(threads[i]);
    drop_sums(threads[i], false);
  }
  end_flights();
  for (int i = 0; i < block_count; ++i) blocks[i].waiting = blocks[i].done = 0, blocks[i].started = false;
  live_threads = thread_count * block_count;
  for (Phases& each : named_barriers) each.missing = each.arrivals = 0;
  cluster_phases = {{}, nullptr, 0, live_threads, live_threads, 0, 0, {}, {}, 0};
  active = blocks;
  free_all_stacks();
  shuffle_turns();
}

// Runs the threads of a block until none can go on but those that poll; returns whether any could.
EMULATOR_OWN bool run_block() {
  Thread* const own = threads + (active - blocks) * block_stride;
  bool any = false;
  while (active->done < thread_count) {
    bool moved = false;
    for (int i = 0; i < thread_count; ++i) {
      Thread& t = own[turn[i]];
      if (t.state != State::ready) continue;
      const uint64_t before = changes;
      resume(t);
      if (failed) return false;
      if (t.state != State::ready || changes != before) moved = any = true;
      else polling = true;
    }
    if (active->waiting && active->waiting + active->done == thread_count) {
      if (!release_barrier()) return false;
      if (options.order > 1) shuffle_turns();
      any = true;
    } else if (!moved) {
      break;
    }
  }
  return any;
}

// Runs the blocks of a cluster in turns: the first to the last, the other way, or in random order.
EMULATOR_OWN bool run_cluster() {
  begin_cluster();
  uint32_t in_vain = 0;
  while (live_threads) {
    bool moved = false;
    polling = false;
    const uint64_t first = options.order > 1 && block_count > 1 ? next_random() % most_blocks : 0;
    for (int i = 0; i < block_count; ++i) {
      const int turns = static_cast<int>(first) + i;
      const int number = options.order == 1 ? block_count - 1 - i : turns % block_count;
      if (blocks[number].done == thread_count) continue;
      activate(blocks[number]);
      if (run_block()) moved = true;
      if (failed) return false;
    }
    if (moved || wait_in_part()) {
      in_vain = 0;
    } else if (!polling || ++in_vain * static_cast<uint64_t>(all_threads) > most_in_vain) {
      report_standstill();
      return false;
    }
  }
  for (int i = 0; mbarrier_count && i < block_count; ++i) {
    activate(blocks[i]);
    if (!mbarriers_are_whole()) return false;
  }
  return true;
}

EMULATOR_OWN void wait_at_barrier(uint32_t vote, int line) {
  settle();
  Thread& t = *current;
  t.vote = vote, t.line = line;
  t.state = State::at_barrier;
  ++active->waiting;
  emulator_switch(&t.stack_pointer, scheduler_stack);
}

// Places the blocks of a cluster; those of the lowest ranks are beside each other along x.
EMULATOR_OWN void place_blocks(uint64_t cluster) {
  const dim3 each = cluster_dims;
  const uint64_t across = gridDim.x / each.x, down = gridDim.y / each.y;
  const unsigned x = static_cast<unsigned>(cluster % across) * each.x;
  const unsigned y = static_cast<unsigned>(cluster / across % down) * each.y;
  const unsigned z = static_cast<unsigned>(cluster / across / down) * each.z;
  for (unsigned rank = 0; rank < static_cast<unsigned>(block_count); ++rank)
    blocks[rank].index = {x + rank % each.x, y + rank / each.x % each.y, z + rank / each.x / each.y};
}

EMULATOR_OWN bool run_grid() {
  uint64_t count = uint64_t{gridDim.x} * gridDim.y * gridDim.z / static_cast<uint64_t>(block_count);
  // A stride without a common divisor visits every cluster once, in an order that looks random.
  uint64_t start = 0, stride = 1;
  if (options.order == 1) start = count - 1, stride = count - 1;
  if (options.order > 1) {
    start = next_random() % count;
    stride = next_random() % count;
    auto common = [](uint64_t a, uint64_t b) {
      while (b) {
        uint64_t rest = a % b;
        a = b, b = rest;
      }
      return a;
    };
    while (common(stride, count) != 1) ++stride;
  }
  const size_t shared_bytes = static_end - static_begin + dynamic_end - dynamic_begin;
  for (uint64_t i = 0, at = start; i < count; ++i, at = (at + stride) % count) {
    place_blocks(at);
    poison_shared();
    if (options.checked) clear_cells(shared_bytes + 64);
    if (!run_cluster()) return false;
    if (options.checked) end_publications();
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
  const dim3 each = cluster_dims;
  block_count = static_cast<int>(each.x * each.y * each.z);
  if (block_count < 1 || block_count > most_blocks || gridDim.x % each.x || gridDim.y % each.y ||
      gridDim.z % each.z) {
    give_up("a grid of (%u,%u,%u) blocks in clusters of (%u,%u,%u); expected clusters of 1 to %d "
            "blocks that divide the grid",
            gridDim.x, gridDim.y, gridDim.z, each.x, each.y, each.z, most_blocks);
    block_count = 1;
    return false;
  }
  block_stride = (thread_count + 31) / 32 * 32;
  all_threads = block_stride * block_count, warp_count = all_threads / 32;
  for (int i = 0; i < all_threads; ++i) {
    const unsigned flat = static_cast<unsigned>(i % block_stride), row = flat / blockDim.x;
    threads[i].index = {flat % blockDim.x, row % blockDim.y, row / blockDim.y};
  }
  return true;
}

struct Argument {
  const char* name;
  uint64_t bytes;  // none of a number, which is copied
  uint32_t item_bytes;
  bool written;
};

// What __cluster_dims__ says of a kernel, see keywords.h.
struct Cluster {
  dim3 dims;

  constexpr Cluster of(unsigned x, unsigned y = 1, unsigned z = 1) const { return {dim3(x, y, z)}; }
};

struct Request {
  void** args;
  const Argument* about;
  int arg_count;
  dim3 grid, block;
  uint64_t shared_bytes;
  Cluster cluster;
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
  gridDim = request.grid, blockDim = request.block, cluster_dims = request.cluster.dims;
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
  find_variables();
  dynamic_begin = reinterpret_cast<uintptr_t>(dynamic_shared);
  dynamic_end = dynamic_begin + request.shared_bytes;
  pending.set = fenced = false;
  memset(guesses, 0, sizeof guesses);
  launch_epoch = cluster_epoch = epoch = ++last_epoch;
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
    else if (place_threads()) {
      if (make_stacks(all_threads) && make_copies())
        run_watched(run_grid);
      else
        give_up("no memory for the stacks and the shared memory of a cluster");
    }
    current = nullptr, active = blocks;
    drop_stacks();
    drop_cells();
    drop_copies_of_blocks();
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
  return static_cast<int>(emulator::active->vote_any);
}
static inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
  __syncthreads_count(predicate, line);
  return static_cast<int>(emulator::active->vote_all);
}
static inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
  return __syncthreads_count(predicate, line) != 0;
}
