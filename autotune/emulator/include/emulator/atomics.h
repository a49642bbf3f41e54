// Atomic operations: plain ones, as one thread runs at a time, but known to the checks as atomic.
#pragma once

#include "checks.h"
#include "half.h"

namespace emulator {

// Volatile reads and atomic operations of a thread, between which it may have waited for what another is to
// write, until others have a turn.
constexpr uint32_t most_polls = 64;

template <class T>
EMULATOR_RAW static T swap_in(T* at, T value) {
  T old;
  __builtin_memcpy(&old, at, sizeof old);
  if (memcmp(&old, &value, sizeof old)) ++changes;
  __builtin_memcpy(at, &value, sizeof value);
  return old;
}

// What the warp of the current thread did is ordered before what one does that performs an atomic
// operation from now on.
EMULATOR_OWN void release() {
  const int warp = own_warp();
  current->has_fenced = true;
  join(released, clocks[warp]);
  ++clocks[warp].of[warp];
}

// Lets others go on where a thread may wait for what they are to write.
EMULATOR_OWN void poll(uintptr_t caller) {
  if (!in_kernel() || ++current->polls < most_polls) return;
  settle();
  current->polls = 0, current->poll_site = site_of(caller);
  emulator_switch(&current->stack_pointer, scheduler_stack);
}

EMULATOR_OWN void check_atomic_of(uintptr_t at, uint32_t bytes, uintptr_t caller) {
  poll(caller);
  see(own_warp(), released);
  check(at, bytes, Access::atomic, caller);
}

EMULATOR_OWN void check_atomic(void* at, uint32_t bytes) {
  check_atomic_of(reinterpret_cast<uintptr_t>(at), bytes,
                  reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}

// Not by a constructor, which the compiler would watch.
template <class T>
EMULATOR_RAW static T load_quietly(const T* at) {
  T value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace emulator

#define EMULATOR_ATOMIC(name, expression)                                   \
  template <class T>                                                        \
  static inline T name(T* at, typename emulator::Same<T>::type value) {     \
    emulator::check_atomic(at, sizeof(T));                                  \
    T old = emulator::load_quietly(at);                                     \
    return emulator::swap_in<T>(at, expression);                            \
  }                                                                         \
  template <class T>                                                        \
  static inline T name##_block(T* at, typename emulator::Same<T>::type value) { \
    return name(at, value);                                                 \
  }                                                                         \
  template <class T>                                                        \
  static inline T name##_system(T* at, typename emulator::Same<T>::type value) { \
    return name(at, value);                                                 \
  }
EMULATOR_ATOMIC(atomicAdd, static_cast<T>(old + value))
EMULATOR_ATOMIC(atomicSub, static_cast<T>(old - value))
EMULATOR_ATOMIC(atomicMin, value < old ? value : old)
EMULATOR_ATOMIC(atomicMax, old < value ? value : old)
EMULATOR_ATOMIC(atomicAnd, static_cast<T>(old & value))
EMULATOR_ATOMIC(atomicOr, static_cast<T>(old | value))
EMULATOR_ATOMIC(atomicXor, static_cast<T>(old ^ value))
EMULATOR_ATOMIC(atomicExch, (static_cast<void>(old), value))
EMULATOR_ATOMIC(atomicInc, old >= value ? T(0) : static_cast<T>(old + 1))
EMULATOR_ATOMIC(atomicDec, old == T(0) || old > value ? value : static_cast<T>(old - 1))
#undef EMULATOR_ATOMIC

template <class T>
static inline T atomicCAS(T* at, typename emulator::Same<T>::type compare,
                          typename emulator::Same<T>::type value) {
  emulator::check_atomic(at, sizeof(T));
  T old = emulator::load_quietly(at);
  return emulator::swap_in<T>(at, old == compare ? value : old);
}

// Of the numbers of a vector each is added atomically.
static inline float2 atomicAdd(float2* at, float2 value) {
  return {atomicAdd(&at->x, value.x), atomicAdd(&at->y, value.y)};
}
static inline float4 atomicAdd(float4* at, float4 value) {
  return {atomicAdd(&at->x, value.x), atomicAdd(&at->y, value.y), atomicAdd(&at->z, value.z),
          atomicAdd(&at->w, value.w)};
}
