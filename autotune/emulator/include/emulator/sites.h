// Sites: where in a kernel something happens, as an address of the library and from where its function
// was called. Much happens in functions that are not the kernel's own: those of the emulator's headers,
// and the compiler's copies of structs. What is reported of it is the line that called them.
#pragma once

#include "state.h"

namespace emulator {

constexpr int most_callers = 3;

struct Site {
  uint32_t pc, callers[most_callers];
};

// Few of them are used: as many as there are accesses in the text, by each way to them.
constexpr uint32_t most_sites = 1 << 16;
EMULATOR_STATE Site sites[most_sites];

// Tells whether a thread of a kernel runs: a host thread has another stack, and may be about to launch
// what this library is running.
static inline __attribute__((no_sanitize("thread"))) bool in_kernel() {
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return current && here - reinterpret_cast<uintptr_t>(stacks) < all_stack_bytes;
}

// Returns the number of the site of the current thread whose function returns to `caller`.
EMULATOR_OWN uint32_t site_of(uintptr_t caller) {
  Site site = {static_cast<uint32_t>(caller - library_base), {}};
  const Thread& t = *current;
  for (uint32_t i = 0; i < most_callers && i < t.call_count; ++i)
    site.callers[i] = t.calls[(t.call_count - 1 - i) % most_calls];
  uint32_t slot = site.pc * 0x9E3779B1u;
  for (const uint32_t each : site.callers) slot = (slot ^ each) * 0x85EBCA6Bu;
  slot >>= 16;
  for (uint32_t tries = 0; tries < 64; ++tries, slot = (slot + 1) % most_sites) {
    if (!sites[slot].pc) sites[slot] = site;
    if (!memcmp(&sites[slot], &site, sizeof site)) return slot;
  }
  sites[slot] = site;  // where there are too many, another is forgotten
  return slot;
}

// Notes that the current thread is in another function, called from an address.
EMULATOR_OWN void enter_function(uintptr_t caller) {
  Thread& t = *current;
  t.calls[t.call_count++ % most_calls] = static_cast<uint32_t>(caller - library_base);
}

}  // namespace emulator
