// What blocks that have ended let later ones know: by a fence, and after it an atomic operation or a write
// that is volatile or the next one.
#pragma once

#include <stdlib.h>

#include "clocks.h"

namespace emulator {

// Of each block of the cluster that runs the epoch of its last such operation, which barriers order after
// all of the epochs before; of each warp the time until which what it did in any epoch is before one of any.
EMULATOR_STATE uint32_t published_epochs[most_blocks], published_times[most_warps];

// The same of clusters that have ended, in rows: the first epoch, then those of blocks, then times of warps.
EMULATOR_STATE uint32_t* publications;
EMULATOR_STATE size_t publication_count, publication_capacity;

EMULATOR_OWN size_t publication_words() { return static_cast<size_t>(1 + block_count + warp_count); }

// Lets blocks know that start later. What a thread did after its last fence is not among it.
EMULATOR_OWN void publish() {
  const int own = own_warp();
  published_epochs[active - blocks] = epoch;
  for (int warp = 0; warp < warp_count; ++warp) {
    const uint32_t time = clocks[own].of[warp] + (warp != own);
    if (time > published_times[warp]) published_times[warp] = time;
  }
}

EMULATOR_OWN void forget_publications() {
  free(publications);
  publications = nullptr, publication_count = publication_capacity = 0;
}

EMULATOR_OWN void begin_publications() {
  memset(published_epochs, 0, sizeof published_epochs);
  memset(published_times, 0, static_cast<size_t>(warp_count) * sizeof published_times[0]);
}

// Keeps those of the cluster that ends; of one before the first fence of the launch nothing is known.
EMULATOR_OWN void end_publications() {
  if (!fenced) return;
  const size_t words = publication_words();
  if (publication_count == publication_capacity) {
    publication_capacity = 2 * publication_capacity + 64;
    void* const more = realloc(publications, publication_capacity * words * sizeof(uint32_t));
    if (!more) return forget_publications();
    publications = static_cast<uint32_t*>(more);
  }
  uint32_t* const row = publications + publication_count++ * words;
  row[0] = cluster_epoch;
  memcpy(row + 1, published_epochs, static_cast<size_t>(block_count) * sizeof row[0]);
  memcpy(row + 1 + block_count, published_times, static_cast<size_t>(warp_count) * sizeof row[0]);
}

// Tells whether what a thread of an earlier cluster did in an epoch is known to this one, or may be.
EMULATOR_OWN bool is_published(uint32_t at, uint16_t thread, uint32_t time) {
  const size_t words = publication_words();
  size_t low = 0, high = publication_count;  // the last row that begins before is in front of `high`
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (publications[middle * words] <= at) low = middle + 1;
    else high = middle;
  }
  if (!low) return true;
  const uint32_t* const row = publications + (low - 1) * words;
  return at < row[1 + thread / block_stride] || time < row[1 + block_count + thread / 32];
}

}  // namespace emulator
