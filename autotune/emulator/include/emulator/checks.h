// Memory checks: before every access of a kernel (hooks.h) they look for what CUDA leaves undefined:
// races on shared memory, and accesses out of bounds.
#pragma once

#include "races.h"

namespace emulator {

// Notes that the current thread writes what is not the emulator's own.
EMULATOR_QUICK void note_change(Access access, bool global) {
  if (access == Access::read) return;
  if (global && fenced && (current->has_fenced || access != Access::write)) publish();
  current->has_fenced = false;
}

constexpr Flight no_flight = {Engine::none, 0, 0, 0};

// Starts again with one cell a byte.
EMULATOR_OWN void watch_bytes() {
  granule_shift = 0;
  memset(static_cast<void*>(blocks[0].cells), 0,
         cell_capacity * static_cast<size_t>(block_count) * sizeof(Cell));
}

// `address` is where the object is while its block runs.
EMULATOR_QUICK void note_shared(const Block& block, uintptr_t address, uint32_t bytes, Access access,
                                uint32_t site, const Flight& flight) {
  if (granule_shift && (bytes & 3)) watch_bytes();
  const bool dynamic = address - dynamic_begin < dynamic_end - dynamic_begin;
  uintptr_t end = dynamic ? dynamic_end : static_end;
  if (address + bytes > end)
    fail(EMULATOR_THREAD " accesses %u bytes past the end of shared memory at {site:%u}",
         EMULATOR_WHERE(current), static_cast<unsigned>(address + bytes - end), site);
  // Offsets count from multiples of 16, so that a float is one granule.
  uintptr_t low = static_begin & ~uintptr_t{15};
  size_t offset = dynamic ? address - dynamic_begin + (static_end - low + 15 & ~size_t{15})
                          : address - low;
  size_t first = offset >> granule_shift, last = (offset + bytes - 1) >> granule_shift;
  const bool away = &block != active;
  if (away)
    address = reinterpret_cast<uintptr_t>(
        of_rank(reinterpret_cast<void*>(address), static_cast<uint32_t>(&block - blocks)));
  note_cells((away ? block.cells : cells) + first, last - first + 1, address, bytes, access, site,
             false, away, flight);
}

// The types of a variable's items are not known: there is a cell for each 4 bytes until fewer are touched.
EMULATOR_OWN void note_variable(uintptr_t address, uint32_t bytes, Access access, uintptr_t caller) {
  Range* const variable = variable_at(address);
  if (!variable) return;
  note_change(access, true);
  if (!variable->cells) return;
  const uint32_t site = site_of(caller);  // not for the emulator's own, of which this is called, too
  const size_t offset = address - variable->begin;
  if (variable->item_bytes > 1 && ((bytes | offset) & 3)) {
    free(variable->cells);
    variable->item_bytes = 1;
    watch_range(*variable);
    if (!variable->cells) return;
  }
  const size_t end = offset + bytes, size = variable->end - variable->begin;
  const size_t first = offset / variable->item_bytes, last = ((end < size ? end : size) - 1) / variable->item_bytes;
  note_cells(variable->cells + first, last - first + 1, address, bytes, access, site, true, false, no_flight);
}

[[noreturn]] EMULATOR_OWN void out_of_bounds(uintptr_t address, uint32_t bytes,
                                             const char* verb, uint32_t site) {
  const Range* nearest = nullptr;
  uintptr_t best = 1 << 20;
  for (int i = 0; i < range_count; ++i) {
    uintptr_t gap = address < ranges[i].begin ? ranges[i].begin - address : address - ranges[i].end;
    if (gap < best) best = gap, nearest = &ranges[i];
  }
  if (!nearest)
    fail(EMULATOR_THREAD " %s %u bytes at {site:%u} that belong to no argument",
         EMULATOR_WHERE(current), verb, bytes, site);
  fail(EMULATOR_THREAD " %s %u bytes out of bounds at {site:%u}: byte %ld of argument '%s', which "
       "has %lu bytes",
       EMULATOR_WHERE(current), verb, bytes, site, static_cast<long>(address - nearest->begin),
       nearest->name, static_cast<unsigned long>(nearest->end - nearest->begin));
}

EMULATOR_OWN void check_at(uintptr_t address, uint32_t bytes, Access access, uint32_t site,
                           bool natural, const Flight& flight = no_flight) {
  if (is_own(address)) return note_shared(*active, address, bytes, access, site, flight);
  if (block_count > 1) {
    const Place place = place_of(address);
    if (place.block) {
      check_lives(*place.block, site);
      return note_shared(*place.block, place.address, bytes, access, site, flight);
    }
  }
  for (int i = 0; i < range_count; ++i) {
    const Range& range = ranges[i];
    if (address < range.begin || address >= range.end) continue;
    if (address + bytes > range.end) break;
    if (access != Access::read && !range.written)
      fail(EMULATOR_THREAD " writes argument '%s' at {site:%u}, which is an input",
           EMULATOR_WHERE(current), range.name, site);
    if (natural && (address & (bytes - 1)))
      fail(EMULATOR_THREAD " accesses %u bytes of argument '%s' at {site:%u} at byte %lu, which is "
           "not aligned",
           EMULATOR_WHERE(current), bytes, range.name, site,
           static_cast<unsigned long>(address - range.begin));
    if (range.cells) {
      size_t offset = address - range.begin;
      size_t first = offset / range.item_bytes, last = (offset + bytes - 1) / range.item_bytes;
      note_cells(range.cells + first, last - first + 1, address, bytes, access, site, true, false,
                 no_flight);
    }
    return;
  }
  if (address - dynamic_begin < most_dynamic_shared)
    fail(EMULATOR_THREAD " %s byte %lu of dynamic shared memory at {site:%u}; the launch has %lu "
         "bytes (shared_bytes=)",
         EMULATOR_WHERE(current), access == Access::read ? "reads" : "writes",
         static_cast<unsigned long>(address - dynamic_begin), site,
         static_cast<unsigned long>(dynamic_end - dynamic_begin));
  out_of_bounds(address, bytes, access == Access::read ? "reads" : "writes", site);
}

// Tells whether an address is in local memory, which is not watched.
EMULATOR_QUICK bool is_local(uintptr_t address) {
  return address - reinterpret_cast<uintptr_t>(stacks) < all_stack_bytes;
}

// Tells whether it is in an argument, of which nothing is noted when it is read.
EMULATOR_QUICK bool is_plain_input(uintptr_t address, uint32_t bytes, bool natural) {
  for (int i = 0; i < range_count; ++i) {
    const Range& range = ranges[i];
    if (address - range.begin < range.end - range.begin)
      return !range.cells && address + bytes <= range.end && !(natural && (address & (bytes - 1)));
  }
  return false;
}

// Called before each access that is not to local memory.
EMULATOR_OWN void check(uintptr_t address, uint32_t bytes, Access access, uintptr_t caller,
                        bool natural = true) {
  if (!in_kernel() || !options.checked) return;
  settle();
  if (access == Access::write || access == Access::relaxed) ++changes;
  if (access == Access::read && is_plain_input(address, bytes, natural)) return;
  // Variables of the module, and those of the emulator.
  if (address - library_begin < library_end - library_begin &&
      address - dynamic_begin >= most_dynamic_shared)
    return note_variable(address, bytes, access, caller);
  note_change(access, !is_own(address) && !(block_count > 1 && place_of(address).block));
  check_at(address, bytes, access, site_of(caller), natural);
}

}  // namespace emulator
