// Functions that the lanes of a warp perform together. The last lane to arrive computes the result
// of each, so a lane that runs ahead cannot disturb one that has not yet read its result.
#pragma once

#include "mbarriers.h"

namespace emulator {

enum Operation {
  shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot, all_of, any_of, match_any, warp_barrier,
  matrix_barrier, mbarrier_phase, active_lanes,
  sum_of, least_signed, most_signed, least_unsigned, most_unsigned, and_of, or_of, xor_of,
};

// Lanes of each warp that have not exited, and those that wait in a function of their warp.
EMULATOR_STATE uint32_t lanes_present[most_warps], lanes_waiting[most_warps];

EMULATOR_QUICK uint32_t present_lanes(int warp) { return lanes_present[warp]; }

EMULATOR_OWN int source_lane(const Thread& t, int lane) {
  int width = t.width, first = lane & ~(width - 1), source = lane;
  switch (t.operation) {
    case shuffle: return first + (t.argument & (width - 1));
    case shuffle_up: source = lane - t.argument; return source < first ? lane : source;
    case shuffle_down: source = lane + t.argument; return source >= first + width ? lane : source;
    // Reaching into a later group keeps the own value, into an earlier one does not.
    default: source = lane ^ t.argument; return source >= first + width ? lane : source;
  }
}

EMULATOR_OWN uint64_t reduce_lanes(const Thread* warp, int operation, uint32_t lanes) {
  bool first = true;
  uint32_t total = 0;
  for (int i = 0; i < 32; ++i) {
    if (!(lanes >> i & 1)) continue;
    uint32_t v = static_cast<uint32_t>(warp[i].value);
    int32_t a = static_cast<int32_t>(total), b = static_cast<int32_t>(v);
    if (first) total = v;
    else if (operation == sum_of) total += v;
    else if (operation == least_signed) total = b < a ? v : total;
    else if (operation == most_signed) total = b > a ? v : total;
    else if (operation == least_unsigned) total = v < total ? v : total;
    else if (operation == most_unsigned) total = v > total ? v : total;
    else if (operation == and_of) total &= v;
    else if (operation == or_of) total |= v;
    else total ^= v;
    first = false;
  }
  return total;
}

// A value of a lane that has exited is undefined; of one that is not in its block it is, too, but blocks
// of less than a warp reduce as whole ones do, and use no such value.
EMULATOR_OWN void check_source(const Thread* warp, const Thread& t, int source) {
  if (!(t.mask >> source & 1) || (warp - threads) % block_stride + source >= thread_count) return;
  fail("%s in line %d: " EMULATOR_THREAD " reads from lane %d of the mask 0x%08x, which has exited; let it reach "
       "the function, too, or read from lanes that do",
       t.what, t.line, EMULATOR_WHERE(&t), source, t.mask);
}

EMULATOR_OWN void perform(Thread* warp, int operation, uint32_t lanes) {
  lanes_waiting[(warp - threads) / 32] &= ~lanes;
  if (operation == mbarrier_phase) return wait_for_phase(warp, lanes);
  uint32_t votes = 0;
  for (int i = 0; i < 32; ++i)
    if ((lanes >> i & 1) && warp[i].value) votes |= 1u << i;
  uint64_t total = operation >= sum_of ? reduce_lanes(warp, operation, lanes) : 0;
  for (int i = 0; i < 32; ++i) {
    if (!(lanes >> i & 1)) continue;
    Thread& t = warp[i];
    if (operation <= shuffle_xor) {
      int source = source_lane(t, i);
      const bool is_there = lanes >> source & 1;
      if (!is_there && options.checked) check_source(warp, t, source);
      t.result = is_there ? warp[source].value : ~uint64_t{0};
    } else if (operation == match_any) {
      t.result = 0;
      for (int j = 0; j < 32; ++j)
        if ((lanes >> j & 1) && warp[j].value == t.value) t.result |= 1u << j;
    } else {
      t.result = operation == ballot || operation == active_lanes ? votes : operation == all_of ? votes == lanes
                 : operation == any_of ? votes != 0 : total;
    }
  }
  for (int i = 0; i < 32; ++i)
    if (lanes >> i & 1) warp[i].state = State::ready;
  if (operation == warp_barrier) ++warp_epochs[(warp - threads) / 32];
}

// Tells whether a lane waits in what another waits in. Of an instruction that is `.aligned` all lanes
// have to perform the same one (PTX ISA), not just one of the same name.
EMULATOR_QUICK bool waits_with(const Thread& other, const Thread& t) {
  if (other.state != State::at_warp || other.operation != t.operation || other.mask != t.mask) return false;
  if (t.operation == active_lanes) return other.line == t.line;
  if (t.operation != matrix_barrier || (other.what == t.what && other.line == t.line)) return true;
  return !strcmp(other.what, t.what) && (other.line == t.line || !strstr(t.what, ".aligned"));
}

// Performs the function that `lane` waits in if every lane of its mask has arrived or exited.
EMULATOR_OWN bool try_perform(int warp_index, int lane) {
  Thread* warp = threads + warp_index * 32;
  const Thread& t = warp[lane];
  uint32_t needed = t.mask & present_lanes(warp_index);
  if (needed & ~lanes_waiting[warp_index]) return false;
  for (int i = 0; i < 32; ++i) {
    if (!(needed >> i & 1)) continue;
    if (!waits_with(warp[i], t)) return false;
  }
  perform(warp, t.operation, needed);
  return true;
}

// After a lane exited: others may have waited for it alone.
EMULATOR_OWN void try_perform_all(int warp_index) {
  for (int i = 0; i < 32; ++i)
    if (lanes_waiting[warp_index] >> i & 1) try_perform(warp_index, i);
}

// Lets lanes wait for an mbarrier by themselves, or be the active ones, while others of their warp
// wait for something else; returns whether there are any.
EMULATOR_OWN bool wait_in_part() {
  bool found = false;
  for (int begin = 0; begin < all_threads; begin += 32) {
    const Thread* first = nullptr;
    uint32_t lanes = 0;
    for (int i = begin; i < begin + 32; ++i) {
      const Thread& t = threads[i];
      if (t.state != State::at_warp) continue;
      if (t.operation != mbarrier_phase && t.operation != active_lanes) continue;
      if (!first) first = &t;
      if (t.operation != first->operation) continue;
      if (t.operation == active_lanes ? t.line == first->line
                                      : t.waited == first->waited && t.value == first->value)
        lanes |= 1u << (i - begin);
    }
    if (first) perform(threads + begin, first->operation, lanes), found = true;
  }
  return found;
}

EMULATOR_OWN uint64_t together(const char* what, int operation, uint32_t mask,
                               uint64_t value, int argument, int width, int line) {
  settle();
  Thread& t = *current;
  int flat = static_cast<int>(current - threads), lane = flat & 31;
  if (!(mask >> lane & 1))
    fail("%s in line %d: " EMULATOR_THREAD " is lane %d, which the mask 0x%08x does not name",
         what, line, EMULATOR_WHERE(current), lane, mask);
  t.what = what, t.line = line, t.operation = operation, t.mask = mask;
  t.value = value, t.argument = argument, t.width = width;
  t.state = State::at_warp;
  lanes_waiting[flat / 32] |= 1u << lane;
  if (!try_perform(flat / 32, lane) || t.state != State::ready)
    emulator_switch(&t.stack_pointer, scheduler_stack);
  return t.result;
}

// Waits for the end of the phase of a parity, with all lanes of this warp that come here, too.
EMULATOR_OWN void mbarrier_wait(void* at, uint32_t parity, Line line = Line::caller(), uint32_t site = no_site) {
  current->file = line.file, current->waited = &mbarrier_at(at, EMULATOR_SITE(site));
  if (current->waited->at.block != active)
    fail(EMULATOR_THREAD " waits in %s:%d for an mbarrier of another block of its cluster",
         EMULATOR_WHERE(current), line.file, line.number);
  together("mbarrier_wait", mbarrier_phase, 0xffffffffu, parity & 1, 0, 32, line.number);
}

template <class T>
static inline uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8, "a shuffled value has at most 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
static inline T from_bits(uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace emulator

#define EMULATOR_SHUFFLE(name, operation, Argument)                                              \
  template <class T>                                                                             \
  static inline T name(unsigned mask, T value, Argument argument, int width = 32,                \
                       int line = __builtin_LINE()) {                                            \
    return emulator::from_bits<T>(emulator::together(#name, emulator::operation, mask,           \
                                                     emulator::to_bits(value),                   \
                                                     static_cast<int>(argument), width, line));  \
  }
EMULATOR_SHUFFLE(__shfl_sync, shuffle, int)
EMULATOR_SHUFFLE(__shfl_up_sync, shuffle_up, unsigned)
EMULATOR_SHUFFLE(__shfl_down_sync, shuffle_down, unsigned)
EMULATOR_SHUFFLE(__shfl_xor_sync, shuffle_xor, int)
#undef EMULATOR_SHUFFLE

#define EMULATOR_VOTE(name, operation, Result)                                                 \
  static inline Result name(unsigned mask, int predicate, int line = __builtin_LINE()) {       \
    return static_cast<Result>(                                                                \
        emulator::together(#name, emulator::operation, mask, predicate != 0, 0, 32, line));    \
  }
EMULATOR_VOTE(__ballot_sync, ballot, unsigned)
EMULATOR_VOTE(__all_sync, all_of, int)
EMULATOR_VOTE(__any_sync, any_of, int)
#undef EMULATOR_VOTE

template <class T>
static inline unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  return static_cast<unsigned>(emulator::together("__match_any_sync", emulator::match_any, mask,
                                                  emulator::to_bits(value), 0, 32, line));
}

template <class T>
static inline unsigned __match_all_sync(unsigned mask, T value, int* all, int line = __builtin_LINE()) {
  const unsigned same = __match_any_sync(mask, value, line);
  *all = __all_sync(mask, (same & mask) == (mask & __ballot_sync(mask, 1, line)), line);
  return *all ? same : 0;
}

static inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  emulator::together("__syncwarp", emulator::warp_barrier, mask, 0, 0, 32, line);
}

#define EMULATOR_REDUCE(name, operation, T)                                             \
  static inline T name(unsigned mask, T value, int line = __builtin_LINE()) {           \
    return static_cast<T>(emulator::together(#name, emulator::operation, mask,          \
                                             static_cast<uint32_t>(value), 0, 32, line)); \
  }
EMULATOR_REDUCE(__reduce_add_sync, sum_of, unsigned)
EMULATOR_REDUCE(__reduce_add_sync, sum_of, int)
EMULATOR_REDUCE(__reduce_min_sync, least_signed, int)
EMULATOR_REDUCE(__reduce_min_sync, least_unsigned, unsigned)
EMULATOR_REDUCE(__reduce_max_sync, most_signed, int)
EMULATOR_REDUCE(__reduce_max_sync, most_unsigned, unsigned)
EMULATOR_REDUCE(__reduce_and_sync, and_of, unsigned)
EMULATOR_REDUCE(__reduce_or_sync, or_of, unsigned)
EMULATOR_REDUCE(__reduce_xor_sync, xor_of, unsigned)
#undef EMULATOR_REDUCE

// The active lanes are those that come here while all others of their warp have gone elsewhere.
EMULATOR_OWN unsigned __activemask(int line = __builtin_LINE()) {
  return static_cast<unsigned>(
      emulator::together("__activemask", emulator::active_lanes, 0xffffffffu, 1, 0, 32, line));
}
