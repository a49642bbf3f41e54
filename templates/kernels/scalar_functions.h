// Functions of one float or two that expressions may have besides those of generated code, without branches.
#include <math.h>
#define INLINED static inline __attribute__((always_inline))

INLINED float rsqrt(float v) { return 1.0f / sqrtf(v); }
// Results are NaN where an operand is.
INLINED float relu(float v) { return select_f32(v < 0.0f, 0.0f, v); }
INLINED float larger(float a, float b) { return select_f32((a > b) | (a != a), a, b); }
INLINED float smaller(float a, float b) { return select_f32((a < b) | (a != a), a, b); }
INLINED float gelu(float v) { return 0.5f * v * (1.0f + erf_f32(v * 0.70710678f)); }
