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
constexpr int site_bits = 14;
constexpr uint32_t most_sites = 1 << site_bits;
EMULATOR_STATE Site sites[most_sites];

// Tells whether a thread of a kernel runs: a host thread has another stack, and may be about to launch
// what this library is running.
EMULATOR_QUICK bool in_kernel() {
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return current && here - reinterpret_cast<uintptr_t>(stacks) < all_stack_bytes;
}

// Returns the number of a site that is not where it is looked for first.
EMULATOR_OWN uint32_t find_site(const Site& site, uint32_t slot) {
  for (uint32_t tries = 0; tries < 64; ++tries, slot = (slot + 1) % most_sites) {
    if (!sites[slot].pc) sites[slot] = site;
    if (!memcmp(&sites[slot], &site, sizeof site)) return slot;
  }
  sites[slot] = site;  // where there are too many, another is forgotten
  return slot;
}

// Returns the number of the site of the current thread whose function returns to `caller`.
EMULATOR_QUICK uint32_t site_of(uintptr_t caller) {
  const Thread& t = *current;
  const uint32_t depth = t.call_count;
  const Site site = {static_cast<uint32_t>(caller - library_base),
                     {t.calls[(depth - 1) % most_calls], t.calls[(depth - 2) % most_calls],
                      t.calls[(depth - 3) % most_calls]}};
  uint64_t words[2], there[2];
  memcpy(words, &site, sizeof site);
  const uint64_t mixed = (words[0] ^ words[1] * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
  const uint32_t slot = static_cast<uint32_t>(mixed >> (64 - site_bits));
  memcpy(there, &sites[slot], sizeof there);
  if (__builtin_expect(there[0] == words[0] && there[1] == words[1], 1)) return slot;
  return find_site(site, slot);
}

// The current thread is in no function but that of the kernel; before are as many callers as a site has.
EMULATOR_QUICK void begin_calls(Thread& t) {
  t.call_count = most_callers;
  for (int i = 0; i < most_callers; ++i) t.calls[i] = 0;
}

// Notes that the current thread is in another function, called from an address.
EMULATOR_QUICK void enter_function(uintptr_t caller) {
  Thread& t = *current;
  t.calls[t.call_count++ % most_calls] = static_cast<uint32_t>(caller - library_base);
}

}  // namespace emulator
