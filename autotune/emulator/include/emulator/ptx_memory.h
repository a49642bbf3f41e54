// Inline PTX that computes, loads and stores.
#pragma once

#include <math.h>

#include "ptx.h"

namespace emulator {

EMULATOR_OWN void ptx_map(PtxRun& run) { run.put(0, map_rank(run.word(1), run.word(2))); }
EMULATOR_OWN void ptx_move(PtxRun& run) { run.put(0, run.value(1)); }
EMULATOR_OWN void ptx_set_not_equal(PtxRun& run) { run.put(0, run.word(1) != run.word(2)); }
EMULATOR_OWN void ptx_select(PtxRun& run) { run.put(0, run.value(3) ? run.value(1) : run.value(2)); }

EMULATOR_OWN void ptx_max_nan(PtxRun& run) {
  const float a = run.real(1), b = run.real(2);
  run.put(0, a != a || b != b ? 0x7FFFFFFFu : float_bits(a > b || (a == b && !signbit(a)) ? a : b));
}
EMULATOR_OWN void ptx_min_nan(PtxRun& run) {
  const float a = run.real(1), b = run.real(2);
  run.put(0, a != a || b != b ? 0x7FFFFFFFu : float_bits(a < b || (a == b && signbit(a)) ? a : b));
}
EMULATOR_OWN void ptx_min_halves(PtxRun& run) {
  const uint32_t a = run.word(1), b = run.word(2);
  const uint32_t low = (a & 0xffff) < (b & 0xffff) ? a : b, high = a >> 16 < b >> 16 ? a : b;
  run.put(0, (low & 0xffff) | (high & 0xffff0000u));
}
EMULATOR_OWN void ptx_exp2(PtxRun& run) {
  const float x = run.real(1);
  const float flushed = fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x, y = exp2f(flushed);
  run.put(0, float_bits(fabsf(y) < 0x1p-126f ? 0.0f : y));
}
EMULATOR_OWN void ptx_reciprocal(PtxRun& run) {
  const float x = run.real(1);
  const float flushed = fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x, y = 1.0f / flushed;
  run.put(0, float_bits(fabsf(y) < 0x1p-126f ? copysignf(0.0f, y) : y));
}
EMULATOR_OWN void ptx_widen_half(PtxRun& run) {
  run.put(0, float_bits(Binary16::widen(static_cast<uint16_t>(run.value(1)))));
}
EMULATOR_OWN void ptx_to_half(PtxRun& run) { run.put(0, Binary16::narrow(run.real(1))); }
EMULATOR_OWN void ptx_to_bfloat(PtxRun& run) { run.put(0, Bfloat16::narrow(run.real(1))); }
// The first operand is the upper half.
EMULATOR_OWN void ptx_to_halves(PtxRun& run) {
  run.put(0, static_cast<uint32_t>(Binary16::narrow(run.real(1))) << 16 | Binary16::narrow(run.real(2)));
}
EMULATOR_OWN void ptx_to_bfloats(PtxRun& run) {
  run.put(0, static_cast<uint32_t>(Bfloat16::narrow(run.real(1))) << 16 | Bfloat16::narrow(run.real(2)));
}
EMULATOR_OWN void ptx_to_tf32(PtxRun& run) {
  const uint32_t bits = run.word(1);
  run.put(0, (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu);
}

// Words of 32 bits: of a vector as many as are in its braces, at an address that is aligned to all.
EMULATOR_OWN void* ptx_vector(const PtxRun& run, int group, uint32_t bytes) {
  const int at = run.begin_of(group);
  void* const address = run.has(".global") ? reinterpret_cast<void*>(run.value(at))
                                           : generic_address(run.word(at));
  if (reinterpret_cast<uintptr_t>(address) % bytes)
    fail(EMULATOR_THREAD " accesses %u bytes " EMULATOR_PTX_AT " at an address that is not aligned to them",
         EMULATOR_WHERE(current), bytes, EMULATOR_PTX_LINE(run));
  return address;
}

EMULATOR_OWN void ptx_load(PtxRun& run) {
  const int count = run.count_of(0);
  const uint32_t bytes = 4 * static_cast<uint32_t>(count);
  const void* const from = ptx_vector(run, 1, bytes);
  run.touch(from, bytes, Access::read);
  for (int i = 0; i < count; ++i) {
    uint32_t word;
    memcpy(&word, static_cast<const char*>(from) + 4 * i, 4);
    run.put(i, word);
  }
}

EMULATOR_OWN void ptx_store_words(const PtxRun& run, void* to, const Flight& flight = no_flight) {
  const int first = run.begin_of(1), count = run.count_of(1);
  run.touch(to, 4 * static_cast<uint32_t>(count), Access::write, flight);
  for (int i = 0; i < count; ++i) {
    const uint32_t word = run.word(first + i);
    memcpy(static_cast<char*>(to) + 4 * i, &word, 4);
  }
}
EMULATOR_OWN void ptx_store(PtxRun& run) {
  ptx_store_words(run, ptx_vector(run, 0, 4 * static_cast<uint32_t>(run.count_of(1))));
}
// The bytes count for an mbarrier of the block where they go.
EMULATOR_OWN void ptx_store_async(PtxRun& run) {
  const int bytes = 4 * run.count_of(1);
  void* const to = ptx_vector(run, 0, static_cast<uint32_t>(bytes));
  void* const barrier = generic_address(run.word(run.begin_of(2)));
  if (place_of(reinterpret_cast<uintptr_t>(to)).block != place_of(reinterpret_cast<uintptr_t>(barrier)).block)
    fail(EMULATOR_THREAD " stores " EMULATOR_PTX_AT " to another block than that of the mbarrier",
         EMULATOR_WHERE(current), EMULATOR_PTX_LINE(run));
  ptx_store_words(run, to, load_flight(barrier, run.site));
  mbarrier_complete_tx(barrier, bytes, run.site);
}

}  // namespace emulator
