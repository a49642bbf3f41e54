// Complex numbers as pairs, as cuComplex.h of the toolkit has them.
#pragma once

#include "autotune_emulator.h"

#define EMULATOR_COMPLEX(Name, Pair, T, letter)                                                   \
  typedef Pair Name;                                                                                 \
  static inline Name make_##Name(T x, T y) { return {x, y}; }                                        \
  static inline T cuCreal##letter(const Name& a) { return a.x; }                                     \
  static inline T cuCimag##letter(const Name& a) { return a.y; }                                     \
  static inline Name cuConj##letter(const Name& a) { return {a.x, -a.y}; }                           \
  static inline Name cuCadd##letter(const Name& a, const Name& b) { return {a.x + b.x, a.y + b.y}; } \
  static inline Name cuCsub##letter(const Name& a, const Name& b) { return {a.x - b.x, a.y - b.y}; } \
  static inline Name cuCmul##letter(const Name& a, const Name& b) {                                  \
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};                                           \
  }                                                                                                  \
  static inline Name cuCfma##letter(const Name& a, const Name& b, const Name& c) {                   \
    return cuCadd##letter(cuCmul##letter(a, b), c);                                                  \
  }                                                                                                  \
  static inline Name cuCdiv##letter(const Name& a, const Name& b) {                                  \
    const T scale = 1 / (fabs(b.x) + fabs(b.y));                                                 \
    const T ax = a.x * scale, ay = a.y * scale, bx = b.x * scale, by = b.y * scale;                  \
    const T inverse = 1 / (bx * bx + by * by);                                                       \
    return {(ax * bx + ay * by) * inverse, (ay * bx - ax * by) * inverse};                           \
  }                                                                                                  \
  static inline T cuCabs##letter(const Name& a) { return static_cast<T>(hypot(a.x, a.y)); }
EMULATOR_COMPLEX(cuFloatComplex, float2, float, f)
EMULATOR_COMPLEX(cuDoubleComplex, double2, double, )
#undef EMULATOR_COMPLEX
typedef cuFloatComplex cuComplex;
static inline cuComplex make_cuComplex(float x, float y) { return {x, y}; }
static inline cuDoubleComplex cuComplexFloatToDouble(const cuFloatComplex& a) { return {a.x, a.y}; }
static inline cuFloatComplex cuComplexDoubleToFloat(const cuDoubleComplex& a) {
  return {static_cast<float>(a.x), static_cast<float>(a.y)};
}
