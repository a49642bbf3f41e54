// What the compiler has the kernel call before each access, and where functions begin and end.
#pragma once

#include "atomics.h"

namespace emulator {

// What the compiler passes to checks of alignment (-fsanitize=alignment).
struct Misaligned {
  const char* file;
  uint32_t line, column;
  const struct {
    uint16_t kind, info;
    char name[1];  // in quotes
  }* type;
  unsigned char log_alignment, access;
};

// What the compiler passes to checks of indices (-fsanitize=bounds).
struct OutOfBounds {
  const char* file;
  uint32_t line, column;
  const struct {
    uint16_t kind, info;
    char name[1];  // in quotes
  } *array, *index;
};

// Of an index of 64 bits or less its number is passed in place of its address.
EMULATOR_OWN void index_out_of_bounds(const OutOfBounds* what, uintptr_t index, uintptr_t caller) {
  if (!in_kernel() || !options.checked) return;
  const int unused = 64 - (1 << (what->index->info >> 1));
  const long long number = static_cast<long long>(static_cast<uint64_t>(index) << unused) >> unused;
  fail(EMULATOR_THREAD " accesses item %lld of an array of type %s at {site:%u}; in C++ each dimension "
       "has bounds of its own, so to go on into the next row index a pointer, such as &array[0][0]",
       EMULATOR_WHERE(current), number, what->array->name, site_of(caller));
}

// Local memory is exempt: nvcc keeps a small array that is loaded as one vector in registers.
EMULATOR_OWN void misaligned(const Misaligned* what, uintptr_t address, uintptr_t caller) {
  if (!in_kernel() || !options.checked) return;
  if (address - reinterpret_cast<uintptr_t>(stacks) < all_stack_bytes) return;
  char place[200];
  name_place(address, place, sizeof place);
  fail(EMULATOR_THREAD " accesses %s of type %s at {site:%u}, which is not aligned to %u bytes",
       EMULATOR_WHERE(current), place, what->type->name,
       site_of(caller), 1u << what->log_alignment);
}

EMULATOR_OWN void read_volatile(uintptr_t address, uint32_t bytes, uintptr_t caller) {
  if (is_local(address) || !in_kernel() || !options.checked) return;
  poll(caller);
  guesses[site_of(caller)] = true;
  see(own_warp(), released);
  check(address, bytes, Access::read, caller);
}

EMULATOR_OWN void write_volatile(uintptr_t address, uint32_t bytes, uintptr_t caller) {
  if (is_local(address) || !in_kernel() || !options.checked) return;
  check(address, bytes, current->has_fenced ? Access::atomic : Access::relaxed, caller);
}

// Reports a read of sums of a product that has not been waited for.
EMULATOR_OWN void check_sums(uintptr_t address, uint32_t bytes, uintptr_t caller);

// Local memory is not watched, but for the registers of sums.
EMULATOR_QUICK void check_local(uintptr_t address, uint32_t bytes, Access access, uintptr_t caller) {
  if (access == Access::read && current && current->pending_sums) check_sums(address, bytes, caller);
}

}  // namespace emulator

#define EMULATOR_HOOK(name, bytes, access, natural)                                             \
  extern "C" EMULATOR_CALLED void __tsan_##name(void* p) {                                    \
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);                                   \
    const uintptr_t caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));          \
    if (!emulator::is_local(address))                                                           \
      emulator::check(address, bytes, emulator::Access::access, caller, natural);               \
    else                                                                                        \
      emulator::check_local(address, bytes, emulator::Access::access, caller);                  \
  }
// Volatile accesses are those of flags (PTX has them as relaxed ones): a thread may read one until another
// has written it. A write is as an atomic operation if a fence is before it, and nothing else is written
// between; what has been fenced so is ordered before what is done by one that has read it.
#define EMULATOR_VOLATILE_HOOK(name, bytes)                                                      \
  extern "C" EMULATOR_CALLED void __tsan_##name##read##bytes(void* p) {                         \
    emulator::read_volatile(reinterpret_cast<uintptr_t>(p), bytes,                               \
                            reinterpret_cast<uintptr_t>(__builtin_return_address(0)));           \
  }                                                                                              \
  extern "C" EMULATOR_CALLED void __tsan_##name##write##bytes(void* p) {                        \
    emulator::write_volatile(reinterpret_cast<uintptr_t>(p), bytes,                              \
                             reinterpret_cast<uintptr_t>(__builtin_return_address(0)));          \
  }
#define EMULATOR_HOOKS(bytes)                          \
  EMULATOR_HOOK(read##bytes, bytes, read, true)        \
  EMULATOR_HOOK(write##bytes, bytes, write, true)      \
  EMULATOR_HOOK(unaligned_read##bytes, bytes, read, false) \
  EMULATOR_HOOK(unaligned_write##bytes, bytes, write, false) \
  EMULATOR_VOLATILE_HOOK(volatile_, bytes)             \
  EMULATOR_VOLATILE_HOOK(unaligned_volatile_, bytes)
EMULATOR_HOOKS(1)
EMULATOR_HOOKS(2)
EMULATOR_HOOKS(4)
EMULATOR_HOOKS(8)
EMULATOR_HOOKS(16)
#undef EMULATOR_HOOKS
#undef EMULATOR_VOLATILE_HOOK
#undef EMULATOR_HOOK

#define EMULATOR_RANGE_HOOK(name, access)                                                        \
  extern "C" EMULATOR_CALLED void __tsan_##name(void* p, size_t n) {                           \
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);                                    \
    const uintptr_t caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));           \
    const uint32_t bytes = static_cast<uint32_t>(n);                                             \
    if (n && !emulator::is_local(address))                                                       \
      emulator::check(address, bytes, emulator::Access::access, caller, false);                  \
    else if (n)                                                                                  \
      emulator::check_local(address, bytes, emulator::Access::access, caller);                   \
  }
EMULATOR_RANGE_HOOK(read_range, read)
EMULATOR_RANGE_HOOK(write_range, write)
#undef EMULATOR_RANGE_HOOK

extern "C" {
EMULATOR_CALLED void __ubsan_handle_type_mismatch_v1(void* what, void* address) {
  emulator::misaligned(static_cast<emulator::Misaligned*>(what),
                       reinterpret_cast<uintptr_t>(address),
                       reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}
EMULATOR_CALLED void __ubsan_handle_out_of_bounds(void* what, void* index) {
  emulator::index_out_of_bounds(static_cast<emulator::OutOfBounds*>(what),
                                reinterpret_cast<uintptr_t>(index),
                                reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}
// The pointer to an object's virtual functions, which is accessed as any other.
EMULATOR_CALLED void __tsan_vptr_update(void** p, void*) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  if (emulator::is_local(address)) return;
  emulator::check(address, sizeof *p, emulator::Access::write,
                  reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}
EMULATOR_CALLED void __tsan_vptr_read(void** p) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  if (emulator::is_local(address)) return;
  emulator::check(address, sizeof *p, emulator::Access::read,
                  reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}
EMULATOR_CALLED void __tsan_init() {}
EMULATOR_CALLED void __tsan_func_entry(void* caller) {
  if (emulator::in_kernel()) emulator::enter_function(reinterpret_cast<uintptr_t>(caller));
}
EMULATOR_CALLED void __tsan_func_exit(void*) {
  if (emulator::in_kernel()) --emulator::current->call_count;
}
}
