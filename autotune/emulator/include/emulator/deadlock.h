// What is reported of a block none of whose threads can go on.
#pragma once

#include "cluster.h"

namespace emulator {

EMULATOR_OWN void describe(const Thread& t, char* text, size_t size) {
  int used = snprintf(text, size, "thread (%u,%u,%u) ", t.index.x, t.index.y, t.index.z);
  char* rest = text + used;
  size -= static_cast<size_t>(used);
  if (t.state == State::done) snprintf(rest, size, "has exited");
  else if (t.state == State::at_barrier) snprintf(rest, size, "waits in line %d", t.line);
  else if (t.state == State::at_cluster) snprintf(rest, size, "waits for its cluster in line %d", t.line);
  else snprintf(rest, size, "waits at %s(0x%08x) in line %d", t.what, t.mask, t.line);
}

// Reports a deadlock, naming a thread that waits and one that it waits for.
EMULATOR_OWN void report_divergence() {
  const Thread* waiting = nullptr;
  for (int i = 0; i < all_threads && !waiting; ++i)
    if (threads[i].state == State::at_barrier || threads[i].state == State::at_warp)
      waiting = &threads[i];
  const Thread* other = nullptr;
  const Block& block = blocks[(waiting - threads) / block_stride];
  int first = static_cast<int>(&block - blocks) * block_stride, last = first + thread_count;
  if (waiting->state == State::at_warp)
    first = static_cast<int>(waiting - threads) & ~31,
    last = first + 32 < last ? first + 32 : last;
  for (int i = first; i < last && !other; ++i) {
    const Thread& t = threads[i];
    bool wanted = waiting->state == State::at_barrier
                      ? (t.state != State::at_barrier && t.state != State::done) ||
                            t.line != waiting->line
                      : (waiting->mask >> (i - first) & 1) && !waits_with(t, *waiting);
    if (wanted) other = &t;
  }
  char here[160], there[160] = "nobody";
  describe(*waiting, here, sizeof here);
  if (other) describe(*other, there, sizeof there);
  const char* kind = waiting->state == State::at_warp ? waiting->what : "__syncthreads";
  give_up("divergent %s in block (%u,%u,%u): %s while %s", kind, block.index.x, block.index.y,
          block.index.z, here, there);
}

// Writes what a phase lacks.
EMULATOR_OWN void describe_lack(const Phases& own, char* text, size_t size) {
  int used = snprintf(text, size, "lacks %d of %d arrivals", own.missing, own.arrivals);
  char* rest = text + used;
  size -= static_cast<size_t>(used);
  const long bytes = static_cast<long>(own.bytes);
  if (bytes > 0) snprintf(rest, size, " and %ld bytes", bytes);
  else if (bytes < 0) snprintf(rest, size, " and had %ld bytes that were not expected", -bytes);
  else if (own.phase && own.missing == own.arrivals)
    snprintf(rest, size, ", as nothing has arrived since phase %u, of the other parity, ended",
             own.phase - 1);
}

// Writes what a thread of a block at a standstill waits for.
EMULATOR_OWN void describe_wait(const Thread& t, char* text, size_t size) {
  if (t.state == State::done) {
    snprintf(text, size, "exited");
  } else if (t.state == State::at_barrier) {
    snprintf(text, size, "at __syncthreads in line %d", t.line);
  } else if (t.state == State::at_cluster) {
    snprintf(text, size, "for the other blocks of its cluster in %s:%d", t.file, t.line);
  } else if (t.state == State::at_warp) {
    snprintf(text, size, "at %s(0x%08x) in line %d", t.what, t.mask, t.line);
  } else if (t.state == State::ready && overdue) {
    snprintf(text, size, "at {trace}");
  } else if (t.state == State::ready) {
    snprintf(text, size, "for what it reads at {site:%u}, which no thread that can go on changes", t.poll_site);
  } else {
    const Phases& own = *t.waited;
    char place[100], lack[160];
    name_place(own.at.address, place, sizeof place);
    describe_lack(own, lack, sizeof lack);
    snprintf(text, size,
             "in %s:%d for phase %u (parity %u) of the mbarrier in %s (initialised in %s:%d), "
             "which %s",
             t.file, t.line, own.phase, own.phase & 1, place, own.file, own.line, lack);
  }
}

// Writes which threads of a block these are, as warps where they are whole, and that they wait.
EMULATOR_OWN int name_threads(int first, int last, char* text, size_t size) {
  const char* kind = "thread";
  const State state = threads[first].state;
  const char* const verb = state == State::done ? "" : state == State::ready && overdue ? "run" : "wait";
  first %= block_stride, last %= block_stride;
  if (first % 32 == 0 && (last % 32 == 31 || last == thread_count - 1))
    kind = "warp", first /= 32, last /= 32;
  if (first == last) return snprintf(text, size, "%s %d %s%s", kind, first, verb, *verb ? "s " : "");
  return snprintf(text, size, "%ss %d to %d %s%s", kind, first, last, verb, *verb ? " " : "");
}

// Writes what all threads of a block wait for.
EMULATOR_OWN size_t describe_block(const Block& block, char* text, size_t size) {
  char wait[1024], next[1024];
  const int begin = static_cast<int>(&block - blocks) * block_stride, end = begin + thread_count;
  size_t used = static_cast<size_t>(snprintf(text, size, "block (%u,%u,%u): ", block.index.x,
                                             block.index.y, block.index.z));
  for (int first = begin, i = begin + 1; i <= end; ++i) {
    if (i - first == 1) describe_wait(threads[first], wait, sizeof wait);
    if (i < end) describe_wait(threads[i], next, sizeof next);
    if (i < end && strcmp(wait, next) == 0) continue;
    if (used + 1200 > size) break;
    used += static_cast<size_t>(snprintf(text + used, size - used, first > begin ? "; " : ""));
    used += static_cast<size_t>(name_threads(first, i - 1, text + used, size - used));
    used += static_cast<size_t>(snprintf(text + used, size - used, "%s", wait));
    first = i;
  }
  return used;
}

// Writes what all threads wait for.
EMULATOR_OWN void describe_cluster(char* text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int i = 0; i < block_count && used + 1400 < size; ++i) {
    used += static_cast<size_t>(snprintf(text + used, size - used, i ? "; " : ""));
    used += describe_block(blocks[i], text + used, size - used);
  }
}

EMULATOR_OWN void report_deadlock() {
  char text[sizeof message - 100];
  describe_cluster(text, sizeof text);
  give_up("deadlock in %s", text);
}

// Reports why no thread of the cluster can go on.
EMULATOR_OWN void report_standstill() {
  for (int i = 0; i < all_threads; ++i)
    if (threads[i].state == State::at_mbarrier || threads[i].state == State::at_cluster ||
        threads[i].state == State::ready)
      return report_deadlock();
  report_divergence();
}

}  // namespace emulator
