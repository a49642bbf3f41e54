// The 16-bit floating-point types, computed in float and rounded to nearest even after each step.
#pragma once

#include <stdint.h>
#include <string.h>

namespace emulator {

template <class T>
struct Same {
  using type = T;
};

EMULATOR_QUICK uint32_t float_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits;
}

EMULATOR_QUICK float bits_float(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

struct Binary16 {
  EMULATOR_KEPT static float widen(uint16_t bits) {
    uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, rest = bits & 0x7FFFu;
    if (rest >= 0x7C00u) return bits_float(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
    // A float that is too large by 2^112 has the same digits, for subnormal numbers too.
    return bits_float(sign | float_bits(bits_float(rest << 13) * 0x1p112f));
  }
  EMULATOR_KEPT static uint16_t narrow(float value) {
    uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000u;
    bits &= 0x7FFFFFFFu;
    if (bits > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7FFFu);
    if (bits >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
    if (bits < 0x38800000u)  // subnormal: adding 0.5 rounds at the right digit
      return static_cast<uint16_t>(sign | (float_bits(bits_float(bits) + 0.5f) - 0x3F000000u));
    bits += 0xFFFu + (bits >> 13 & 1u);
    return static_cast<uint16_t>(sign | (bits - 0x38000000u) >> 13);
  }
};

struct Bfloat16 {
  EMULATOR_KEPT static float widen(uint16_t bits) { return bits_float(static_cast<uint32_t>(bits) << 16); }
  EMULATOR_KEPT static uint16_t narrow(float value) {
    uint32_t bits = float_bits(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFFu;
    return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
  }
};

// A float that is rounded further as the number would be: where it is not the number itself its last bit is
// set (rounding to odd, Boldo and Melquiond, "When double rounding is odd", 2005).
template <class T>
EMULATOR_KEPT float odd_float(T value) {
  const long double exact = static_cast<long double>(value);
  const float near = static_cast<float>(exact);
  if (near == exact || isnan(near)) return near;
  uint32_t bits = float_bits(near);
  if (fabsl(static_cast<long double>(near)) > fabsl(exact)) --bits;
  return bits_float(bits | 1);
}

// The bits of a number, and of a pair, by the names that CUDA has for them.
template <class Format>
struct Raw {
  unsigned short x;
};
template <class Format>
struct __attribute__((aligned(4))) RawPair {
  unsigned short x, y;
};

template <class Format>
struct Small {
  using Bits = RawPair<Format>;  // of a pair
  uint16_t bits;
  Small() = default;
  Small(const Raw<Format>& raw) : bits(raw.x) {}
  operator Raw<Format>() const { return {bits}; }
  Small(float value) : bits(Format::narrow(value)) {}
  Small(double value) : bits(Format::narrow(odd_float(value))) {}
  Small(int value) : bits(Format::narrow(odd_float(value))) {}
  Small(unsigned value) : bits(Format::narrow(odd_float(value))) {}
  Small(long long value) : bits(Format::narrow(odd_float(value))) {}
  Small(long value) : bits(Format::narrow(odd_float(value))) {}
  Small(unsigned long long value) : bits(Format::narrow(odd_float(value))) {}
  Small(unsigned long value) : bits(Format::narrow(odd_float(value))) {}
  Small(short value) : bits(Format::narrow(static_cast<float>(value))) {}
  Small(unsigned short value) : bits(Format::narrow(static_cast<float>(value))) {}
  Small(signed char value) : bits(Format::narrow(static_cast<float>(value))) {}
  Small(bool value) : bits(Format::narrow(value ? 1.0f : 0.0f)) {}
  operator float() const { return Format::widen(bits); }
  Small operator-() const { return from(static_cast<uint16_t>(bits ^ 0x8000u)); }
  Small operator+() const { return *this; }
  static Small from(uint16_t bits) {
    Small value;
    value.bits = bits;
    return value;
  }
#define EMULATOR_OPERATOR(op)                                                      \
  friend Small operator op(const Small& a, const Small& b) {                       \
    return Small(static_cast<float>(a) op static_cast<float>(b));                  \
  }                                                                                \
  Small& operator op##=(const Small& b) { return *this = *this op b; }
  EMULATOR_OPERATOR(+)
  EMULATOR_OPERATOR(-)
  EMULATOR_OPERATOR(*)
  EMULATOR_OPERATOR(/)
#undef EMULATOR_OPERATOR
  Small& operator++() { return *this += Small(1); }
  Small& operator--() { return *this -= Small(1); }
#define EMULATOR_COMPARE(op)                                                       \
  friend bool operator op(const Small& a, const Small& b) {                        \
    return static_cast<float>(a) op static_cast<float>(b);                         \
  }
  EMULATOR_COMPARE(==)
  EMULATOR_COMPARE(!=)
  EMULATOR_COMPARE(<)
  EMULATOR_COMPARE(<=)
  EMULATOR_COMPARE(>)
  EMULATOR_COMPARE(>=)
#undef EMULATOR_COMPARE
};

template <class T>
struct __attribute__((aligned(4))) Pair {
  T x, y;
  Pair() = default;
  Pair(const T& x, const T& y) : x(x), y(y) {}
  Pair(const typename T::Bits& raw) : x(T::from(raw.x)), y(T::from(raw.y)) {}
  operator typename T::Bits() const { return {x.bits, y.bits}; }
#define EMULATOR_OPERATOR(op)                                         \
  friend Pair operator op(const Pair& a, const Pair& b) {             \
    return Pair(a.x op b.x, a.y op b.y);                              \
  }                                                                   \
  Pair& operator op##=(const Pair& b) { return *this = *this op b; }
  EMULATOR_OPERATOR(+)
  EMULATOR_OPERATOR(-)
  EMULATOR_OPERATOR(*)
  EMULATOR_OPERATOR(/)
#undef EMULATOR_OPERATOR
  Pair operator-() const { return Pair(-x, -y); }
  Pair operator+() const { return *this; }
  friend bool operator==(const Pair& a, const Pair& b) { return a.x == b.x && a.y == b.y; }
  friend bool operator!=(const Pair& a, const Pair& b) { return !(a == b); }
};

}  // namespace emulator

using __half = emulator::Small<emulator::Binary16>;
using __nv_bfloat16 = emulator::Small<emulator::Bfloat16>;
using __half2 = emulator::Pair<__half>;
using __nv_bfloat162 = emulator::Pair<__nv_bfloat16>;
using __half_raw = emulator::Raw<emulator::Binary16>;
using __nv_bfloat16_raw = emulator::Raw<emulator::Bfloat16>;
using __half2_raw = emulator::RawPair<emulator::Binary16>;
using __nv_bfloat162_raw = emulator::RawPair<emulator::Bfloat16>;
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
