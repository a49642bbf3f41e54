// Ends a launch whose threads run on without an end: a host thread watches the one that runs it.
//
// No check tells a loop that never ends from one that takes long, whatever it reads and writes. But
// each thread of a kernel that ends exits, so none exits for a long time only where there is no end,
// or where the limit is too low. The time is that of the processor: a busy host raises no alarm. Who has
// a deadline of another kind sets a flag when it is over.
#pragma once

#include <pthread.h>
#include <time.h>

#include "deadlock.h"

namespace emulator {

// Seconds that threads may take until the next one of them exits.
EMULATOR_STATE double limit_s = 60;
EMULATOR_STATE const volatile char* stop_flag;  // set by whoever wants the launch to end
EMULATOR_STATE double idle_s;                   // since the last exit, when the launch was to end
EMULATOR_STATE volatile uint64_t exits;  // of threads of any launch
EMULATOR_STATE uint64_t exits_before;    // of threads of earlier launches

}  // namespace emulator

#if defined(EMULATOR_APART)  // only the launch needs it, which is linked

namespace emulator {
__attribute__((visibility("hidden"))) void run_watched(bool (*run)());
}  // namespace emulator

#else

// A name that kernels may use, as nvcc does not declare it.
#define signal emulator_unused_signal
#include <signal.h>
#undef signal
#include <ucontext.h>

