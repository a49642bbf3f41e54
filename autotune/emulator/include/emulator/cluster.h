// The barrier of a cluster of blocks, and how these take turns.
#pragma once

#include "warp.h"

namespace emulator {

// Forgets the products that a thread has issued; one that exits must have waited for them.
EMULATOR_OWN void drop_sums(Thread& t, bool exits);

EMULATOR_STATE Phases cluster_phases;  // `missing` counts threads that have neither arrived nor exited
EMULATOR_STATE int live_threads;       // of the cluster

// Lets those go on that wait for the other blocks, if all have arrived.
EMULATOR_OWN void try_end_cluster_phase() {
  Phases& own = cluster_phases;
  if (own.missing || !live_threads) return;
  join(own.ended, own.current);
  own.current = {};
  own.missing = live_threads;
  ++own.phase;
  for (int i = 0; i < all_threads; ++i)
    if (threads[i].state == State::at_cluster) threads[i].state = State::ready;
}

// A thread that exits has arrived in each phase to come.
EMULATOR_OWN void leave_cluster(const Thread& t) {
  --live_threads;
  if (t.arrived && t.cluster_phase == cluster_phases.phase) return;
  --cluster_phases.missing;
  try_end_cluster_phase();
}

// Arrives at the barrier of the cluster with all lanes of the warp.
EMULATOR_OWN void cluster_arrive(Line line = Line::caller(), const char* what = "barrier.cluster.arrive") {
  together(what, matrix_barrier, 0xffffffffu, 0, 0, 32, line.number);
  Thread& t = *current;
  if (t.arrived)
    fail(EMULATOR_THREAD " arrives twice at the barrier of its cluster in %s:%d; a wait is missing",
         EMULATOR_WHERE(current), line.file, line.number);
  t.arrived = true, t.cluster_phase = cluster_phases.phase;
  release(cluster_phases);
  --cluster_phases.missing;
  try_end_cluster_phase();
}

EMULATOR_OWN void cluster_wait(Line line = Line::caller(), const char* what = "barrier.cluster.wait") {
  together(what, matrix_barrier, 0xffffffffu, 0, 0, 32, line.number);
  Thread& t = *current;
  if (!t.arrived)
    fail(EMULATOR_THREAD " waits at the barrier of its cluster in %s:%d without an arrival",
         EMULATOR_WHERE(current), line.file, line.number);
  if (t.cluster_phase == cluster_phases.phase) {
    t.state = State::at_cluster, t.file = line.file, t.line = line.number;
    emulator_switch(&t.stack_pointer, scheduler_stack);
  }
  t.arrived = false;
  acquire(own_warp(), cluster_phases);
}

EMULATOR_OWN void cluster_sync(Line line = Line::caller()) {
  cluster_arrive(line);
  cluster_wait(line);
}

EMULATOR_OWN uint32_t cluster_rank() { return static_cast<uint32_t>(active - blocks); }

// Puts the block's shared memory where its code looks for it.
EMULATOR_OWN void activate(Block& block) {
  const size_t dynamic_bytes = dynamic_end - dynamic_begin, static_bytes = static_end - static_begin;
  void* const dynamic_memory = reinterpret_cast<void*>(dynamic_begin);
  void* const static_memory = reinterpret_cast<void*>(static_begin);
  if (&block != active) {
    memcpy(active->memory, dynamic_memory, dynamic_bytes);
    memcpy(active->memory + copy_dynamic_bytes, static_memory, static_bytes);
    memcpy(dynamic_memory, block.memory, dynamic_bytes);
    memcpy(static_memory, block.memory + copy_dynamic_bytes, static_bytes);
    active->epoch = epoch;
    active = &block, epoch = block.epoch, cells = block.cells;
  }
  blockIdx = block.index;
  block.started = true;
}

// Makes room for the shared memory of blocks that do not run.
EMULATOR_OWN bool make_copies() {
  // Each of both parts is aligned as what it is a copy of.
  const size_t low = static_begin % 1024;
  copy_dynamic_bytes = (dynamic_end - dynamic_begin + 1023) / 1024 * 1024 + low;
  copy_bytes = (copy_dynamic_bytes + static_end - static_begin + 1023) / 1024 * 1024;
  for (int i = 0; i < block_count; ++i) blocks[i].memory = nullptr;
  if (block_count == 1) return true;
  const size_t all = copy_bytes * static_cast<size_t>(block_count);
  blocks[0].memory = static_cast<unsigned char*>(aligned_alloc(1024, all));
  for (int i = 1; i < block_count; ++i)
    blocks[i].memory = blocks[0].memory + copy_bytes * static_cast<size_t>(i);
  return blocks[0].memory;
}

EMULATOR_OWN void drop_copies_of_blocks() {
  free(blocks[0].memory);
  blocks[0].memory = nullptr, block_count = 1;
}

// Fills the shared memory of each block with what reads as a NaN.
EMULATOR_OWN void poison_shared() {
  memset(reinterpret_cast<void*>(static_begin), poison, static_end - static_begin);
  memset(reinterpret_cast<void*>(dynamic_begin), poison, dynamic_end - dynamic_begin);
  if (block_count > 1)
    memset(blocks[0].memory, poison, copy_bytes * static_cast<size_t>(block_count));
}

}  // namespace emulator
