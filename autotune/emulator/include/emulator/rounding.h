// Arithmetic and conversions that name how they round: to nearest even, to zero, down or up.
#pragma once

#include <fenv.h>
#include <limits.h>
#include <math.h>

namespace emulator {

struct Rounding {
  int before;
  explicit Rounding(int mode) : before(fegetround()) { fesetround(mode); }
  ~Rounding() { fesetround(before); }
};

// To an integer of a width; what is too large becomes the largest, and a NaN 0, or the lowest of 64 bits.
template <class To>
EMULATOR_KEPT To to_integer(double whole) {
  constexpr bool is_signed = To(-1) < To(0);
  constexpr int bits = sizeof(To) * 8;
  constexpr To most = static_cast<To>(~0ull >> (64 - bits + is_signed)), least = is_signed ? To(-most - 1) : To(0);
  if (isnan(whole)) return bits == 64 ? To(1ull << 63) : To(0);
  if (whole >= ldexp(1.0, bits - is_signed)) return most;
  return whole <= static_cast<double>(least) ? least : static_cast<To>(whole);
}

// The number itself is computed, and stored, while the mode holds; volatile ones are not moved.
#define EMULATOR_ROUNDED(name, mode, To, parameters, expression) \
  static inline To name parameters {                             \
    emulator::Rounding rounding(mode);                           \
    volatile To result = static_cast<To>(expression);            \
    return result;                                               \
  }
#define EMULATOR_ROUNDED_4(name, To, parameters, expression)              \
  EMULATOR_ROUNDED(name##_rn, FE_TONEAREST, To, parameters, expression)   \
  EMULATOR_ROUNDED(name##_rz, FE_TOWARDZERO, To, parameters, expression)  \
  EMULATOR_ROUNDED(name##_rd, FE_DOWNWARD, To, parameters, expression)    \
  EMULATOR_ROUNDED(name##_ru, FE_UPWARD, To, parameters, expression)
#define EMULATOR_ARITHMETIC(prefix, T)                                        \
  EMULATOR_ROUNDED_4(prefix##add, T, (volatile T a, volatile T b), a + b)     \
  EMULATOR_ROUNDED_4(prefix##sub, T, (volatile T a, volatile T b), a - b)     \
  EMULATOR_ROUNDED_4(prefix##mul, T, (volatile T a, volatile T b), a * b)     \
  EMULATOR_ROUNDED_4(prefix##div, T, (volatile T a, volatile T b), a / b)     \
  EMULATOR_ROUNDED_4(prefix##rcp, T, (volatile T a), T(1) / a)                \
  EMULATOR_ROUNDED_4(prefix##sqrt, T, (volatile T a), sqrt(T(a)))

}  // namespace emulator

EMULATOR_ARITHMETIC(__f, float)
EMULATOR_ARITHMETIC(__d, double)
EMULATOR_ROUNDED_4(__fmaf, float, (volatile float a, volatile float b, volatile float c), fmaf(a, b, c))
EMULATOR_ROUNDED_4(__fma, double, (volatile double a, volatile double b, volatile double c), fma(a, b, c))
static inline float __frsqrt_rn(float v) { return static_cast<float>(1 / sqrt(static_cast<double>(v))); }

// By functions that name the direction: compilers may take rint() apart as if the mode were the usual one.
#define EMULATOR_TO_INTEGER(name, From, To)                                                \
  static inline To name##_rn(From v) { return emulator::to_integer<To>(rint(double(v))); } \
  static inline To name##_rz(From v) { return emulator::to_integer<To>(trunc(v)); }        \
  static inline To name##_rd(From v) { return emulator::to_integer<To>(floor(v)); }        \
  static inline To name##_ru(From v) { return emulator::to_integer<To>(ceil(v)); }
#define EMULATOR_TO_INTEGERS(from, From)                \
  EMULATOR_TO_INTEGER(__##from##2int, From, int)        \
  EMULATOR_TO_INTEGER(__##from##2uint, From, unsigned)  \
  EMULATOR_TO_INTEGER(__##from##2ll, From, long long)   \
  EMULATOR_TO_INTEGER(__##from##2ull, From, unsigned long long)
EMULATOR_TO_INTEGERS(float, float)
EMULATOR_TO_INTEGERS(double, double)
EMULATOR_ROUNDED_4(__int2float, float, (volatile int v), v)
EMULATOR_ROUNDED_4(__uint2float, float, (volatile unsigned v), v)
EMULATOR_ROUNDED_4(__ll2float, float, (volatile long long v), v)
EMULATOR_ROUNDED_4(__ull2float, float, (volatile unsigned long long v), v)
EMULATOR_ROUNDED_4(__ll2double, double, (volatile long long v), v)
EMULATOR_ROUNDED_4(__ull2double, double, (volatile unsigned long long v), v)
EMULATOR_ROUNDED_4(__double2float, float, (volatile double v), v)
static inline double __int2double_rn(int v) { return v; }
static inline double __uint2double_rn(unsigned v) { return v; }
#undef EMULATOR_TO_INTEGERS
#undef EMULATOR_TO_INTEGER
#undef EMULATOR_ARITHMETIC
#undef EMULATOR_ROUNDED_4
#undef EMULATOR_ROUNDED
