// Arithmetic on numbers and words that CUDA has and the C library does not, or has by another name.
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
static inline int __double2hiint(double v) { return static_cast<int>(__double_as_longlong(v) >> 32); }
static inline int __double2loint(double v) { return static_cast<int>(__double_as_longlong(v)); }
static inline double __longlong_as_double(long long v) {
  double value;
  __builtin_memcpy(&value, &v, 8);
  return value;
}

static inline double __hiloint2double(int high, int low) {
  return __longlong_as_double(static_cast<long long>(high) << 32 | static_cast<unsigned>(low));
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
#define __sincosf(v, sine, cosine) sincosf(v, sine, cosine)
#define __tanhf(v) tanhf(v)
#define __powf(a, b) powf(a, b)
static inline float __saturatef(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }

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
// Of the lowest 24 bits of each.
static inline int __mul24(int a, int b) {
  return static_cast<int>(static_cast<unsigned>((a << 8) >> 8) * static_cast<unsigned>((b << 8) >> 8));
}
static inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFFu) * (b & 0xFFFFFFu); }
static inline int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long both = static_cast<unsigned long long>(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(both >> ((selector >> 4 * i & 7u) * 8) & 0xFFu) << 8 * i;
  return result;
}
static inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
static inline unsigned long long __brevll(unsigned long long v) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(v))) << 32 |
         __brev(static_cast<unsigned>(v >> 32));
}
// Means that do not overflow, rounded down and up.
static inline int __hadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b) >> 1); }
static inline int __rhadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b + 1) >> 1); }
static inline unsigned __uhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) + b) >> 1);
}
static inline unsigned __urhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) + b + 1) >> 1);
}
static inline unsigned __sad(int a, int b, unsigned c) {
  return c + (a < b ? static_cast<unsigned>(b) - static_cast<unsigned>(a)
                    : static_cast<unsigned>(a) - static_cast<unsigned>(b));
}
static inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a < b ? b - a : a - b); }
// The position of the n-th bit that is set from `base` on, or down from there if n is negative.
static inline unsigned __fns(unsigned mask, unsigned base, int n) {
  const int step = n < 0 ? -1 : 1;
  if (!n) return mask >> base & 1 ? base : 0xFFFFFFFFu;
  for (int at = static_cast<int>(base), left = n * step; at >= 0 && at < 32; at += step)
    if ((mask >> at & 1) && --left == 0) return static_cast<unsigned>(at);
  return 0xFFFFFFFFu;
}
static inline unsigned umin(unsigned a, unsigned b) { return b < a ? b : a; }
static inline unsigned umax(unsigned a, unsigned b) { return a < b ? b : a; }
static inline long long llmin(long long a, long long b) { return b < a ? b : a; }
static inline long long llmax(long long a, long long b) { return a < b ? b : a; }
static inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
static inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both << (shift & 31u) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift & 31u));
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return shift < 32 ? __funnelshift_l(low, high, shift) : low;
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return shift < 32 ? __funnelshift_r(low, high, shift) : high;
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
