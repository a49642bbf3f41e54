// What is ordered in time: epochs of blocks, which barriers begin, and clocks of warps.
#pragma once

#include "state.h"

namespace emulator {

EMULATOR_STATE uint32_t epoch = 1, last_epoch = 1;  // of the block that runs; no two have one
EMULATOR_STATE uint32_t cluster_epoch = 1, launch_epoch = 1;  // the first of each
EMULATOR_STATE bool fenced = false;
constexpr int most_warps = most_blocks * most_threads / 32;
EMULATOR_STATE uint16_t warp_epochs[most_warps];

// Vector clocks of warps (Mattern, "Virtual Time and Global States of Distributed Systems", 1989):
// the time of a warp counts its arrivals at mbarriers, and what another warp did up to `of` its time
// happened before what this one does now. Lanes are not told apart.
struct Clock {
  uint32_t of[most_warps];
};
EMULATOR_STATE Clock clocks[most_warps];
EMULATOR_STATE int warp_count;  // of the cluster
EMULATOR_STATE uint32_t seen_of_itself[most_warps];  // of its own time, by waiting
EMULATOR_STATE Clock released;  // before fences of any thread of the cluster

EMULATOR_OWN void join(Clock& to, const Clock& from) {
  for (int i = 0; i < warp_count; ++i)
    if (from.of[i] > to.of[i]) to.of[i] = from.of[i];
}

EMULATOR_OWN int own_warp() { return static_cast<int>(current - threads) / 32; }

// Orders what was done up to a time before what a warp does from now on.
EMULATOR_OWN void see(int warp, const Clock& time) {
  // What lanes of this warp released is ordered before what the others do now.
  if (time.of[warp] > seen_of_itself[warp]) {
    seen_of_itself[warp] = time.of[warp];
    ++warp_epochs[warp];
  }
  join(clocks[warp], time);
}

}  // namespace emulator
