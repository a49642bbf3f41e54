// The 8-bit floating-point formats e4m3 and e5m2, as codes: conversions from and to wider numbers.
#pragma once

#include <math.h>

#include "half.h"

namespace emulator {

struct E4m3 {
  static constexpr int digits = 3, lowest = -6;  // of the fraction; the exponent of the smallest normal number
  static constexpr uint8_t most = 0x7E, above = 0x7F;  // 448; what is larger is a NaN, as there is no infinity
  EMULATOR_KEPT static uint8_t nan_of(uint64_t) { return 0x7F; }
  EMULATOR_KEPT static bool is_nan(uint8_t code) { return (code & 0x7F) == 0x7F; }
};

struct E5m2 {
  static constexpr int digits = 2, lowest = -14;
  static constexpr uint8_t most = 0x7B, above = 0x7C;  // 57344; what is larger is an infinity
  // Keeps the first digits of that of a double.
  EMULATOR_KEPT static uint8_t nan_of(uint64_t bits) { return static_cast<uint8_t>(0x7E | (bits >> 50 & 3)); }
  EMULATOR_KEPT static bool is_nan(uint8_t code) { return (code & 0x7F) > 0x7C; }
};

// Codes of positive numbers are in their order, so that what is rounded up to a power of two, to a normal
// number or beyond the largest needs no care.
template <class Format>
EMULATOR_KEPT uint8_t to_fp8(double value, bool saturates) {
  uint64_t bits;
  __builtin_memcpy(&bits, &value, 8);
  const uint8_t sign = static_cast<uint8_t>(bits >> 63 << 7);
  if (value != value) return static_cast<uint8_t>(sign | Format::nan_of(bits));
  const double size = fmin(fabs(value), 0x1p17);
  const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
  const int digits = Format::digits, lowest = Format::lowest;
  const int steps = exponent < lowest ? 0 : (exponent > 17 ? 17 : exponent) - lowest;
  const int code = (steps << digits) + static_cast<int>(rint(ldexp(size, digits - lowest - steps)));
  if (code > Format::most) return static_cast<uint8_t>(sign | (saturates ? Format::most : Format::above));
  return static_cast<uint8_t>(sign | code);
}

// A NaN that is not a double has neither sign nor digits.
template <class Format>
EMULATOR_KEPT uint8_t to_fp8(float value, bool saturates) {
  if (value != value) return 0x7F;
  return to_fp8<Format>(static_cast<double>(value), saturates);
}

// The bits of the half that is the same number; one of e4m3 has another bias and no infinity.
template <class Format>
EMULATOR_KEPT uint16_t half_of_fp8(uint8_t code) {
  if (Format::is_nan(code)) return 0x7FFF;
  if (Format::digits == 2) return static_cast<uint16_t>(code << 8);
  const float size = Binary16::widen(static_cast<uint16_t>((code & 0x7F) << 7)) * 0x1p8f;
  return static_cast<uint16_t>((code & 0x80) << 8 | Binary16::narrow(size));
}

template <class Format>
EMULATOR_KEPT float float_of_fp8(uint8_t code) {
  if (Format::is_nan(code)) return bits_float(0x7FFFFFFFu);
  return Binary16::widen(half_of_fp8<Format>(code));
}

}  // namespace emulator
