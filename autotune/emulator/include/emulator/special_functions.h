// Functions of real numbers that CUDA has and the C library does not. They are computed in double, and
// are templates because a newer C library may have them, which is then preferred.
#pragma once

#include <math.h>

namespace emulator {

inline constexpr double pi = 3.14159265358979323846, root_half = 0.70710678118654752440;

// sin(pi v), exact where it is zero.
EMULATOR_KEPT inline double sine_of_turns(double v) {
  double rest = remainder(v, 2.0);
  if (fabs(rest) > 0.5) rest = copysign(1.0, rest) - rest;
  return sin(rest * pi);
}
EMULATOR_KEPT inline double cosine_of_turns(double v) { return sine_of_turns(0.5 - fabs(remainder(v, 2.0))); }

// By Halley's method, from the estimate 26.2.22 of Abramowitz and Stegun, "Handbook of Mathematical
// Functions".
EMULATOR_KEPT inline double inverse_erfc(double x) {
  if (x > 1) return -inverse_erfc(2 - x);
  if (x <= 0) return x < 0 ? static_cast<double>(NAN) : static_cast<double>(INFINITY);
  const double t = sqrt(-2 * log(x / 2));
  double y = root_half * (t - (2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481)));
  for (int i = 0; i < 3; ++i) {
    const double error = erfc(y) - x;
    y += error / (2 / sqrt(pi) * exp(-y * y) - y * error);
  }
  return y;
}
EMULATOR_KEPT inline double inverse_erf(double x) {
  const double y = inverse_erfc(1 - fabs(x)), slope = 2 / sqrt(pi) * exp(-y * y);
  return copysign(slope > 0 ? y - (erf(y) - fabs(x)) / slope : y, x);
}
EMULATOR_KEPT inline double scaled_erfc(double x) {
  if (x < 25) return exp(x * x) * erfc(x);
  const double square = 1 / (x * x);  // DLMF 7.12.1
  double sum = 1;
  for (int i = 5; i > 0; --i) sum = 1 - square * (i - 0.5) * sum;
  return sum / (x * sqrt(pi));
}
// The integral DLMF 10.32.3; the sum converges faster than any power of the step.
EMULATOR_KEPT inline double modified_bessel(int order, double x) {
  constexpr int steps = 512;
  double sum = 0;
  for (int i = 0; i < steps; ++i) {
    const double angle = (i + 0.5) * pi / steps;
    sum += exp(x * cos(angle)) * cos(order * angle);
  }
  return sum / steps;
}

}  // namespace emulator

#define EMULATOR_FUNCTION(name, parameters, parameters_of_floats, expression)                       \
  template <class = void> static inline double name parameters { return expression; }               \
  template <class = void> static inline float name##f parameters_of_floats {                        \
    return static_cast<float>(expression);                                                          \
  }
#define EMULATOR_FUNCTION_1(name, expression) EMULATOR_FUNCTION(name, (double v), (float v), expression)
#define EMULATOR_FUNCTION_3(name, expression) \
  EMULATOR_FUNCTION(name, (double a, double b, double c), (float a, float b, float c), expression)
#define EMULATOR_FUNCTION_4(name, expression)                                                \
  EMULATOR_FUNCTION(name, (double a, double b, double c, double d),                          \
                    (float a, float b, float c, float d), expression)
EMULATOR_FUNCTION_1(rsqrt, 1 / sqrt(v))
EMULATOR_FUNCTION_1(rcbrt, 1 / cbrt(v))
EMULATOR_FUNCTION_1(sinpi, emulator::sine_of_turns(v))
EMULATOR_FUNCTION_1(cospi, emulator::cosine_of_turns(v))
EMULATOR_FUNCTION_1(erfcinv, emulator::inverse_erfc(v))
EMULATOR_FUNCTION_1(erfinv, emulator::inverse_erf(v))
EMULATOR_FUNCTION_1(erfcx, emulator::scaled_erfc(v))
EMULATOR_FUNCTION_1(normcdf, 0.5 * erfc(-v * emulator::root_half))
EMULATOR_FUNCTION_1(normcdfinv, -emulator::inverse_erfc(2.0 * v) / emulator::root_half)
EMULATOR_FUNCTION_1(cyl_bessel_i0, emulator::modified_bessel(0, v))
EMULATOR_FUNCTION_1(cyl_bessel_i1, emulator::modified_bessel(1, v))
EMULATOR_FUNCTION(rhypot, (double a, double b), (float a, float b), 1 / hypot(a, b))
EMULATOR_FUNCTION_3(norm3d, hypot(hypot(a, b), c))
EMULATOR_FUNCTION_3(rnorm3d, 1 / hypot(hypot(a, b), c))
EMULATOR_FUNCTION_4(norm4d, hypot(hypot(a, b), hypot(c, d)))
EMULATOR_FUNCTION_4(rnorm4d, 1 / hypot(hypot(a, b), hypot(c, d)))
#undef EMULATOR_FUNCTION_4
#undef EMULATOR_FUNCTION_3
#undef EMULATOR_FUNCTION_1
#undef EMULATOR_FUNCTION
static inline float rsqrt(float v) { return rsqrtf(v); }
template <class = void> static inline void sincospi(double v, double* sine, double* cosine) {
  *sine = emulator::sine_of_turns(v), *cosine = emulator::cosine_of_turns(v);
}
template <class = void> static inline void sincospif(float v, float* sine, float* cosine) {
  *sine = static_cast<float>(emulator::sine_of_turns(v));
  *cosine = static_cast<float>(emulator::cosine_of_turns(v));
}
