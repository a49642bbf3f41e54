"""The C types, and the helper functions for error bounds, that the source of a reference uses.

`autotune.measure.check.rounding` has the rules.
"""

from __future__ import annotations

C_TYPES = {
    "bool": "uint8_t", "float16": "double", "bfloat16": "double", "float32": "double",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def memory_type(dtype: str) -> str:
    """Return the C type of the elements of an input; 16-bit floats come as float32."""
    return "float" if dtype == "float32" else C_TYPES[dtype]


HELPERS = """\
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static inline double known(double e) { return e == e ? e : INFINITY; }
/* Values of which one is not finite stay as they are: there is nothing to round. */
static inline double round_off(double z, double u, double tiny) {
  double e = u * fabs(z) + tiny;
  return e < INFINITY ? e : 0.0;
}
static inline double within(double z, double e, double most) {
  return fabs(z) <= DBL_MAX && fabs(z) + e > most ? INFINITY : known(e);
}
/* The larger error of a function at the two ends of its argument. */
static inline double ends(double z, double low, double high) {
  double a = fabs(low - z), b = fabs(high - z);
  return z == z ? known(a > b || a != a ? a : b) : 0.0;
}
static inline double bound_mul(double x, double ex, double y, double ey) {
  return known((ey > 0 ? fabs(x) * ey : 0) + (ex > 0 ? fabs(y) * ex + ex * ey : 0));
}
static inline double bound_div(double z, double ex, double y, double ey) {
  if (ex == 0 && ey == 0) return 0;
  return fabs(y) > ey ? known((ex + fabs(z) * ey) / (fabs(y) - ey)) : INFINITY;
}
static inline double bound_tan(double z, double x, double e) {
  double low = tan(x - e), high = tan(x + e);
  return e < 1 && low <= high ? ends(z, low, high) : INFINITY;
}
static inline double bound_cosh(double z, double x, double e) { return cosh(fabs(x) + e) - z; }
static inline double bound_atan2(double y, double ey, double x, double ex) {
  double r = hypot(x, y), e = ex + ey;
  return e == 0 ? 0 : r > e ? e / (r - e) : 2 * M_PI;
}
static inline double bound_pow(double z, double x, double ex, double y, double ey) {
  double a = ends(z, pow(x - ex, y - ey), pow(x + ex, y - ey));
  double b = ends(z, pow(x - ex, y + ey), pow(x + ex, y + ey));
  return ex == 0 && ey == 0 ? 0 : a > b ? a : b;
}
static inline double bound_fmod(double x, double ex, double y, double ey) {
  if (ex == 0 && ey == 0) return 0;
  double low = (fabs(x) - ex) / (fabs(y) + ey), high = (fabs(x) + ex) / (fabs(y) - ey);
  if (!(fabs(y) > ey) || low < 0 || trunc(low) != trunc(high)) return fabs(y) + ey;
  return ex + trunc(low) * ey;
}
static inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t floor_mod(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r + (r != 0 && (r < 0) != (b < 0) ? b : 0);
}
"""
