// Conversions to 16-bit floating-point numbers that round in one direction, comparisons that hold
// where one of them is no number, and extremes that then are none.
#pragma once

#include "half_functions.h"

namespace emulator {

enum class Toward { zero, below, above };

// The next number above or below; beside either zero the least one.
template <class Format>
EMULATOR_QUICK Small<Format> next_to(const Small<Format>& value, bool above) {
  if (!(value.bits & 0x7FFFu)) return Small<Format>::from(above ? 0x0001 : 0x8001);
  const bool grows = above == !(value.bits & 0x8000u);
  return Small<Format>::from(static_cast<uint16_t>(grows ? value.bits + 1 : value.bits - 1));
}

template <class Small>
EMULATOR_QUICK Small rounded(long double value, Toward toward) {
  Small found(static_cast<float>(value));
  if (isnan(value) || isinf(value)) return found;
  const bool less = toward == Toward::below || (toward == Toward::zero && value > 0);
  const auto is_beyond = [&] {
    const float now = found;
    return less ? now > value : now < value;
  };
  while (is_beyond()) found = next_to(found, !less);
  return found;
}

}  // namespace emulator

#define EMULATOR_CONVERSION(name, T, small, Small)                \
  static inline Small __##name##2##small##_rz(T v) {              \
    return emulator::rounded<Small>(v, emulator::Toward::zero);   \
  }                                                               \
  static inline Small __##name##2##small##_rd(T v) {              \
    return emulator::rounded<Small>(v, emulator::Toward::below);  \
  }                                                               \
  static inline Small __##name##2##small##_ru(T v) {              \
    return emulator::rounded<Small>(v, emulator::Toward::above);  \
  }
#define EMULATOR_CONVERSIONS(small, Small)                  \
  EMULATOR_CONVERSION(float, float, small, Small)           \
  EMULATOR_CONVERSION(short, short, small, Small)           \
  EMULATOR_CONVERSION(ushort, unsigned short, small, Small) \
  EMULATOR_CONVERSION(int, int, small, Small)               \
  EMULATOR_CONVERSION(uint, unsigned, small, Small)         \
  EMULATOR_CONVERSION(ll, long long, small, Small)          \
  EMULATOR_CONVERSION(ull, unsigned long long, small, Small)
EMULATOR_CONVERSIONS(half, __half)
EMULATOR_CONVERSIONS(bfloat16, __nv_bfloat16)
#undef EMULATOR_CONVERSIONS
#undef EMULATOR_CONVERSION

#define EMULATOR_SMALL template <class F> static inline
#define EMULATOR_S emulator::Small<F>
#define EMULATOR_P emulator::Pair<emulator::Small<F>>
#define EMULATOR_COMPARE(name, opposite)                                                         \
  EMULATOR_SMALL bool __h##name(const EMULATOR_S& a, const EMULATOR_S& b) { return !(opposite); }  \
  EMULATOR_SMALL EMULATOR_P __h##name##2(const EMULATOR_P& a, const EMULATOR_P& b) {               \
    return {EMULATOR_S(__h##name(a.x, b.x)), EMULATOR_S(__h##name(a.y, b.y))};                     \
  }                                                                                                \
  EMULATOR_SMALL bool __hb##name##2(const EMULATOR_P& a, const EMULATOR_P& b) {                    \
    return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                             \
  }                                                                                                \
  EMULATOR_SMALL unsigned __h##name##2_mask(const EMULATOR_P& a, const EMULATOR_P& b) {            \
    return (__h##name(a.x, b.x) ? 0xFFFFu : 0u) | (__h##name(a.y, b.y) ? 0xFFFF0000u : 0u);        \
  }
// Unlike the operator, this one does not hold where one of them is no number.
EMULATOR_COMPARE(ne, !(a < b || a > b))
EMULATOR_COMPARE(equ, a < b || a > b)
EMULATOR_COMPARE(neu, a == b)
EMULATOR_COMPARE(ltu, a >= b)
EMULATOR_COMPARE(leu, a > b)
EMULATOR_COMPARE(gtu, a <= b)
EMULATOR_COMPARE(geu, a < b)
#undef EMULATOR_COMPARE

#define EMULATOR_NAN_BINARY(name)                                                                      \
  EMULATOR_SMALL EMULATOR_S name##_nan(const EMULATOR_S& a, const EMULATOR_S& b) {                     \
    return __hisnan(a) || __hisnan(b) ? EMULATOR_S::from(0x7FFF) : name(a, b);                         \
  }                                                                                                    \
  EMULATOR_SMALL EMULATOR_P name##2_nan(const EMULATOR_P& a, const EMULATOR_P& b) {                    \
    return {name##_nan(a.x, b.x), name##_nan(a.y, b.y)};                                               \
  }
EMULATOR_NAN_BINARY(__hmax)
EMULATOR_NAN_BINARY(__hmin)
#undef EMULATOR_NAN_BINARY
EMULATOR_SMALL EMULATOR_P __hcmadd(const EMULATOR_P& a, const EMULATOR_P& b, const EMULATOR_P& c) {
  return {__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};
}
#undef EMULATOR_SMALL
#undef EMULATOR_S
#undef EMULATOR_P
