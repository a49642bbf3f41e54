// The intrinsics on 16-bit floating-point numbers and pairs of them.
#pragma once

#include "arithmetic.h"
#include "half.h"
#include "rounding.h"

namespace emulator {
// The zero with a minus is the smaller one.
EMULATOR_QUICK float larger(float a, float b) { return a == b ? (signbit(a) ? b : a) : fmaxf(a, b); }
EMULATOR_QUICK float smaller(float a, float b) { return a == b ? (signbit(a) ? a : b) : fminf(a, b); }
}  // namespace emulator

// Operands are references: of what a call copies without a constructor the compiler watches no read.
static inline __half __float2half(float v) { return __half(v); }
static inline __half __float2half_rn(float v) { return __half(v); }
static inline __half __double2half(double v) { return __half(v); }
static inline float __half2float(const __half& v) { return v; }
static inline unsigned short __half_as_ushort(const __half& v) { return v.bits; }
static inline short __half_as_short(const __half& v) { return static_cast<short>(v.bits); }
static inline __half __ushort_as_half(unsigned short v) { return __half::from(v); }
static inline __half __short_as_half(short v) {
  return __half::from(static_cast<unsigned short>(v));
}
static inline __half2 __float2half2_rn(float v) { return {__half(v), __half(v)}; }
static inline __half2 __floats2half2_rn(float a, float b) { return {__half(a), __half(b)}; }
static inline __half2 __float22half2_rn(const float2& v) { return {__half(v.x), __half(v.y)}; }
static inline float2 __half22float2(const __half2& v) { return {v.x, v.y}; }
static inline __half2 __half2half2(const __half& v) { return {v, v}; }
static inline __half2 make_half2(const __half& a, const __half& b) { return {a, b}; }

static inline __nv_bfloat16 __float2bfloat16(float v) { return __nv_bfloat16(v); }
static inline __nv_bfloat16 __float2bfloat16_rn(float v) { return __nv_bfloat16(v); }
static inline __nv_bfloat16 __double2bfloat16(double v) { return __nv_bfloat16(v); }
static inline float __bfloat162float(const __nv_bfloat16& v) { return v; }
static inline unsigned short __bfloat16_as_ushort(const __nv_bfloat16& v) { return v.bits; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) {
  return __nv_bfloat16::from(v);
}
static inline __nv_bfloat162 __float2bfloat162_rn(float v) {
  return {__nv_bfloat16(v), __nv_bfloat16(v)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return {__nv_bfloat16(a), __nv_bfloat16(b)};
}
static inline __nv_bfloat162 __float22bfloat162_rn(const float2& v) {
  return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)};
}
static inline float2 __bfloat1622float2(const __nv_bfloat162& v) { return {v.x, v.y}; }
static inline __nv_bfloat162 __bfloat162bfloat162(const __nv_bfloat16& v) { return {v, v}; }
static inline __nv_bfloat162 make_bfloat162(const __nv_bfloat16& a, const __nv_bfloat16& b) { return {a, b}; }

static inline __half2 __lowhigh2highlow(const __half2& v) { return {v.y, v.x}; }
static inline __half2 __low2half2(const __half2& v) { return {v.x, v.x}; }
static inline __half2 __high2half2(const __half2& v) { return {v.y, v.y}; }
static inline __half2 __lows2half2(const __half2& a, const __half2& b) { return {a.x, b.x}; }
static inline __half2 __highs2half2(const __half2& a, const __half2& b) { return {a.y, b.y}; }
static inline __nv_bfloat162 __low2bfloat162(const __nv_bfloat162& v) { return {v.x, v.x}; }
static inline __nv_bfloat162 __high2bfloat162(const __nv_bfloat162& v) { return {v.y, v.y}; }

// To integers in each direction, and from them to nearest.
#define EMULATOR_INTEGER(small, Small, name, T)                                                          \
  static inline T __##small##2##name##_rn(const Small& v) { return emulator::to_integer<T>(rintf(v)); }  \
  static inline T __##small##2##name##_rz(const Small& v) { return emulator::to_integer<T>(truncf(v)); } \
  static inline T __##small##2##name##_rd(const Small& v) { return emulator::to_integer<T>(floorf(v)); } \
  static inline T __##small##2##name##_ru(const Small& v) { return emulator::to_integer<T>(ceilf(v)); }  \
  static inline Small __##name##2##small##_rn(T v) { return Small(emulator::odd_float(v)); }
