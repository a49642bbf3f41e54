// Arithmetic of inline PTX on bits, and the approximations of functions (PTX ISA, 9.7.1 to 9.7.7).
#pragma once

#include "ptx.h"

namespace emulator {

// The last operand has the result for each combination of three bits.
EMULATOR_OWN void ptx_logic(PtxRun& run) {
  const uint32_t a = run.word(1), b = run.word(2), c = run.word(3), table = run.word(4);
  uint32_t found = 0;
  for (int bit = 0; bit < 32; ++bit) {
    const uint32_t at = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
    found |= (table >> at & 1) << bit;
  }
  run.put(0, found);
}

// Each digit of the selector names a byte; with its highest bit set, eight times the sign of that.
EMULATOR_OWN void ptx_permute(PtxRun& run) {
  const uint64_t both = static_cast<uint64_t>(run.word(2)) << 32 | run.word(1);
  uint32_t found = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t digit = run.word(3) >> 4 * i & 15;
    const uint32_t byte = static_cast<uint32_t>(both >> (digit & 7) * 8 & 0xff);
    found |= (digit & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
  }
  run.put(0, found);
}

EMULATOR_OWN void ptx_extract(PtxRun& run) {
  const uint32_t from = run.word(2) & 0xff, length = run.word(3) & 0xff;
  const uint64_t mask = length < 32 ? (uint64_t{1} << length) - 1 : 0xffffffffu;
  run.put(0, from < 32 ? run.word(1) >> from & mask : 0);
}

// Beyond the field are copies of its highest bit, and of that of the number where it ends before.
EMULATOR_OWN void ptx_extract_signed(PtxRun& run) {
  const uint32_t a = run.word(1), from = run.word(2) & 0xff, length = run.word(3) & 0xff;
  const uint32_t last = from + length - 1;
  const bool sign = length && a >> (last < 31 ? last : 31) & 1;
  uint32_t found = 0;
  for (uint32_t bit = 0; bit < 32; ++bit) {
    const bool is_set = bit < length && from + bit < 32 ? a >> (from + bit) & 1 : sign;
    found |= static_cast<uint32_t>(is_set) << bit;
  }
  run.put(0, found);
}

EMULATOR_OWN void ptx_insert(PtxRun& run) {
  const uint32_t a = run.word(1), from = run.word(3) & 0xff, length = run.word(4) & 0xff;
  uint32_t found = run.word(2);
  for (uint32_t bit = 0; bit < length && from + bit < 32; ++bit)
    found = (found & ~(1u << (from + bit))) | (a >> bit & 1) << (from + bit);
  run.put(0, found);
}

EMULATOR_OWN void ptx_funnel_left(PtxRun& run) {
  const uint64_t both = static_cast<uint64_t>(run.word(2)) << 32 | run.word(1);
  run.put(0, both << (run.word(3) & 31) >> 32 & 0xffffffffu);
}
EMULATOR_OWN void ptx_funnel_right(PtxRun& run) {
  const uint64_t both = static_cast<uint64_t>(run.word(2)) << 32 | run.word(1);
  run.put(0, both >> (run.word(3) & 31) & 0xffffffffu);
}

// A number of the host's mathematical library, which a device only approximates.
EMULATOR_OWN void ptx_rsqrt(PtxRun& run) { run.put(0, float_bits(1.0f / sqrtf(run.real(1)))); }
EMULATOR_OWN void ptx_sqrt(PtxRun& run) { run.put(0, float_bits(sqrtf(run.real(1)))); }
EMULATOR_OWN void ptx_log2(PtxRun& run) { run.put(0, float_bits(log2f(run.real(1)))); }
EMULATOR_OWN void ptx_tanh(PtxRun& run) { run.put(0, float_bits(tanhf(run.real(1)))); }
EMULATOR_OWN void ptx_exp2_whole(PtxRun& run) { run.put(0, float_bits(exp2f(run.real(1)))); }
EMULATOR_OWN void ptx_reciprocal_whole(PtxRun& run) { run.put(0, float_bits(1.0f / run.real(1))); }

}  // namespace emulator
