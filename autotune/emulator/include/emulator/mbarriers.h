// mbarriers of shared memory, and the order that they give accesses. As on a device, a phase ends
// when all have arrived and copies have delivered all bytes that were announced.
#pragma once

#include "checks.h"

namespace emulator {

struct Mbarrier {  // in the eight bytes of shared memory that a device has for one
  uint32_t number, mark;
};
constexpr uint32_t mbarrier_mark = 0xBA881E85u;

// Clocks have times of warps. What happened before the end of a phase is known only once it ends:
// who waits for one sees nothing of arrivals in the next.
struct Phases {
  Place at;
  const char* file;  // where it was initialised
  int line;
  int arrivals, missing;
  int64_t bytes;   // that copies have yet to deliver in this phase
  uint32_t phase;  // how many have ended
  Clock ended, current;
  uint32_t loads;  // issued until the end of the last phase
  bool object;     // of C++, whose destructor ends it, which the emulator does not see
};
EMULATOR_STATE Phases mbarriers[most_mbarriers];
EMULATOR_STATE int mbarrier_count;

// Named barriers of a block (`bar.sync`), of which an arrival is one of a thread.
constexpr int most_named = 16;
EMULATOR_STATE Phases named_barriers[most_blocks * most_named];

// A line of a kernel. As the default of a parameter `caller` is the line of the call, through any
// functions that have such a parameter and pass it on.
struct Line {
  const char* file;
  int number;

