// mbarriers of shared memory, and the order that they give accesses. Their waits complete when a
// phase ends, which other threads have to bring about: callers loop with a warp function.
#pragma once

#include "checks.h"

namespace emulator {

struct Mbarrier {  // in the eight bytes of shared memory that a device has for one
  int16_t missing, arrivals, phase, number;
};

// What the arrivals at an mbarrier so far happened after: times of warps, as in `clocks`.
constexpr int most_mbarriers = 512;
EMULATOR_STATE Clock released[most_mbarriers];
EMULATOR_STATE int mbarrier_count;

EMULATOR_OWN int own_warp() { return static_cast<int>(current - threads) / 32; }

EMULATOR_OWN void mbarrier_init(void* at, int arrivals) {
  settle();
  if (!current || arrivals < 1 || arrivals > INT16_MAX)
    fail(EMULATOR_THREAD " initialises an mbarrier with %d arrivals; expected 1 to %d",
         EMULATOR_WHERE(current), arrivals, INT16_MAX);
  if (mbarrier_count == most_mbarriers)
    fail(EMULATOR_THREAD " initialises an mbarrier after %d others; the emulator has no more",
         EMULATOR_WHERE(current), most_mbarriers);
  Mbarrier& own = *static_cast<Mbarrier*>(at);
  own.missing = own.arrivals = static_cast<int16_t>(arrivals), own.phase = 0;
  own.number = static_cast<int16_t>(mbarrier_count++);
  released[own.number] = {};
}

// The mbarrier of a number that was written over is none.
EMULATOR_OWN Mbarrier& mbarrier_at(void* at) {
  Mbarrier& own = *static_cast<Mbarrier*>(at);
  if (own.number < 0 || own.number >= mbarrier_count)
    fail(EMULATOR_THREAD " uses %p as an mbarrier, which is not initialised",
         EMULATOR_WHERE(current), at);
  return own;
}

// Accesses of this warp so far are ordered before those of warps that wait for the mbarrier later.
EMULATOR_OWN void mbarrier_release(void* at) {
  settle();
  Clock& to = released[mbarrier_at(at).number];
  Clock& from = clocks[own_warp()];
  for (int i = 0; i < most_warps; ++i)
    if (from.of[i] > to.of[i]) to.of[i] = from.of[i];
  ++from.of[own_warp()];
}

EMULATOR_OWN void mbarrier_arrive(void* at) {
  mbarrier_release(at);
  Mbarrier& own = mbarrier_at(at);
  if (--own.missing == 0) own.missing = own.arrivals, own.phase ^= 1;
}

// Whether the phase of a parity is complete: of a new mbarrier that of parity 1 is.
EMULATOR_OWN bool mbarrier_complete(void* at, uint32_t parity) {
  settle();
  const Mbarrier& own = mbarrier_at(at);
  if (own.phase == static_cast<int16_t>(parity)) return false;
  const Clock& from = released[own.number];
  Clock& to = clocks[own_warp()];
  // What lanes of this warp released is ordered before what the others do now.
  if (from.of[own_warp()] > seen_of_itself[own_warp()]) {
    seen_of_itself[own_warp()] = from.of[own_warp()];
    ++warp_epochs[own_warp()];
  }
  for (int i = 0; i < most_warps; ++i)
    if (from.of[i] > to.of[i]) to.of[i] = from.of[i];
  return true;
}

}  // namespace emulator