#define EMULATOR_INTEGERS(small, Small)                  \
  EMULATOR_INTEGER(small, Small, short, short)           \
  EMULATOR_INTEGER(small, Small, ushort, unsigned short) \
  EMULATOR_INTEGER(small, Small, int, int)               \
  EMULATOR_INTEGER(small, Small, uint, unsigned)         \
  EMULATOR_INTEGER(small, Small, ll, long long)          \
  EMULATOR_INTEGER(small, Small, ull, unsigned long long)
EMULATOR_INTEGERS(half, __half)
EMULATOR_INTEGERS(bfloat16, __nv_bfloat16)
#undef EMULATOR_INTEGERS
#undef EMULATOR_INTEGER

// Each works on both 16-bit types, and each pair function on pairs of both.
#define EMULATOR_SMALL template <class F> static inline
#define EMULATOR_S emulator::Small<F>
#define EMULATOR_P emulator::Pair<emulator::Small<F>>
#define EMULATOR_BINARY(name, suffix, expression)                                                  \
  EMULATOR_SMALL EMULATOR_S name##suffix(const EMULATOR_S& a, const EMULATOR_S& b) {               \
    return EMULATOR_S(expression);                                                                 \
  }                                                                                                \
  EMULATOR_SMALL EMULATOR_P name##2##suffix(const EMULATOR_P& a, const EMULATOR_P& b) {            \
    return {name##suffix(a.x, b.x), name##suffix(a.y, b.y)};                                       \
  }
#define EMULATOR_OPERATION(name, op)             \
  EMULATOR_BINARY(name, , a op b)                \
  EMULATOR_BINARY(name, _rn, a op b)             \
  EMULATOR_BINARY(name, _sat, __saturatef(a op b))
EMULATOR_OPERATION(__hadd, +)
EMULATOR_OPERATION(__hsub, -)
EMULATOR_OPERATION(__hmul, *)
EMULATOR_BINARY(__hmax, , emulator::larger(a, b))
EMULATOR_BINARY(__hmin, , emulator::smaller(a, b))
#undef EMULATOR_OPERATION
#undef EMULATOR_BINARY
EMULATOR_SMALL EMULATOR_S __hdiv(const EMULATOR_S& a, const EMULATOR_S& b) { return a / b; }
EMULATOR_SMALL EMULATOR_P __h2div(const EMULATOR_P& a, const EMULATOR_P& b) { return a / b; }
#define EMULATOR_FMA(suffix, expression)                                                                  \
  EMULATOR_SMALL EMULATOR_S __hfma##suffix(const EMULATOR_S& a, const EMULATOR_S& b, const EMULATOR_S& c) {  \
    const float sum = fmaf(a, b, c);                                                                      \
    return EMULATOR_S(expression);                                                                        \
  }                                                                                                       \
  EMULATOR_SMALL EMULATOR_P __hfma2##suffix(const EMULATOR_P& a, const EMULATOR_P& b, const EMULATOR_P& c) { \
    return {__hfma##suffix(a.x, b.x, c.x), __hfma##suffix(a.y, b.y, c.y)};                                \
  }
EMULATOR_FMA(, sum)
EMULATOR_FMA(_sat, __saturatef(sum))
EMULATOR_FMA(_relu, sum < 0.0f ? 0.0f : sum)
#undef EMULATOR_FMA
EMULATOR_SMALL EMULATOR_S __low2(const EMULATOR_P& a) { return a.x; }
static inline __half __low2half(const __half2& v) { return v.x; }
static inline __half __high2half(const __half2& v) { return v.y; }
static inline float __low2float(const __half2& v) { return v.x; }
static inline float __high2float(const __half2& v) { return v.y; }
static inline float __low2float(const __nv_bfloat162& v) { return v.x; }
static inline float __high2float(const __nv_bfloat162& v) { return v.y; }
static inline __nv_bfloat16 __low2bfloat16(const __nv_bfloat162& v) { return v.x; }
static inline __nv_bfloat16 __high2bfloat16(const __nv_bfloat162& v) { return v.y; }
static inline __half2 __halves2half2(const __half& a, const __half& b) { return {a, b}; }
static inline __nv_bfloat162 __halves2bfloat162(const __nv_bfloat16& a, const __nv_bfloat16& b) {
  return {a, b};
}

