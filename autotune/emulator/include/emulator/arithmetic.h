// Arithmetic that CUDA has and the C library does not, or has by another name.
#pragma once

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float __int_as_float(int v) { return emulator::bits_float(static_cast<uint32_t>(v)); }
static inline float __uint_as_float(unsigned v) { return emulator::bits_float(v); }
static inline int __float_as_int(float v) { return static_cast<int>(emulator::float_bits(v)); }
static inline unsigned __float_as_uint(float v) { return emulator::float_bits(v); }
static inline long long __double_as_longlong(double v) {
  long long bits;
  __builtin_memcpy(&bits, &v, 8);
  return bits;
}
static inline double __longlong_as_double(long long v) {
  double value;
  __builtin_memcpy(&value, &v, 8);
  return value;
}

// max and min of mixed types; of floats, as fmaxf, the one that is a number.
namespace emulator {
template <class T> struct Floating { static constexpr bool value = false; };
template <> struct Floating<float> { static constexpr bool value = true; };
template <> struct Floating<double> { static constexpr bool value = true; };
template <class A, class B>
using Common = decltype(true ? A() : B());
}  // namespace emulator
template <class A, class B>
static inline emulator::Common<A, B> max(A a, B b) {
  using T = emulator::Common<A, B>;
  T x = static_cast<T>(a), y = static_cast<T>(b);
  if constexpr (emulator::Floating<T>::value) return fmax(x, y);
  else return x < y ? y : x;
}
template <class A, class B>
static inline emulator::Common<A, B> min(A a, B b) {
  using T = emulator::Common<A, B>;
  T x = static_cast<T>(a), y = static_cast<T>(b);
  if constexpr (emulator::Floating<T>::value) return fmin(x, y);
  else return y < x ? y : x;
}
using std::abs;

static inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
static inline double rsqrt(double v) { return 1.0 / sqrt(v); }
static inline float rsqrt(float v) { return 1.0f / sqrtf(v); }
static inline float rcbrtf(float v) { return 1.0f / cbrtf(v); }
static inline float normcdff(float v) { return 0.5f * erfcf(v * -0.70710678f); }
static inline float sinpif(float v) { return static_cast<float>(sin(v * M_PI)); }
static inline float cospif(float v) { return static_cast<float>(cos(v * M_PI)); }
static inline float fdividef(float a, float b) { return a / b; }
static inline float __fdividef(float a, float b) { return a / b; }
// The C library has these names for itself, so they can only be macros.
#define __expf(v) expf(v)
#define __exp10f(v) powf(10.0f, v)
#define __logf(v) logf(v)
#define __log2f(v) log2f(v)
#define __log10f(v) log10f(v)
#define __sinf(v) sinf(v)
#define __cosf(v) cosf(v)
#define __tanf(v) tanf(v)
#define __tanhf(v) tanhf(v)
#define __powf(a, b) powf(a, b)
static inline float __saturatef(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __frcp_rn(float v) { return 1.0f / v; }
static inline float __fsqrt_rn(float v) { return sqrtf(v); }
static inline float __frsqrt_rn(float v) { return 1.0f / sqrtf(v); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

static inline int __float2int_rn(float v) { return static_cast<int>(rintf(v)); }
static inline int __float2int_rz(float v) { return static_cast<int>(v); }
static inline int __float2int_rd(float v) { return static_cast<int>(floorf(v)); }
static inline int __float2int_ru(float v) { return static_cast<int>(ceilf(v)); }
static inline unsigned __float2uint_rn(float v) { return static_cast<unsigned>(rintf(v)); }
static inline unsigned __float2uint_rz(float v) { return static_cast<unsigned>(v); }
static inline float __int2float_rn(int v) { return static_cast<float>(v); }
static inline float __uint2float_rn(unsigned v) { return static_cast<float>(v); }
static inline float __ll2float_rn(long long v) { return static_cast<float>(v); }
static inline float __double2float_rn(double v) { return static_cast<float>(v); }

static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }
static inline int __clzll(long long v) {
  return v ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64;
}
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline unsigned __brev(unsigned v) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (v >> i & 1u) << (31 - i);
  return reversed;
}
static inline int __mul24(int a, int b) { return a * b; }
static inline unsigned __umul24(unsigned a, unsigned b) { return a * b; }
static inline int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
static inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8)
    c += static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i);
  return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 0xFFu) * (b >> i & 0xFFu);
  return c;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long both = static_cast<unsigned long long>(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(both >> ((selector >> 4 * i & 7u) * 8) & 0xFFu) << 8 * i;
  return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both << (shift & 31u) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift & 31u));
}

// Loads and stores that differ from plain ones only in how caches are used.
#define EMULATOR_LOAD(name) \
  template <class T>        \
  static inline T name(const T* at) { return *at; }
EMULATOR_LOAD(__ldg)
EMULATOR_LOAD(__ldca)
EMULATOR_LOAD(__ldcg)
EMULATOR_LOAD(__ldcs)
EMULATOR_LOAD(__ldlu)
EMULATOR_LOAD(__ldcv)
#undef EMULATOR_LOAD
#define EMULATOR_STORE(name) \
  template <class T>         \
  static inline void name(T* at, typename emulator::Same<T>::type value) { *at = value; }
EMULATOR_STORE(__stwb)
EMULATOR_STORE(__stcg)
EMULATOR_STORE(__stcs)
EMULATOR_STORE(__stwt)
#undef EMULATOR_STORE
