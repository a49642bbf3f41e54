// What the hardware does by itself, from its instruction on until it is waited for: whatever it writes
// cannot be accessed in this time, and what it reads not be written. That is checked where it happens,
// in any order of the threads.
#pragma once

#include "sites.h"

namespace emulator {

enum class Engine : uint8_t { none, copy, product, store, load };

// One that accesses memory. All but loads are waited for by the thread that issued them, in groups; what
// an mbarrier counts the bytes of is waited for by whoever waits for that.
struct Flight {
  Engine engine;
  uint16_t index;   // of the thread, or of the mbarrier
  uint32_t number;  // of the group; or of the load, counted over the launch
  uint32_t site;
};

constexpr int most_mbarriers = 512;
EMULATOR_STATE uint32_t load_count;
EMULATOR_STATE uint32_t loads_waited[most_mbarriers];  // the last that a wait for the mbarrier has seen

// Tells whether it reads shared memory, by the async proxy.
EMULATOR_QUICK bool is_read_by(Engine engine) {
  return engine == Engine::product || engine == Engine::store;
}

EMULATOR_OWN bool in_flight(const Flight& flight) {
  const Thread& t = threads[flight.index];
  switch (flight.engine) {
    case Engine::copy: return flight.number >= t.copies_waited;
    case Engine::product: return flight.number >= t.products.waited;
    case Engine::store: return flight.number >= t.stores.waited;
    case Engine::load: return flight.number > loads_waited[flight.index];
    default: return false;
  }
}

EMULATOR_OWN Flight own_flight(Engine engine, uint32_t group, uint32_t site) {
  return {engine, static_cast<uint16_t>(current - threads), group, site};
}

// Nothing of an earlier cluster is at work.
EMULATOR_OWN void end_flights() {
  for (int i = 0; i < all_threads; ++i) {
    Thread& t = threads[i];
    t.copies_waited = ++t.copy_group;
    t.products.waited = ++t.products.group;
    t.stores.waited = ++t.stores.group;
  }
  for (uint32_t& each : loads_waited) each = load_count;
}

// Waits for all groups of a thread but the last so many.
EMULATOR_OWN void wait_groups(Groups& own, uint32_t pending) {
  if (own.waited + pending < own.group) own.waited = own.group - pending;
}

EMULATOR_OWN const char* name_of(Engine engine) {
  return engine == Engine::copy      ? "asynchronous copy"
         : engine == Engine::product ? "product (wgmma)"
         : engine == Engine::store   ? "store (TMA)"
                                     : "load that an mbarrier counts";
}

}  // namespace emulator
