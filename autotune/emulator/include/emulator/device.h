// Other functions of the device runtime: traps, fences, clocks, address spaces.
#pragma once

#include "block.h"

namespace emulator {

// Tells whether a function is a constructor or an assignment that copies: `_ZN4ItemC2ERKS_`. Those
// that the compiler makes have the line of their struct.
EMULATOR_OWN bool copies_struct(const char* function) {
  for (const char* at = function; *at; ++at) {
    const bool constructs = at[0] == 'C' && at[1] >= '1' && at[1] <= '4' && at[2] == 'E';
    if (!constructs && strncmp(at, "aSE", 3)) continue;
    const size_t reference = !strncmp(at + 3, "RK", 2) ? 5 : at[3] == 'O' ? 4 : 0;
    if (!reference || at[reference] != 'S') continue;
    const char* const end = strchr(at + reference, '_');
    if (end && (end[1] == '\n' || !end[1])) return true;
  }
  return false;
}

// Writes `file:line` of the first of some places that is the kernel's own, by binutils' addr2line; or
// of the first, if it is to be `any`.
EMULATOR_OWN int write_line(char* text, size_t size, const uint32_t* pcs, int count, bool any) {
  char command[4400];
  int used = snprintf(command, sizeof command, "addr2line -f -i -e '%s'", library_path);
  for (int i = 0; i < count; ++i)
    if (pcs[i]) used += snprintf(command + used, sizeof command - static_cast<size_t>(used), " 0x%x", pcs[i] - 1);
  snprintf(command + used, sizeof command - static_cast<size_t>(used), " 2>/dev/null");
  FILE* const tool = popen(command, "r");
  char function[1000], line[4200], first[160] = "";
  bool found = false;
  while (tool && fgets(function, sizeof function, tool) && fgets(line, sizeof line, tool)) {
    if (found) continue;
    line[strcspn(line, " \n")] = 0;
    const char* const name = strrchr(line, '/') ? strrchr(line, '/') + 1 : line;
    if (strstr(name, ":?") || strstr(name, ":0")) continue;  // no line is known
    const bool is_own = !strncmp(name, "emulation:", 10) || strstr(line, "/emulator/include/");
    found = !is_own && !copies_struct(function);
    if (found || !first[0]) snprintf(first, sizeof first, "%s", name);
  }
  if (tool) pclose(tool);
  if (!found && !any) return *text = 0;
  if (!first[0]) return snprintf(text, size, "address 0x%x", pcs[0]);
  return snprintf(text, size, "%s", first);
}

EMULATOR_OWN int write_site(char* text, size_t size, const Site& site) {
  const uint32_t pcs[] = {site.pc, site.callers[0], site.callers[1], site.callers[2]};
  return write_line(text, size, pcs, 1 + most_callers, true);
}

// Writes the lines of threads that run on without an end.
EMULATOR_OWN int write_traces(char* text, size_t size) {
  int used = 0;
  text[0] = 0;
  for (int i = 0; i < trace_count; ++i) {
    char line[200];
    write_line(line, sizeof line, traces[i].pcs, traces[i].count, !used && i == trace_count - 1);
    if (strstr(text, line) || static_cast<size_t>(used) + sizeof line > size) continue;
    used += snprintf(text + used, size - static_cast<size_t>(used), "%s%s", used ? ", " : "", line);
  }
  return used;
}

// The message with source lines in place of each {site:number} and of {trace}.
EMULATOR_OWN const char* message_with_lines() {
  static char text[sizeof message + 512];
  size_t used = 0;
  for (const char* at = message; *at && used + 256 < sizeof text;) {
    uint32_t site;
    int length = 0;
    if (*at == '{' && sscanf(at, "{site:%u}%n", &site, &length) == 1 && length) {
      // Addresses are return addresses, which may belong to the next line already.
      used += static_cast<size_t>(write_site(text + used, 200, sites[site % most_sites]));
      at += length;
    } else if (!strncmp(at, "{trace}", 7)) {
      used += static_cast<size_t>(write_traces(text + used, sizeof text - used - 1));
      at += 7;
    } else {
      text[used++] = *at++;
    }
  }
  text[used] = 0;
  return text;
}

EMULATOR_STATE long long looks_at_clock;

}  // namespace emulator

