#include <stdint.h>
#include <string.h>

static inline __attribute__((always_inline)) float bf16_to_float(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static inline __attribute__((always_inline)) uint16_t float_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

void add_bfloat_c(const uint16_t* restrict A, const uint16_t* restrict B, uint16_t* restrict C) {
  for (int i = 0; i < 1024; ++i) {
    C[i] = float_to_bf16(bf16_to_float(A[i]) + bf16_to_float(B[i]));
  }
}
