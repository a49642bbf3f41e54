// Asynchronous copies from global to shared memory. In the forward order a copy is made as late as
// possible, when its group is waited for; in other orders as early as possible.
#pragma once

#include "checks.h"

namespace emulator {

// Makes a copy that has `ended` for who issued it, or has to be made before.
EMULATOR_OWN void make_copy(const Copy& copy, bool ended) {
  const uint32_t taken = copy.bytes - copy.zeros;
  settle();
  if (options.checked) {
    if (taken)
      check_at(reinterpret_cast<uintptr_t>(copy.from), taken, Access::read, copy.site, false);
    // Last, as what it suspects is looked at when the memory is touched again.
    if (ended) check_at(reinterpret_cast<uintptr_t>(copy.to), copy.bytes, Access::write, copy.site, true);
  }
  memcpy(copy.to, copy.from, taken);
  memset(static_cast<char*>(copy.to) + taken, 0, copy.zeros);
}

EMULATOR_OWN void issue_copy_at(void* to, const void* from, size_t bytes, size_t zeros,
                                uint32_t site) {
  Thread& t = *current;
  Copy copy = {to, from, static_cast<uint32_t>(bytes), static_cast<uint32_t>(zeros), t.copy_group,
               site};
  if (bytes != 4 && bytes != 8 && bytes != 16)
    fail(EMULATOR_THREAD " copies %lu bytes asynchronously at {site:%u}; expected 4, 8 or 16",
         EMULATOR_WHERE(current), static_cast<unsigned long>(bytes), copy.site);
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) & (bytes - 1))
    fail(EMULATOR_THREAD " copies %lu bytes asynchronously at {site:%u} from or to an address that "
         "is not aligned to them",
         EMULATOR_WHERE(current), static_cast<unsigned long>(bytes), copy.site);
  if (options.order) make_copy(copy, true);
  // The device may write from here on until it is waited for.
  settle();
  if (options.checked)
    check_at(reinterpret_cast<uintptr_t>(to), copy.bytes, Access::write, site, true,
             own_flight(Engine::copy, t.copy_group, site));
  if (options.order) return;
  if (!t.copies) t.copies = static_cast<Copy*>(malloc(most_copies * sizeof(Copy)));
  if (t.copy_count == most_copies) {  // as if the device had completed the oldest
    make_copy(t.copies[0], false);
    memmove(t.copies, t.copies + 1, --t.copy_count * sizeof(Copy));
  }
  memcpy(t.copies + t.copy_count++, &copy, sizeof copy);
}

EMULATOR_OWN void issue_copy(void* to, const void* from, size_t bytes, size_t zeros) {
  const uintptr_t caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  issue_copy_at(to, from, bytes, zeros, site_of(caller));
}

// Copies one of `count` parts: asynchronously as wide as addresses and sizes allow, else at once.
EMULATOR_OWN void copy_by_threads(void* to, const void* from, size_t bytes, unsigned rank, unsigned count) {
  const uint32_t site = site_of(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
  const uintptr_t all = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
  const size_t width = all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : 1;
  const bool shared = place_of(reinterpret_cast<uintptr_t>(to)).block;
  for (size_t at = rank * width; at < bytes; at += count * width) {
    char* const there = static_cast<char*>(to) + at;
    const char* const here = static_cast<const char*>(from) + at;
    if (shared && width >= 4) issue_copy_at(there, here, width, 0, site);
    else make_copy({there, here, static_cast<uint32_t>(width), 0, 0, site}, true);
  }
}

EMULATOR_OWN void wait_copies(uint32_t still_pending) {
  Thread& t = *current;
  if (t.copies_waited + still_pending < t.copy_group) t.copies_waited = t.copy_group - still_pending;
  int kept = 0;
  for (int i = 0; i < t.copy_count; ++i) {
    if (t.copies[i].group + still_pending < t.copy_group)
      make_copy(t.copies[i], true);
    else
      memmove(t.copies + kept++, t.copies + i, sizeof(Copy));
  }
  t.copy_count = kept;
}

EMULATOR_OWN void drop_copies() { current->copy_count = 0; }

}  // namespace emulator

static inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes,
                                           size_t zeros = 0) {
  emulator::issue_copy(to, from, bytes, zeros);
}
static inline void __pipeline_commit() { ++emulator::current->copy_group; }
static inline void __pipeline_wait_prior(size_t still_pending) {
  emulator::wait_copies(static_cast<uint32_t>(still_pending));
}
