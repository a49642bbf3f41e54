// Inline PTX that orders threads: barriers, mbarriers, and copies that these wait for.
#pragma once

#include "async.h"
#include "ptx.h"

namespace emulator {

EMULATOR_OWN void ptx_nothing(PtxRun&) {}

EMULATOR_OWN void ptx_proxy_fence(PtxRun&) { current->fenced = ++proxy_fences; }

EMULATOR_OWN Phases& named_barrier(const PtxRun& run) {
  const uint32_t number = run.word(0);
  const int count = run.now->word_count > 1 ? static_cast<int>(run.word(1)) : thread_count;
  if (number >= most_named || count < 1 || count > thread_count || (run.now->word_count > 1 && count % 32))
    fail(EMULATOR_THREAD " names barrier %u of %d threads " EMULATOR_PTX_AT
         "; expected one of %d, and whole warps of the block",
         EMULATOR_WHERE(current), number, count, EMULATOR_PTX_LINE(run), most_named);
  Phases& own = named_barriers[(active - blocks) * most_named + number];
  if (own.missing == own.arrivals)
    own.missing = own.arrivals = count, own.file = run.line.file, own.line = run.line.number;
  else if (own.arrivals != count)
    fail(EMULATOR_THREAD " arrives at barrier %u with %d threads " EMULATOR_PTX_AT
         ", and others in %s:%d with %d",
         EMULATOR_WHERE(current), number, count, EMULATOR_PTX_LINE(run), own.file, own.line, own.arrivals);
  return own;
}

EMULATOR_OWN void ptx_bar_arrive(PtxRun& run) {
  Phases& own = named_barrier(run);
  release(own);
  --own.missing;
  try_end_phase(own);
}

EMULATOR_OWN void ptx_bar_sync(PtxRun& run) {
  Phases& own = named_barrier(run);
  const uint32_t phase = own.phase;
  release(own);
  --own.missing;
  try_end_phase(own);
  if (own.phase != phase) return acquire(own_warp(), own);
  Thread& t = *current;
  t.state = State::at_mbarrier, t.waited = &own, t.file = run.line.file, t.line = run.line.number;
  emulator_switch(&t.stack_pointer, scheduler_stack);
}

EMULATOR_OWN void ptx_cluster_arrive(PtxRun& run) { cluster_arrive(run.line, run.now->name); }
EMULATOR_OWN void ptx_cluster_wait(PtxRun& run) { cluster_wait(run.line, run.now->name); }

EMULATOR_OWN void ptx_elect(PtxRun& run) {
  const uint64_t lanes = together("elect.sync", ballot, run.word(2), 1, 0, 32, run.line.number);
  const int lane = static_cast<int>(current - threads) % 32, chosen = __builtin_ctz(static_cast<uint32_t>(lanes));
  run.put(0, static_cast<uint64_t>(chosen));
  run.put(1, lane == chosen);
}

EMULATOR_OWN void ptx_setmaxnreg(PtxRun& run) {
  const uint32_t count = run.word(0);
  if (count < 24 || count > 256 || count % 8)
    fail(EMULATOR_THREAD " asks for %u registers " EMULATOR_PTX_AT
         "; expected 24 to 256, a multiple of 8",
         EMULATOR_WHERE(current), count, EMULATOR_PTX_LINE(run));
  together(run.now->name, matrix_barrier, 0xffffffffu, 0, 0, 32, run.line.number);
}

EMULATOR_OWN void ptx_mbarrier_init(PtxRun& run) {
  mbarrier_init(generic_address(run.word(0)), static_cast<int>(run.word(1)), run.line, run.site);
}
EMULATOR_OWN void ptx_mbarrier_invalidate(PtxRun& run) { mbarrier_invalidate(generic_address(run.word(0)), run.site); }
EMULATOR_OWN void ptx_mbarrier_arrive(PtxRun& run) { mbarrier_arrive(generic_address(run.word(1)), run.site); }
EMULATOR_OWN void ptx_mbarrier_expect(PtxRun& run) {
  void* const at = generic_address(run.word(1));
  mbarrier_expect_tx(at, static_cast<int>(run.word(2)), run.site);
  mbarrier_arrive(at, run.site);
}
// Threads wait here, rather than try again.
EMULATOR_OWN void ptx_mbarrier_wait(PtxRun& run) {
  mbarrier_wait(generic_address(run.word(1)), run.word(2), run.line, run.site);
  run.put(0, 1);
}

EMULATOR_OWN void ptx_copy(PtxRun& run) {
  const uint32_t bytes = run.word(2);
  const uint32_t taken = run.now->word_count > 3 ? run.word(3) : bytes;
  if (taken > bytes || (run.has(".cg") && bytes != 16))
    fail(EMULATOR_THREAD " copies %u of %u bytes " EMULATOR_PTX_AT ", which `%s` cannot",
         EMULATOR_WHERE(current), taken, bytes, EMULATOR_PTX_LINE(run), run.now->name);
  issue_copy_at(generic_address(run.word(0)), reinterpret_cast<const void*>(run.value(1)), bytes,
                bytes - taken, run.site);
}
EMULATOR_OWN void ptx_copy_commit(PtxRun&) { ++current->copy_group; }
EMULATOR_OWN void ptx_copy_wait(PtxRun& run) { wait_copies(run.word(0)); }
// Those of no group yet too.
EMULATOR_OWN void ptx_copy_wait_all(PtxRun&) {
  ++current->copy_group;
  wait_copies(0);
}
EMULATOR_OWN void ptx_copy_arrive(PtxRun& run) {
  ptx_copy_wait_all(run);
  mbarrier_arrive(generic_address(run.word(0)), run.site);
}

// Copies to shared memory, and tells the mbarrier.
EMULATOR_OWN void ptx_copy_bulk(PtxRun& run) {
  void* const to = generic_address(run.word(0));
  const void* const from = reinterpret_cast<const void*>(run.value(1));
  const uint32_t bytes = run.word(2);
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes) % 16)
    fail(EMULATOR_THREAD " copies %u bytes " EMULATOR_PTX_AT
         "; expected a multiple of 16, from and to addresses that are",
         EMULATOR_WHERE(current), bytes, EMULATOR_PTX_LINE(run));
  run.touch(from, bytes, Access::read);
  void* const barrier = generic_address(run.word(3));
  run.touch(to, bytes, Access::write, load_flight(barrier, run.site));
  settle();
  memcpy(to, from, bytes);
  mbarrier_complete_tx(barrier, static_cast<int>(bytes), run.site);
}

}  // namespace emulator
