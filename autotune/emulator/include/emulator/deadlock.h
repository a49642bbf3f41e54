// What is reported of a block none of whose threads can go on.
#pragma once

#include "warp.h"

namespace emulator {

EMULATOR_OWN void describe(const Thread& t, char* text, size_t size) {
  int used = snprintf(text, size, "thread (%u,%u,%u) ", t.index.x, t.index.y, t.index.z);
  char* rest = text + used;
  size -= static_cast<size_t>(used);
  if (t.state == State::done) snprintf(rest, size, "has exited");
  else if (t.state == State::at_barrier) snprintf(rest, size, "waits in line %d", t.line);
  else snprintf(rest, size, "waits at %s(0x%08x) in line %d", t.what, t.mask, t.line);
}

// Reports a deadlock, naming a thread that waits and one that it waits for.
EMULATOR_OWN void report_divergence() {
  const Thread* waiting = nullptr;
  for (int i = 0; i < thread_count && !waiting; ++i)
    if (threads[i].state == State::at_barrier || threads[i].state == State::at_warp)
      waiting = &threads[i];
  const Thread* other = nullptr;
  int first = 0, last = thread_count;
  if (waiting->state == State::at_warp)
    first = static_cast<int>(waiting - threads) & ~31,
    last = first + 32 < last ? first + 32 : last;
  for (int i = first; i < last && !other; ++i) {
    const Thread& t = threads[i];
    bool wanted = waiting->state == State::at_barrier
                      ? (t.state != State::at_barrier && t.state != State::done) ||
                            t.line != waiting->line
                      : (waiting->mask >> (i - first) & 1) &&
                            (t.state != State::at_warp || t.mask != waiting->mask ||
                             t.operation != waiting->operation);
    if (wanted) other = &t;
  }
  char here[160], there[160] = "nobody";
  describe(*waiting, here, sizeof here);
  if (other) describe(*other, there, sizeof there);
  const char* kind = waiting->state == State::at_warp ? waiting->what : "__syncthreads";
  give_up("divergent %s in block (%u,%u,%u): %s while %s", kind, blockIdx.x, blockIdx.y,
          blockIdx.z, here, there);
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
  } else if (t.state == State::at_warp) {
    snprintf(text, size, "at %s(0x%08x) in line %d", t.what, t.mask, t.line);
  } else {
    const Phases& own = *t.waited;
    char place[100], lack[160];
    name_place(reinterpret_cast<uintptr_t>(own.at), place, sizeof place);
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
  const bool gone = threads[first].state == State::done;
  if (first % 32 == 0 && (last % 32 == 31 || last == thread_count - 1))
    kind = "warp", first /= 32, last /= 32;
  if (first == last) return snprintf(text, size, "%s %d %s", kind, first, gone ? "" : "waits ");
  return snprintf(text, size, "%ss %d to %d %s", kind, first, last, gone ? "" : "wait ");
}

// Reports what all threads wait for.
EMULATOR_OWN void report_deadlock() {
  char text[sizeof message - 100], wait[1024], next[1024];
  size_t used = 0;
  text[0] = 0;
  for (int first = 0, i = 1; i <= thread_count; ++i) {
    if (i - first == 1) describe_wait(threads[first], wait, sizeof wait);
    if (i < thread_count) describe_wait(threads[i], next, sizeof next);
    if (i < thread_count && strcmp(wait, next) == 0) continue;
    if (used + 1200 > sizeof text) break;
    used += static_cast<size_t>(snprintf(text + used, sizeof text - used, first ? "; " : ""));
    used += static_cast<size_t>(name_threads(first, i - 1, text + used, sizeof text - used));
    used += static_cast<size_t>(snprintf(text + used, sizeof text - used, "%s", wait));
    first = i;
  }
  give_up("deadlock in block (%u,%u,%u): %s", blockIdx.x, blockIdx.y, blockIdx.z, text);
}

// Reports why no thread of the block can go on.
EMULATOR_OWN void report_standstill() {
  for (int i = 0; i < thread_count; ++i)
    if (threads[i].state == State::at_mbarrier) return report_deadlock();
  report_divergence();
}

}  // namespace emulator
