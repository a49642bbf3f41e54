// exp(x) for x <= 0: 2^n times a polynomial of the reduced argument, to about 1e-7; 0 below -87.3, where results are
// denormal, as for masked elements. The library's expf does not vectorise without -ffast-math.
INLINED vec power(const vec x) {
  // Adding 1.5 * 2^23, whose last bit has the weight 1, rounds to an integer, which is in the last bits of the sum.
  const vec round = (vec){0} + 12582912.0f, shifted = x * 1.44269504f + round, n = shifted - round;
  const vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  vec p = r * 1.98412698e-4f + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // Multiplied, not added to the exponent: a NaN stays one, whatever its other bits are.
  const vec scaled = p * (vec)(((bits)shifted << 23) + 0x3f800000);
  return (vec)((bits)scaled & ~(x < -87.3f));
}
