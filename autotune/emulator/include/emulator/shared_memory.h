// Addresses of shared memory: of the block that runs, and of the others of its cluster.
#pragma once

#include "state.h"

namespace emulator {

// Where an address of shared memory belongs: a block, and where the object is while that block runs.
struct Place {
  Block* block;  // none of other memory
  uintptr_t address;
};

EMULATOR_QUICK bool is_own(uintptr_t address) {
  return address - static_begin < static_end - static_begin ||
         address - dynamic_begin < dynamic_end - dynamic_begin;
}

EMULATOR_OWN Place place_of(uintptr_t address) {
  if (is_own(address)) return {active, address};
  const uintptr_t offset = address - reinterpret_cast<uintptr_t>(blocks[0].memory);
  if (block_count == 1 || offset >= copy_bytes * static_cast<size_t>(block_count)) return {};
  const uintptr_t inside = offset % copy_bytes;
  const bool dynamic = inside < copy_dynamic_bytes;
  return {blocks + offset / copy_bytes,
          dynamic ? dynamic_begin + inside : static_begin + inside - copy_dynamic_bytes};
}

// Where an object of the block that runs is in the memory of the block of a rank.
EMULATOR_OWN void* of_rank(const void* own, uint32_t rank) {
  if (rank >= static_cast<uint32_t>(block_count))
    fail(EMULATOR_THREAD " maps shared memory of rank %u of a cluster of %d blocks",
         EMULATOR_WHERE(current), rank, block_count);
  const uintptr_t address = reinterpret_cast<uintptr_t>(own);
  if (blocks + rank == active) return const_cast<void*>(own);
  const bool dynamic = address - dynamic_begin < most_dynamic_shared;
  return blocks[rank].memory +
         (dynamic ? address - dynamic_begin : copy_dynamic_bytes + address - static_begin);
}

// Addresses of 32 bits: an offset in dynamic or, from here on, in static shared memory; in the high
// byte one more than a rank of the cluster, or 0 for the own block.
constexpr uint32_t static_offset = 1 << 23, rank_shift = 24;

EMULATOR_OWN uint32_t shared_address(const void* at) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(at);
  if (address - dynamic_begin <= most_dynamic_shared)
    return static_cast<uint32_t>(address - dynamic_begin);
  if (address - static_begin <= static_end - static_begin)
    return static_cast<uint32_t>(address - static_begin) | static_offset;
  const Place place = place_of(address);
  if (!place.block)
    fail(EMULATOR_THREAD " takes an address that is not in shared memory for one that is",
         EMULATOR_WHERE(current));
  return shared_address(reinterpret_cast<void*>(place.address)) |
         static_cast<uint32_t>(place.block - blocks + 1) << rank_shift;
}

EMULATOR_OWN void* generic_address(uint32_t address) {
  const uint32_t rank = address >> rank_shift, offset = address & ((1u << rank_shift) - 1);
  void* const own = reinterpret_cast<void*>(
      offset & static_offset ? static_begin + (offset & ~static_offset) : dynamic_begin + offset);
  return rank ? of_rank(own, rank - 1) : own;
}

// The same address in the block of a rank, as `mapa` returns it.
EMULATOR_OWN uint32_t map_rank(uint32_t address, uint32_t rank) {
  return (address & ((1u << rank_shift) - 1)) | (rank + 1) << rank_shift;
}

// Another block may use shared memory of one that has begun, as a barrier of the cluster tells, and
// that has not ended.
EMULATOR_OWN void check_lives(const Block& block, uint32_t site) {
  if (block.started && block.done < thread_count) return;
  fail(EMULATOR_THREAD " accesses shared memory of block (%u,%u,%u) of its cluster at {site:%u}, which "
       "%s",
       EMULATOR_WHERE(current), block.index.x, block.index.y, block.index.z, site,
       block.started ? "has exited" : "may not have started: a barrier of the cluster is missing");
}

}  // namespace emulator