// Returns the error of the launches since the last call, or null, and clears it.
extern "C" EMULATOR_EXPORTED const char* autotune_fault() {
  if (!emulator::failed) return nullptr;
  emulator::failed = false;
  return emulator::message_with_lines();
}

// Sets the order in which threads and blocks are scheduled from now on (0 first to last, 1 last to
// first, else the seed of a random order), and whether memory accesses are checked.
extern "C" EMULATOR_EXPORTED void autotune_emulation(int order, int checked) {
  emulator::options = {order, checked};
}

// Sets after how many seconds of processor time without that a thread exits a launch is ended; 0 is never.
extern "C" EMULATOR_EXPORTED void autotune_emulation_limit(double seconds) { emulator::limit_s = seconds; }

// Sets where a byte is that ends a launch, too, when it is not 0; null for none.
extern "C" EMULATOR_EXPORTED void autotune_emulation_stop(const volatile char* flag) { emulator::stop_flag = flag; }

static inline void __trap(int line = __builtin_LINE()) {
  emulator::fail("__trap in line %d: " EMULATOR_THREAD, line, EMULATOR_WHERE(emulator::current));
}
static inline void __brkpt(int line = __builtin_LINE()) {
  emulator::fail("__brkpt in line %d: " EMULATOR_THREAD, line, EMULATOR_WHERE(emulator::current));
}
#undef assert
#define assert(condition)                                                                   \
  ((condition) ? static_cast<void>(0)                                                       \
               : emulator::fail("assertion `%s` failed in line %d: " EMULATOR_THREAD,       \
                                #condition, __LINE__, EMULATOR_WHERE(emulator::current)))

static inline void __threadfence_block() { emulator::release(); }
static inline void __threadfence() {
  emulator::fenced = true;
  emulator::release();
}
static inline void __threadfence_system() { __threadfence(); }
static inline void __nanosleep(unsigned) {}
// Advances with each look, so that who waits until some time has passed goes on.
static inline long long clock64() { return emulator::looks_at_clock += 32; }
static inline size_t __cvta_generic_to_shared(const void* p) { return emulator::shared_address(p); }
static inline void* __cvta_shared_to_generic(size_t address) {
  return emulator::generic_address(static_cast<uint32_t>(address));
}
static inline unsigned __isShared(const void* p) {
  return emulator::place_of(reinterpret_cast<uintptr_t>(p)).block != nullptr;
}
static inline unsigned __isLocal(const void* p) { return emulator::is_local(reinterpret_cast<uintptr_t>(p)); }
static inline unsigned __isGlobal(const void* p) { return !__isShared(p) && !__isLocal(p); }
static inline size_t __cvta_generic_to_global(const void* p) { return reinterpret_cast<size_t>(p); }
static inline void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
static inline unsigned __clusterRelativeBlockRank() { return emulator::cluster_rank(); }
static inline unsigned __clusterSizeInBlocks() { return static_cast<unsigned>(emulator::block_count); }
static inline void __cluster_barrier_arrive(emulator::Line line = emulator::Line::caller()) {
  emulator::cluster_arrive(line);
}
static inline void __cluster_barrier_arrive_relaxed(emulator::Line line = emulator::Line::caller()) {
  emulator::cluster_arrive(line);
}
static inline void __cluster_barrier_wait(emulator::Line line = emulator::Line::caller()) {
  emulator::cluster_wait(line);
}
static inline void* __cluster_map_shared_rank(const void* p, unsigned rank) {
  return emulator::of_rank(p, rank);
}
#define __builtin_assume(condition) static_cast<void>(0)
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_PI_F 3.141592654f
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
