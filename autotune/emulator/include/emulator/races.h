// The last accesses to shared memory and to written arguments, and what no barrier orders of them.
#pragma once

#include <stdlib.h>

#include "shared_memory.h"
#include "flights.h"
#include "published.h"
#include "variables.h"

namespace emulator {

// The last accesses to one granule of shared memory, or to one element of an argument. Two accesses
// of a block are ordered if they are of one thread, with a __syncthreads between them (epoch),
// within a warp with a __syncwarp (warp epoch), or if the later one's warp waited for an mbarrier or
// the cluster after the other's arrived there after it (time). Accesses of two blocks of a cluster
// are ordered by the latter alone. Those of blocks that are not of one are unordered, unless the kernel
// uses fences: then a write is ordered before what later blocks do if its cluster has published it, see
// published.h, or if it is volatile, and a read always. Whether the later block has looked is not known. Those of a block are ordered,
// too, if the earlier one's warp performed a fence after it and the later one's an atomic operation
// since then, as where a lock is passed on. Atomic operations without fences, which are relaxed, order
// no other accesses (PTX ISA, "Memory Consistency Model").
struct Cell {
  uint32_t write_epoch, read_epoch;
  uint32_t write_site, read_site;
  uint32_t write_time, read_time, far_time;
  uint16_t writer, write_warp_epoch;
  uint16_t reader, read_warp_epoch;
  uint16_t far_reader;   // a reader of another warp than `reader`, if it was so read
  uint16_t lane_reader;  // another lane of its warp that read in that warp epoch, or `reader`
  bool has_far_reader;
  bool atomic;
  bool relaxed, plain_relaxed;  // written as a volatile object, but not right behind a fence
  uint16_t plain_writer, plain_warp_epoch;  // the last that was not atomic, of a cell that is `atomic`
  uint32_t plain_epoch, plain_time, plain_site;
  uint16_t away_reader;  // a reader of another block of the cluster
  uint32_t away_epoch, away_time, away_site;
  uint32_t unfenced;  // fences of proxies until the last write, which is of the generic proxy; else none
  Flight flight;      // the last that accessed it
};

EMULATOR_STATE Cell* cells = nullptr;  // of the block that runs
EMULATOR_STATE size_t cell_capacity = 0;  // for each block
EMULATOR_STATE int granule_shift = 2;  // four bytes until something smaller is touched
EMULATOR_STATE uint32_t proxy_fences;  // of all threads of a cluster
constexpr size_t most_watched_bytes = 8 << 20;
constexpr uint16_t another_block = 0xFFFF;
// Sites of reads that a thread performed before its first atomic operation on the same: their value is
// a guess, which atomicCAS confirms, or which spares an atomicMax. A change in between does no harm. So are
// those of volatile objects, which are looked at again; of plain writes to these all that is said above holds.
EMULATOR_STATE bool guesses[most_sites];

// A write that conflicts with another thread's access is a race only if it changes the value; this
// is checked at the next event, after the write was made.
struct Pending {
  bool set;
  uintptr_t address;
  uint32_t bytes;
  unsigned char before[16];
  uint16_t other;
  bool other_wrote;
  uint32_t other_site, site;
};
EMULATOR_STATE Pending pending;

// A volatile write that is not right behind a fence is relaxed: where there are fences, other blocks may read it.
enum class Access { read, write, relaxed, atomic };

EMULATOR_OWN void name_place(uintptr_t address, char* text, size_t size) {
  for (int i = 0; i < range_count; ++i)
    if (address >= ranges[i].begin && address < ranges[i].end) {
      snprintf(text, size, "argument '%s' at byte %lu", ranges[i].name,
               static_cast<unsigned long>(address - ranges[i].begin));
      return;
    }
  if (const Range* const variable = variable_at(address)) {
    snprintf(text, size, "variable '%s' at byte %lu", variable->name,
             static_cast<unsigned long>(address - variable->begin));
    return;
  }
  char whose[60] = "";
  const Place place = place_of(address);
  if (place.block) address = place.address;
  if (place.block && place.block != active)
    snprintf(whose, sizeof whose, " of block (%u,%u,%u)", place.block->index.x,
             place.block->index.y, place.block->index.z);
  bool dynamic = address >= dynamic_begin && address < dynamic_end;
  snprintf(text, size, "%sshared memory%s at byte %lu", dynamic ? "dynamic " : "", whose,
           static_cast<unsigned long>(address - (dynamic ? dynamic_begin : static_begin)));
}

EMULATOR_OWN void report_race(uintptr_t address, bool other_wrote, uint16_t other,
                              uint32_t other_site, bool wrote, uint32_t site) {
  char place[200], who[100] = "a thread of another block";
  name_place(address, place, sizeof place);
  if (other != another_block) {
    const uint3& at = threads[other].index;
    int used = snprintf(who, sizeof who, "thread (%u,%u,%u)", at.x, at.y, at.z);
    const Block& its = blocks[other / block_stride];
    if (&its != active)
      snprintf(who + used, sizeof who - static_cast<size_t>(used), " of block (%u,%u,%u)",
               its.index.x, its.index.y, its.index.z);
  }
  fail("race on %s: %s %s it at {site:%u} and " EMULATOR_THREAD
       " %s it at {site:%u}, with no %s between",
       place, who, other_wrote ? "wrote" : "read", other_site, EMULATOR_WHERE(current),
       wrote ? "wrote" : "read", site,
       other == another_block ? "atomic operation and __threadfence" : "barrier");
}

[[noreturn]] EMULATOR_OWN void report_flight(uintptr_t address, const Flight& flight, Access access,
                                             uint32_t site) {
  char place[200];
  name_place(address, place, sizeof place);
  const bool reads = is_read_by(flight.engine);
  fail(EMULATOR_THREAD " %s %s at {site:%u}, while the %s at {site:%u} that %s it has not been waited for",
       EMULATOR_WHERE(current), access == Access::read ? "reads" : "writes", place, site,
       name_of(flight.engine), flight.site, reads ? "reads" : "writes");
}

// Tells whether an access has to wait for what the hardware does with that memory.
EMULATOR_QUICK bool too_early(const Flight& flight, Access access) {
  if (__builtin_expect(flight.engine == Engine::none, 1)) return false;
  return !(is_read_by(flight.engine) && access == Access::read) && in_flight(flight);
}

// Products and stores read shared memory by the async proxy. What threads and their copies (cp.async)
// write by the generic one is visible to them only after a fence (PTX ISA, "Async proxy" and
// "wgmma.mma_async"), in the thread that wrote or in the one that has it read. There may be others in
// between: these checks do not know.
EMULATOR_OWN void check_fenced(const Cell& cell, uintptr_t address, Engine engine, uint32_t site) {
  if (!cell.unfenced || cell.write_epoch < cluster_epoch) return;
  if (threads[cell.writer].fenced >= cell.unfenced || current->fenced >= cell.unfenced) return;
  char place[200];
  name_place(address, place, sizeof place);
  const uint3& at = threads[cell.writer].index;
  fail(EMULATOR_THREAD " issues a %s at {site:%u} that reads %s, where thread (%u,%u,%u) wrote at "
       "{site:%u}, with no fence.proxy.async between",
       EMULATOR_WHERE(current), name_of(engine), site, place, at.x, at.y, at.z, cell.write_site);
}

EMULATOR_OWN void settle_pending() {
  pending.set = false;
  if (memcmp(reinterpret_cast<void*>(pending.address), pending.before, pending.bytes) == 0) return;
  report_race(pending.address, pending.other_wrote, pending.other, pending.other_site, true,
              pending.site);
}

// Called wherever the current thread stops or touches memory again.
EMULATOR_QUICK void settle() {
  if (__builtin_expect(pending.set, 0)) settle_pending();
}

EMULATOR_QUICK bool unordered(uint16_t other, uint16_t warp_epoch, uint32_t time, uint16_t own) {
  if (other == own) return false;
  if (other / 32 != own / 32) return clocks[own / 32].of[other / 32] < time;
  return warp_epoch == warp_epochs[own / 32];
}

EMULATOR_OWN void suspect(uintptr_t address, uint32_t bytes, bool other_wrote,
                          uint16_t other, uint32_t other_site, uint32_t site) {
  pending.set = true;
  pending.address = address;
  pending.bytes = bytes > 16 ? 16 : bytes;
  memcpy(pending.before, reinterpret_cast<void*>(address), pending.bytes);
  pending.other = other, pending.other_wrote = other_wrote;
  pending.other_site = other_site, pending.site = site;
}

// Tells whether an access was made by an earlier block of this launch, unordered with this one.
EMULATOR_QUICK bool foreign(uint32_t at, bool global) {
  return global && !fenced && at >= launch_epoch && at < cluster_epoch;
}

// The same of a write, of which more is known where there are fences.
EMULATOR_QUICK bool foreign(uint32_t at, uint16_t writer, uint32_t time, bool relaxed, bool global) {
  return global && at >= launch_epoch && at < cluster_epoch &&
         !(fenced && (relaxed || is_published(at, writer, time)));
}

// Tells whether a thread is of another block than the one that runs.
EMULATOR_QUICK bool of_another_block(uint16_t thread) {
  const int in_block = thread - static_cast<int>(active - blocks) * block_stride;
  return in_block < 0 || in_block >= block_stride;
}

// Tells whether no barrier of the block is between an access and one now.
EMULATOR_QUICK bool recent(uint32_t at, uint16_t other, uint16_t own, bool global) {
  if (at == epoch) return true;
  return block_count > 1 && at >= cluster_epoch && !(global && fenced) &&
         of_another_block(other);
}

// Looks for races of a write with other threads' accesses since the last barrier.
EMULATOR_OWN void suspect_write(const Cell& cell, uintptr_t address, uint32_t bytes, uint16_t own,
                                uint32_t site, bool atomic, bool global) {
  bool clash = !pending.set && !(atomic && cell.atomic);  // with the last write
  if (clash && !cell.atomic && foreign(cell.write_epoch, cell.writer, cell.write_time, cell.relaxed, global)) {
    suspect(address, bytes, true, another_block, cell.write_site, site);
  } else if (clash && recent(cell.write_epoch, cell.writer, own, global) &&
             unordered(cell.writer, cell.write_warp_epoch, cell.write_time, own)) {
    suspect(address, bytes, true, cell.writer, cell.write_site, site);
  } else if (!pending.set && atomic && cell.atomic &&
             foreign(cell.plain_epoch, cell.plain_writer, cell.plain_time, cell.plain_relaxed, global)) {
    suspect(address, bytes, true, another_block, cell.plain_site, site);
  } else if (!pending.set && atomic && cell.atomic && recent(cell.plain_epoch, cell.plain_writer, own, global) &&
             unordered(cell.plain_writer, cell.plain_warp_epoch, cell.plain_time, own)) {
    suspect(address, bytes, true, cell.plain_writer, cell.plain_site, site);
  } else if (pending.set) {
    // One suspected race at a time is enough: it stops the kernel, or was none.
  } else if (atomic && guesses[cell.read_site]) {
    // What is read is looked at again.
  } else if (!atomic && !cell.atomic && foreign(cell.read_epoch, global)) {
    suspect(address, bytes, false, another_block, cell.read_site, site);
  } else if (block_count > 1 && recent(cell.away_epoch, cell.away_reader, own, global) &&
             unordered(cell.away_reader, 0xFFFF, cell.away_time, own)) {
    suspect(address, bytes, false, cell.away_reader, cell.away_site, site);
  } else if (recent(cell.read_epoch, cell.reader, own, global)) {
    bool other_lane = cell.lane_reader != cell.reader && cell.reader / 32 == own / 32 &&
                      cell.read_warp_epoch == warp_epochs[own / 32];
    if (cell.has_far_reader && cell.far_reader / 32 != own / 32 &&
        unordered(cell.far_reader, 0, cell.far_time, own))
      suspect(address, bytes, false, cell.far_reader, cell.read_site, site);
    else if (other_lane || unordered(cell.reader, cell.read_warp_epoch, cell.read_time, own))
      suspect(address, bytes, false, cell.reader != own ? cell.reader : cell.lane_reader,
              cell.read_site, site);
  }
}

// Tells whether no other thread has accessed it since the last barrier of the only block.
EMULATOR_QUICK bool is_own_cell(const Cell& cell, uint16_t own) {
  return block_count == 1 && (cell.write_epoch != epoch || cell.writer == own) &&
         (cell.read_epoch != epoch ||
          (cell.reader == own && cell.lane_reader == own && !cell.has_far_reader));
}

EMULATOR_QUICK void note_write(Cell& cell, uintptr_t address, uint32_t bytes, uint16_t own,
                               uint32_t site, Access access, bool global) {
  const bool atomic = access == Access::atomic;
  if (atomic && cell.read_epoch == epoch && cell.reader == own &&
      !(cell.write_epoch == epoch && cell.writer == own))
    guesses[cell.read_site] = true;
  if (global || !is_own_cell(cell, own)) suspect_write(cell, address, bytes, own, site, atomic, global);
  if (atomic && !cell.atomic) {
    cell.plain_epoch = cell.write_epoch, cell.plain_writer = cell.writer, cell.plain_site = cell.write_site;
    cell.plain_warp_epoch = cell.write_warp_epoch, cell.plain_time = cell.write_time;
    cell.plain_relaxed = cell.relaxed;
  }
  cell.write_epoch = epoch, cell.writer = own, cell.write_site = site, cell.atomic = atomic;
  cell.relaxed = access == Access::relaxed;
  cell.write_warp_epoch = warp_epochs[own / 32], cell.write_time = clocks[own / 32].of[own / 32];
}

EMULATOR_QUICK void note_read(Cell& cell, uintptr_t address, uint16_t own, uint32_t site, bool global,
                              bool away) {
  if (!cell.atomic && foreign(cell.write_epoch, cell.writer, cell.write_time, cell.relaxed, global))
    report_race(address, true, another_block, cell.write_site, false, site);
  if (!(cell.atomic && guesses[site]) && recent(cell.write_epoch, cell.writer, own, global) &&
      unordered(cell.writer, cell.write_warp_epoch, cell.write_time, own))
    report_race(address, true, cell.writer, cell.write_site, false, site);
  if (away) {
    cell.away_reader = own, cell.away_epoch = epoch, cell.away_site = site;
    cell.away_time = clocks[own / 32].of[own / 32];
    return;
  }
  uint16_t warp_epoch = warp_epochs[own / 32];
  if (cell.read_epoch != epoch) {
    cell.read_epoch = epoch, cell.has_far_reader = false, cell.lane_reader = own;
  } else if (cell.reader / 32 != own / 32) {
    cell.has_far_reader = true, cell.far_reader = cell.reader, cell.far_time = cell.read_time;
    cell.lane_reader = own;
  } else if (cell.read_warp_epoch != warp_epoch || cell.reader != own) {
    cell.lane_reader = cell.read_warp_epoch != warp_epoch ? own : cell.reader;
  }
  cell.reader = own, cell.read_warp_epoch = warp_epoch, cell.read_site = site;
  cell.read_time = clocks[own / 32].of[own / 32];
}

EMULATOR_QUICK void note_cells(Cell* first, size_t count, uintptr_t address, uint32_t bytes,
                               Access access, uint32_t site, bool global, bool away,
                               const Flight& flight) {
  uint16_t own = static_cast<uint16_t>(current - threads);
  for (size_t i = 0; i < count; ++i) {
    if (too_early(first[i].flight, access)) report_flight(address, first[i].flight, access, site);
    if (flight.engine != Engine::none) memcpy(&first[i].flight, &flight, sizeof flight);
    if (access == Access::read) {
      note_read(first[i], address, own, site, global, away);
      if (is_read_by(flight.engine)) check_fenced(first[i], address, flight.engine, site);
    } else {
      note_write(first[i], address, bytes, own, site, access, global);
      first[i].unfenced = flight.engine == Engine::load ? 0 : proxy_fences + 1;
    }
  }
}

EMULATOR_OWN void watch_range(Range& range) {
  range.cells = nullptr;
  size_t bytes = range.end - range.begin;
  if (options.checked && range.written && bytes <= most_watched_bytes)
    range.cells = static_cast<Cell*>(calloc(bytes / range.item_bytes + 1, sizeof(Cell)));
}

// Checks the elements of written arguments and the variables, where that does not take too much memory.
EMULATOR_OWN void watch_ranges() {
  for (int i = 0; i < range_count; ++i) watch_range(ranges[i]);
  for (int i = 0; i < variable_count; ++i) watch_range(variables[i]);
}

// Resets the checks for a new cluster; `shared_bytes` counts static and dynamic shared memory.
EMULATOR_OWN void clear_cells(size_t shared_bytes) {
  if (shared_bytes > cell_capacity) {
    free(blocks[0].cells);
    const size_t all = shared_bytes * static_cast<size_t>(block_count);
    blocks[0].cells = static_cast<Cell*>(calloc(all, sizeof(Cell)));
    cell_capacity = blocks[0].cells ? shared_bytes : 0;
  }
  for (int i = 0; i < block_count; ++i) {
    blocks[i].cells = blocks[0].cells + cell_capacity * static_cast<size_t>(i);
    blocks[i].epoch = ++last_epoch;
  }
  cells = blocks[0].cells, cluster_epoch = epoch = blocks[0].epoch;
  for (int i = 0; i < warp_count; ++i) {
    warp_epochs[i] = 0, seen_of_itself[i] = 0;
    memset(clocks[i].of, 0, sizeof(uint32_t) * static_cast<size_t>(warp_count));
    clocks[i].of[i] = 1, released.of[i] = 0;
  }
  begin_publications();
}

EMULATOR_OWN void drop_cells() {
  forget_publications();
  for (int i = 0; i < range_count; ++i) free(ranges[i].cells);
  for (int i = 0; i < variable_count; ++i) free(variables[i].cells), variables[i].cells = nullptr;
  free(blocks[0].cells);
  blocks[0].cells = cells = nullptr, cell_capacity = 0;
}

}  // namespace emulator
