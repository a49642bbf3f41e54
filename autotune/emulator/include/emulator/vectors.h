// The built-in vector types and their make_ functions.
#pragma once

#define EMULATOR_VECTORS(name, base, a1, a2, a3, a4)                                         \
  struct __attribute__((aligned(a1))) name##1 { base x; };                                   \
  struct __attribute__((aligned(a2))) name##2 { base x, y; };                                \
  struct __attribute__((aligned(a3))) name##3 { base x, y, z; };                             \
  struct __attribute__((aligned(a4))) name##4 { base x, y, z, w; };                          \
  static inline name##1 make_##name##1(base x) { return {x}; }                               \
  static inline name##2 make_##name##2(base x, base y) { return {x, y}; }                    \
  static inline name##3 make_##name##3(base x, base y, base z) { return {x, y, z}; }         \
  static inline name##4 make_##name##4(base x, base y, base z, base w) { return {x, y, z, w}; }

EMULATOR_VECTORS(char, signed char, 1, 2, 1, 4)
EMULATOR_VECTORS(uchar, unsigned char, 1, 2, 1, 4)
EMULATOR_VECTORS(short, short, 2, 4, 2, 8)
EMULATOR_VECTORS(ushort, unsigned short, 2, 4, 2, 8)
EMULATOR_VECTORS(int, int, 4, 8, 4, 16)
EMULATOR_VECTORS(uint, unsigned int, 4, 8, 4, 16)
EMULATOR_VECTORS(long, long, 8, 16, 8, 16)
EMULATOR_VECTORS(ulong, unsigned long, 8, 16, 8, 16)
EMULATOR_VECTORS(longlong, long long, 8, 16, 8, 16)
EMULATOR_VECTORS(ulonglong, unsigned long long, 8, 16, 8, 16)
EMULATOR_VECTORS(float, float, 4, 8, 4, 16)
EMULATOR_VECTORS(double, double, 8, 16, 8, 16)
#undef EMULATOR_VECTORS

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};