namespace emulator {

struct Watchdog {
  pthread_t watcher, watched;
  clockid_t clock;
  pthread_mutex_t mutex;
  pthread_cond_t end;
  bool ended;
};

EMULATOR_OWN bool is_stop_asked() { return stop_flag && *stop_flag; }

[[noreturn]] EMULATOR_OWN void stop_endless() {
  char text[sizeof message - 400];
  describe_cluster(text, sizeof text);
  if (is_stop_asked()) {
    const uint64_t all = uint64_t{gridDim.x} * gridDim.y * gridDim.z * static_cast<uint64_t>(thread_count);
    fail("%lu of %lu threads have exited, and none in the last %.1f s of processor time: %s",
         static_cast<unsigned long>(exits - exits_before), static_cast<unsigned long>(all), idle_s, text);
  }
  fail("no thread has exited in %g s of processor time; if it ends at all, raise limit_s: %s", limit_s,
       text);
}

// Tells whether a call is right before an address of code. Stacks have addresses of functions, too.
EMULATOR_OWN bool follows_call(uintptr_t address) {
  if (address - code_begin < 8) return false;
  const unsigned char* const at = reinterpret_cast<const unsigned char*>(address);
#if defined(__x86_64__)
  if (at[-5] == 0xE8) return true;
  if (at[-6] == 0xFF && at[-5] == 0x15) return true;  // through the table of other libraries' functions
  for (int length = 2; length <= 7; ++length)  // through a register or memory
    if (at[-length] == 0xFF && (at[1 - length] >> 3 & 7) == 2) return true;
  return false;
#else
  uint32_t word;
  __builtin_memcpy(&word, at - 4, sizeof word);
  return (word & 0xFC000000u) == 0x94000000u || (word & 0xFFFFFC1Fu) == 0xD63F0000u;
#endif
}

// Notes where the current thread is: return addresses are what its stack has of the library.
EMULATOR_OWN void note_trace(uintptr_t pc, uintptr_t stack_pointer) {
  Trace& trace = traces[trace_count++];
  int count = 0;
  trace.pcs[count++] = static_cast<uint32_t>(pc + 1 - library_base);
  const uintptr_t end = reinterpret_cast<uintptr_t>(stacks) + (current->stack + 1) * stack_bytes;
  for (uintptr_t at = stack_pointer & ~uintptr_t{7}; at < end && count < most_frames; at += 8) {
    const uintptr_t value = *reinterpret_cast<uintptr_t*>(at);
    if (value - code_begin < code_end - code_begin && follows_call(value))
      trace.pcs[count++] = static_cast<uint32_t>(value - library_base);
  }
  trace.count = count;
}

// Runs in the launching host thread, on the stack of whatever it was doing. Where that was a thread of
// the kernel, not a function of the host's libraries, it is noted, and after some such notes is stopped:
// it goes on in `stop_endless`.
EMULATOR_OWN void interrupt(int, siginfo_t*, void* context) {
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  auto& pc = machine.gregs[REG_RIP];
  auto& stack_pointer = machine.gregs[REG_RSP];
  constexpr uintptr_t below = 8;  // as after a call
#else
  auto& pc = machine.pc;
  auto& stack_pointer = machine.sp;
  constexpr uintptr_t below = 0;
#endif
  const uintptr_t here = static_cast<uintptr_t>(pc), top = static_cast<uintptr_t>(stack_pointer);
  if (overdue || !current || !is_local(top) || here - code_begin >= code_end - code_begin) return;
  note_trace(here, top);
  if (trace_count < most_traces) return;
  overdue = true;  // another signal may come before the launch has ended
  stack_pointer = static_cast<decltype(+stack_pointer)>((top - 256 & ~uintptr_t{15}) - below);
  pc = static_cast<decltype(+pc)>(reinterpret_cast<uintptr_t>(&stop_endless));
}

// Waits for the end of the launch; returns whether it came.
EMULATOR_OWN bool ends_within(Watchdog& own, long nanoseconds) {
  timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += nanoseconds;
  if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, ++until.tv_sec;
  pthread_mutex_lock(&own.mutex);
  while (!own.ended && !pthread_cond_timedwait(&own.end, &own.mutex, &until)) {
  }
  const bool ended = own.ended;
  pthread_mutex_unlock(&own.mutex);
  return ended;
}

EMULATOR_OWN double processor_s(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A mark of handlers of watchdogs, by a flag that means something for another signal only.
constexpr int watchdog_flags = SA_SIGINFO | SA_RESTART | SA_NOCLDWAIT;

// Signals until the launch has ended. The signal does nothing by default, and is another's again then.
// Libraries of other kernels may do the same meanwhile: each takes the handler whenever it signals, and
// none leaves it to one that may be unloaded.
EMULATOR_OWN void stop(Watchdog& own) {
  struct sigaction action = {}, before, last;
  action.sa_sigaction = interrupt;
  action.sa_flags = watchdog_flags;
  sigaction(SIGURG, nullptr, &before);
  if (before.sa_flags & SA_NOCLDWAIT) before = {};
  do {
    sigaction(SIGURG, &action, nullptr);
    pthread_kill(own.watched, SIGURG);
  } while (!ends_within(own, 3000000));
  sigaction(SIGURG, nullptr, &last);
  if (last.sa_sigaction == interrupt) sigaction(SIGURG, &before, nullptr);
}

EMULATOR_OWN void* watch(void* given) {
  Watchdog& own = *static_cast<Watchdog*>(given);
  uint64_t seen = exits;
  double since = processor_s(own.clock);
  do {
    if (ends_within(own, 50000000)) return nullptr;
    const double now = processor_s(own.clock);
    if (seen != exits) seen = exits, since = now;
    idle_s = now - since;
  } while (!is_stop_asked() && !(limit_s > 0 && idle_s >= limit_s));
  stop(own);
  return nullptr;
}

// Runs a function that ends when the watchdog has it end; without one where no thread can be had.
EMULATOR_OWN void run_watched(bool (*run)()) {
  Watchdog own = {};
  own.watched = pthread_self();
  overdue = false, trace_count = 0, exits_before = exits;
  pthread_mutex_init(&own.mutex, nullptr);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&own.end, &monotonic);
  sigset_t all, before;  // the process's signals are for its own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool watched = (limit_s > 0 || stop_flag) && !pthread_getcpuclockid(own.watched, &own.clock) &&
                       !pthread_create(&own.watcher, nullptr, watch, &own);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  run();
  if (watched) {
    pthread_mutex_lock(&own.mutex);
    own.ended = true;
    pthread_cond_signal(&own.end);
    pthread_mutex_unlock(&own.mutex);
    pthread_join(own.watcher, nullptr);
  }
  pthread_cond_destroy(&own.end);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_destroy(&own.mutex);
}

}  // namespace emulator

#endif
