// Inline PTX that converts pairs of 8-bit floats. Of two operands the first is the upper half.
#pragma once

#include "fp8.h"
#include "ptx.h"

namespace emulator {

EMULATOR_OWN uint32_t ptx_fp8_of(const PtxRun& run, float value) {
  if (run.has(".relu") && value <= 0) value = 0.0f;
  return run.has(".e4m3x2") ? to_fp8<E4m3>(value, true) : to_fp8<E5m2>(value, true);
}
EMULATOR_OWN void ptx_floats_to_fp8(PtxRun& run) {
  run.put(0, ptx_fp8_of(run, run.real(1)) << 8 | ptx_fp8_of(run, run.real(2)));
}
EMULATOR_OWN void ptx_halves_to_fp8(PtxRun& run) {
  const uint32_t halves = run.word(1);
  const float low = Binary16::widen(static_cast<uint16_t>(halves));
  run.put(0, ptx_fp8_of(run, Binary16::widen(static_cast<uint16_t>(halves >> 16))) << 8 | ptx_fp8_of(run, low));
}
EMULATOR_OWN void ptx_fp8_to_halves(PtxRun& run) {
  uint32_t halves = 0;
  for (int i = 0; i < 2; ++i) {
    const uint8_t code = static_cast<uint8_t>(run.word(1) >> 8 * i);
    uint16_t half = run.has(".e4m3x2") ? half_of_fp8<E4m3>(code) : half_of_fp8<E5m2>(code);
    if (run.has(".relu") && half > 0x7FFF) half = 0;
    halves |= static_cast<uint32_t>(half) << 16 * i;
  }
  run.put(0, halves);
}

}  // namespace emulator
