// Asynchronous copies from global to shared memory. In the forward order a copy is made as late as
// possible, when its group is waited for; in other orders as early as possible. A kernel that does
// not wait, or that overwrites a buffer which is still read, thus computes wrong results.
#pragma once

#include "checks.h"

namespace emulator {

EMULATOR_OWN void make_copy(const Copy& copy) {
  check(reinterpret_cast<uintptr_t>(copy.to), copy.bytes, Access::write, library_base + copy.pc);
  uint32_t taken = copy.bytes - copy.zeros;
  if (taken)
    check(reinterpret_cast<uintptr_t>(copy.from), taken, Access::read, library_base + copy.pc,
          false);
  memcpy(copy.to, copy.from, taken);
  memset(static_cast<char*>(copy.to) + taken, 0, copy.zeros);
}

EMULATOR_OWN void issue_copy_at(void* to, const void* from, size_t bytes, size_t zeros,
                                uintptr_t caller) {
  Thread& t = *current;
  Copy copy = {to, from, static_cast<uint32_t>(bytes), static_cast<uint32_t>(zeros), t.copy_group,
               static_cast<uint32_t>(caller - library_base)};
  if (bytes != 4 && bytes != 8 && bytes != 16)
    fail(EMULATOR_THREAD " copies %lu bytes asynchronously at {pc:%x}; expected 4, 8 or 16",
         EMULATOR_WHERE(current), static_cast<unsigned long>(bytes), copy.pc);
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) & (bytes - 1))
    fail(EMULATOR_THREAD " copies %lu bytes asynchronously at {pc:%x} from or to an address that "
         "is not aligned to them",
         EMULATOR_WHERE(current), static_cast<unsigned long>(bytes), copy.pc);
  if (options.order) {
    make_copy(copy);
    return;
  }
  // The device may write from here on, so reads from now on are races.
  check(reinterpret_cast<uintptr_t>(to), copy.bytes, Access::write, caller);
  if (!t.copies) t.copies = static_cast<Copy*>(malloc(most_copies * sizeof(Copy)));
  if (t.copy_count == most_copies) {  // as if the device had completed the oldest
    make_copy(t.copies[0]);
    memmove(t.copies, t.copies + 1, --t.copy_count * sizeof(Copy));
  }
  t.copies[t.copy_count++] = copy;
}

EMULATOR_OWN void issue_copy(void* to, const void* from, size_t bytes, size_t zeros) {
  issue_copy_at(to, from, bytes, zeros, reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}

EMULATOR_OWN void wait_copies(uint32_t still_pending) {
  Thread& t = *current;
  int kept = 0;
  for (int i = 0; i < t.copy_count; ++i) {
    if (t.copies[i].group + still_pending < t.copy_group)
      make_copy(t.copies[i]);
    else
      t.copies[kept++] = t.copies[i];
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