  static Line caller(const char* file = __builtin_FILE(), int number = __builtin_LINE()) {
    return {file, number};
  }
};

EMULATOR_OWN bool is_at(const Phases& own, const Place& place) {
  return own.at.block == place.block && own.at.address == place.address;
}

// Where inline PTX uses an mbarrier; else the caller of these functions does.
constexpr uint32_t no_site = most_sites;
#define EMULATOR_SITE(site) \
  ((site) != no_site ? (site) : site_of(reinterpret_cast<uintptr_t>(__builtin_return_address(0))))

// Its initialisation is a write, and all other use reads it: a barrier has to be between them.
EMULATOR_OWN void touch_mbarrier(const void* at, Access access, uint32_t site) {
  settle();
  if (options.checked)
    check_at(reinterpret_cast<uintptr_t>(at), sizeof(Mbarrier), access, site, true);
}

EMULATOR_OWN void mbarrier_init(void* at, int arrivals, Line line = Line::caller(), uint32_t site = no_site,
                                bool object = false) {
  touch_mbarrier(at, Access::write, EMULATOR_SITE(site));
  if (arrivals < 1 || arrivals >= 1 << 20)
    fail(EMULATOR_THREAD " initialises an mbarrier with %d arrivals in %s:%d; expected 1 to %d",
         EMULATOR_WHERE(current), arrivals, line.file, line.number, (1 << 20) - 1);
  const Place place = place_of(reinterpret_cast<uintptr_t>(at));
  int number = 0;  // that of the one which was here before, if any, else of one that is none any more
  while (number < mbarrier_count && !is_at(mbarriers[number], place)) ++number;
  for (int i = 0; number == mbarrier_count && i < mbarrier_count; ++i)
    if (is_at(mbarriers[i], {})) number = i;
  if (number == most_mbarriers)
    fail(EMULATOR_THREAD " initialises an mbarrier in %s:%d after %d others; the emulator has no "
         "more",
         EMULATOR_WHERE(current), line.file, line.number, most_mbarriers);
  if (number == mbarrier_count) ++mbarrier_count;
  const Mbarrier made = {static_cast<uint32_t>(number), mbarrier_mark};
  memcpy(at, &made, sizeof made);
  mbarriers[number] = {place, line.file, line.number, arrivals, arrivals, 0, 0, {}, {}, 0, object};
}

// An mbarrier that was written over is none.
EMULATOR_OWN Phases& mbarrier_at(const void* at, uint32_t site) {
  touch_mbarrier(at, Access::read, site);
  const Place place = place_of(reinterpret_cast<uintptr_t>(at));
  if (place.block && place.block != active)
    check_lives(*place.block, site);
  const Mbarrier& own = *static_cast<const Mbarrier*>(at);
  if (own.mark != mbarrier_mark || own.number >= static_cast<uint32_t>(mbarrier_count) ||
      !is_at(mbarriers[own.number], place))
    fail(EMULATOR_THREAD " uses %p at {site:%u} as an mbarrier, which is not initialised",
         EMULATOR_WHERE(current), at, site);
  return mbarriers[own.number];
}

// After this its memory may be used for something else.
EMULATOR_OWN void mbarrier_invalidate(void* at, uint32_t site) {
  mbarrier_at(at, site).at = {};
  touch_mbarrier(at, Access::write, site);
  memset(at, 0, sizeof(Mbarrier));
}

// Reports an mbarrier of the active block that was written over while it was valid: a device may
// write its state back later, over what was stored there.
EMULATOR_OWN bool mbarriers_are_whole() {
  for (int i = 0; i < mbarrier_count; ++i) {
    const Phases& own = mbarriers[i];
    if (own.at.block != active || own.object) continue;
    const Mbarrier& there = *reinterpret_cast<const Mbarrier*>(own.at.address);
    if (there.mark == mbarrier_mark && there.number == static_cast<uint32_t>(i)) continue;
    give_up("the memory of the mbarrier that is initialised in %s:%d was written over by something "
            "else; a device may write its state back over that, unless `mbarrier.inval` comes before",
            own.file, own.line);
    return false;
  }
  return true;
}

// Orders accesses before the end of phases that have ended before those of a warp from now on.
EMULATOR_OWN void acquire(int warp, const Phases& own) {
  see(warp, own.ended);
  const uintptr_t number = static_cast<uintptr_t>(&own - mbarriers);
  if (number < most_mbarriers && own.loads > loads_waited[number]) loads_waited[number] = own.loads;
}

// What is written from now on counts for an mbarrier.
EMULATOR_OWN Flight load_flight(const void* mbarrier, uint32_t site) {
  const uint16_t number = static_cast<uint16_t>(&mbarrier_at(mbarrier, site) - mbarriers);
  return {Engine::load, number, ++load_count, site};
}

// Orders what the warps of a block have done before what each does from now on.
EMULATOR_OWN void order_warps(int first, int last) {
  Clock all = {};
  for (int i = first; i < last; ++i) join(all, clocks[i]);
  for (int i = first; i < last; ++i) {
    join(clocks[i], all);
    ++clocks[i].of[i];
  }
}

// Lets those go on that wait for the phase which now ends, if it does.
EMULATOR_OWN void try_end_phase(Phases& own) {
  if (own.missing || own.bytes) return;
  join(own.ended, own.current);
  own.current = {};
  own.loads = load_count;
  own.missing = own.arrivals;
  ++own.phase;
  int woken = -1;
  for (int i = 0; i < all_threads; ++i) {
    if (threads[i].state != State::at_mbarrier || threads[i].waited != &own) continue;
    if (i / 32 != woken) acquire(woken = i / 32, own);
    threads[i].state = State::ready;
  }
}

// Accesses of this warp so far are ordered before those of warps that wait for this phase.
EMULATOR_OWN void release(Phases& own) {
  Clock& from = clocks[own_warp()];
  join(own.current, from);
  ++from.of[own_warp()];
}

EMULATOR_OWN void mbarrier_arrive(void* at, uint32_t site = no_site) {
  Phases& own = mbarrier_at(at, EMULATOR_SITE(site));
  if (!own.missing)
    fail(EMULATOR_THREAD " arrives at the mbarrier initialised in %s:%d, whose phase %u has had "
         "all of its %d arrivals and waits for %ld bytes",
         EMULATOR_WHERE(current), own.file, own.line, own.phase, own.arrivals,
         static_cast<long>(own.bytes));
  release(own);
  --own.missing;
  try_end_phase(own);
}

// The parity of the phase that an arrival now is in.
EMULATOR_OWN uint32_t mbarrier_parity(const void* at, uint32_t site = no_site) {
  return mbarrier_at(at, EMULATOR_SITE(site)).phase & 1;
}

// Arrives, and is not counted in the phases to come.
EMULATOR_OWN void mbarrier_drop(void* at, uint32_t site = no_site) {
  const uint32_t own = EMULATOR_SITE(site);
  --mbarrier_at(at, own).arrivals;
  mbarrier_arrive(at, own);
}

// Announces bytes that copies are to deliver in this phase.
EMULATOR_OWN void mbarrier_expect_tx(void* at, int bytes, uint32_t site = no_site) {
  mbarrier_at(at, EMULATOR_SITE(site)).bytes += bytes;
}

// A copy of this thread has delivered some of them.
EMULATOR_OWN void mbarrier_complete_tx(void* at, int bytes, uint32_t site = no_site) {
  Phases& own = mbarrier_at(at, EMULATOR_SITE(site));
  release(own);
  own.bytes -= bytes;
  try_end_phase(own);
}

// Has a warp wait until the phase of a parity has ended: of a new mbarrier that of parity 1 has.
EMULATOR_OWN void wait_for_phase(Thread* warp, uint32_t lanes) {
  const Thread& first = warp[__builtin_ctz(lanes)];
  for (int i = 0; i < 32; ++i)
    if ((lanes >> i & 1) && (warp[i].waited != first.waited || warp[i].value != first.value))
      fail("lanes of a warp wait for different mbarriers or parities in %s:%d, and the emulator "
           "has them wait together: " EMULATOR_THREAD " and others",
           first.file, first.line, EMULATOR_WHERE(warp + i));
  const Phases& own = *first.waited;
  const bool ended = (own.phase & 1) != first.value;
  if (ended) acquire(static_cast<int>(warp - threads) / 32, own);
  for (int i = 0; i < 32; ++i)
    if (lanes >> i & 1) warp[i].state = ended ? State::ready : State::at_mbarrier;
}

}  // namespace emulator