// Of numbers a truth; of pairs 1 or 0 in each, whether it holds of both, or a mask of the bits of each.
#define EMULATOR_COMPARE(name, op)                                                           \
  EMULATOR_SMALL bool __h##name(const EMULATOR_S& a, const EMULATOR_S& b) { return a op b; } \
  EMULATOR_SMALL EMULATOR_P __h##name##2(const EMULATOR_P& a, const EMULATOR_P& b) {         \
    return {EMULATOR_S(a.x op b.x), EMULATOR_S(a.y op b.y)};                                 \
  }                                                                                          \
  EMULATOR_SMALL bool __hb##name##2(const EMULATOR_P& a, const EMULATOR_P& b) {              \
    return a.x op b.x && a.y op b.y;                                                         \
  }                                                                                          \
  EMULATOR_SMALL unsigned __h##name##2_mask(const EMULATOR_P& a, const EMULATOR_P& b) {      \
    return (a.x op b.x ? 0xFFFFu : 0u) | (a.y op b.y ? 0xFFFF0000u : 0u);                    \
  }
EMULATOR_COMPARE(eq, ==)
EMULATOR_COMPARE(lt, <)
EMULATOR_COMPARE(le, <=)
EMULATOR_COMPARE(gt, >)
EMULATOR_COMPARE(ge, >=)
#undef EMULATOR_COMPARE
EMULATOR_SMALL bool __hisnan(const EMULATOR_S& a) { return a != a; }
// -1 of minus infinity.
EMULATOR_SMALL int __hisinf(const EMULATOR_S& a) {
  return isinf(static_cast<float>(a)) ? (a.bits & 0x8000u ? -1 : 1) : 0;
}

#define EMULATOR_UNARY(name, function)                  \
  EMULATOR_SMALL EMULATOR_S name(const EMULATOR_S& a) { \
    return EMULATOR_S(function(static_cast<float>(a))); \
  }
#define EMULATOR_UNARY_BOTH(one, two, function) \
  EMULATOR_UNARY(one, function)                 \
  EMULATOR_SMALL EMULATOR_P two(const EMULATOR_P& a) { return {one(a.x), one(a.y)}; }
EMULATOR_UNARY_BOTH(__hneg, __hneg2, -)
EMULATOR_UNARY_BOTH(__habs, __habs2, fabsf)
EMULATOR_UNARY_BOTH(hexp, h2exp, expf)
EMULATOR_UNARY_BOTH(hexp2, h2exp2, exp2f)
EMULATOR_UNARY_BOTH(hexp10, h2exp10, exp10f)
EMULATOR_UNARY_BOTH(hlog, h2log, logf)
EMULATOR_UNARY_BOTH(hlog2, h2log2, log2f)
EMULATOR_UNARY_BOTH(hlog10, h2log10, log10f)
EMULATOR_UNARY_BOTH(hsqrt, h2sqrt, sqrtf)
EMULATOR_UNARY_BOTH(hrsqrt, h2rsqrt, rsqrtf)
EMULATOR_UNARY_BOTH(hrcp, h2rcp, 1.0f /)
EMULATOR_UNARY_BOTH(hsin, h2sin, sinf)
EMULATOR_UNARY_BOTH(hcos, h2cos, cosf)
EMULATOR_UNARY_BOTH(htanh, h2tanh, tanhf)
EMULATOR_UNARY_BOTH(hfloor, h2floor, floorf)
EMULATOR_UNARY_BOTH(hceil, h2ceil, ceilf)
EMULATOR_UNARY_BOTH(htrunc, h2trunc, truncf)
EMULATOR_UNARY_BOTH(hrint, h2rint, rintf)
#undef EMULATOR_UNARY
#undef EMULATOR_UNARY_BOTH
#undef EMULATOR_SMALL
#undef EMULATOR_S
#undef EMULATOR_P
