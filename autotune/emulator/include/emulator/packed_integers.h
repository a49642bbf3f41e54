// Arithmetic on the two halves or four bytes of a word, and sums of their products.
#pragma once

#include <stdint.h>
#include <string.h>

#include "vectors.h"

namespace emulator {

template <class Packed, class Word>
EMULATOR_QUICK Word as_word(const Packed& value) {
  Word word;
  __builtin_memcpy(&word, &value, sizeof word);
  return word;
}

// The part of a word at a bit, widened as its type is.
template <class Part>
EMULATOR_QUICK int64_t part_of(uint32_t word, int bit) {
  return static_cast<Part>(word >> bit);
}

// The sum of products of four bytes of b with four parts of a that begin at a bit.
template <class PartA, class PartB>
EMULATOR_KEPT int64_t dot(uint32_t a, uint32_t b, int parts, int first) {
  int64_t sum = 0;
  for (int i = 0; i < parts; ++i)
    sum += part_of<PartA>(a, i * static_cast<int>(sizeof(PartA)) * 8) * part_of<PartB>(b, (first + i) * 8);
  return sum;
}

EMULATOR_QUICK int64_t limited(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : most < value ? most : value;
}

}  // namespace emulator

#define EMULATOR_DOT(name, Result, A, B, parts, first)                                               \
  static inline Result name(Result a, Result b, Result c) {                                          \
    return c + static_cast<Result>(emulator::dot<A, B>(static_cast<uint32_t>(a), static_cast<uint32_t>(b), parts, first)); \
  }
#define EMULATOR_DOTS(Result, A2, A4, Pair, Quad)                                                   \
  EMULATOR_DOT(__dp4a, Result, A4, A4, 4, 0)                                                        \
  EMULATOR_DOT(__dp2a_lo, Result, A2, A4, 2, 0)                                                     \
  EMULATOR_DOT(__dp2a_hi, Result, A2, A4, 2, 2)                                                     \
  static inline Result __dp4a(const Quad& a, const Quad& b, Result c) {                             \
    return __dp4a(emulator::as_word<Quad, Result>(a), emulator::as_word<Quad, Result>(b), c);       \
  }                                                                                                 \
  static inline Result __dp2a_lo(const Pair& a, const Quad& b, Result c) {                          \
    return __dp2a_lo(emulator::as_word<Pair, Result>(a), emulator::as_word<Quad, Result>(b), c);    \
  }                                                                                                 \
  static inline Result __dp2a_hi(const Pair& a, const Quad& b, Result c) {                          \
    return __dp2a_hi(emulator::as_word<Pair, Result>(a), emulator::as_word<Quad, Result>(b), c);    \
  }
EMULATOR_DOTS(int, int16_t, int8_t, short2, char4)
EMULATOR_DOTS(unsigned, uint16_t, uint8_t, ushort2, uchar4)
#undef EMULATOR_DOTS
#undef EMULATOR_DOT

// In each x and y are the parts of both words, `least` and `most` the limits of their type.
#define EMULATOR_PARTS(name, Part, expression)                                                       \
  static inline unsigned name(unsigned a, unsigned b) {                                              \
    constexpr int bits = sizeof(Part) * 8;                                                           \
    [[maybe_unused]] constexpr int64_t most = (1 << (bits - (Part(-1) < 0))) - 1,                    \
                                       least = Part(-1) < 0 ? -most - 1 : 0;                         \
    unsigned result = 0;                                                                             \
    for (int bit = 0; bit < 32; bit += bits) {                                                       \
      [[maybe_unused]] const int64_t x = emulator::part_of<Part>(a, bit), y = emulator::part_of<Part>(b, bit); \
      result |= (static_cast<uint32_t>(expression) & ((1u << bits) - 1)) << bit;                     \
    }                                                                                                \
    return result;                                                                                   \
  }
#define EMULATOR_OF_BOTH(name, suffix, Signed, expression) \
  EMULATOR_PARTS(name##suffix##2, Signed##16_t, expression) EMULATOR_PARTS(name##suffix##4, Signed##8_t, expression)
#define EMULATOR_OF_ALL(name, expression) \
  EMULATOR_OF_BOTH(name, s, int, expression) EMULATOR_OF_BOTH(name, u, uint, expression)
EMULATOR_OF_BOTH(__vadd, , uint, x + y)
EMULATOR_OF_BOTH(__vsub, , uint, x - y)
EMULATOR_OF_BOTH(__vadd, ss, int, emulator::limited(x + y, least, most))
EMULATOR_OF_BOTH(__vadd, us, uint, emulator::limited(x + y, least, most))
EMULATOR_OF_BOTH(__vsub, ss, int, emulator::limited(x - y, least, most))
EMULATOR_OF_BOTH(__vsub, us, uint, emulator::limited(x - y, least, most))
EMULATOR_OF_ALL(__vmax, x < y ? y : x)
EMULATOR_OF_ALL(__vmin, y < x ? y : x)
EMULATOR_OF_ALL(__vabsdiff, x < y ? y - x : x - y)
EMULATOR_OF_BOTH(__vavg, u, uint, (x + y + 1) >> 1)
EMULATOR_OF_BOTH(__vavg, s, int, (x + y + (x + y >= 0)) >> 1)  // away from zero
EMULATOR_OF_BOTH(__vhadd, u, uint, (x + y) >> 1)
EMULATOR_OF_BOTH(__vcmp, eq, uint, x == y ? -1 : 0)
EMULATOR_OF_BOTH(__vcmp, ne, uint, x != y ? -1 : 0)
EMULATOR_OF_ALL(__vcmpgt, x > y ? -1 : 0)
EMULATOR_OF_ALL(__vcmpge, x >= y ? -1 : 0)
EMULATOR_OF_ALL(__vcmplt, x < y ? -1 : 0)
EMULATOR_OF_ALL(__vcmple, x <= y ? -1 : 0)
EMULATOR_OF_BOTH(__vset, eq, uint, x == y)
EMULATOR_OF_BOTH(__vset, ne, uint, x != y)
EMULATOR_OF_ALL(__vsetgt, x > y)
EMULATOR_OF_ALL(__vsetge, x >= y)
EMULATOR_OF_ALL(__vsetlt, x < y)
EMULATOR_OF_ALL(__vsetle, x <= y)
#undef EMULATOR_OF_ALL
#undef EMULATOR_OF_BOTH
#undef EMULATOR_PARTS
static inline unsigned __vneg2(unsigned a) { return __vsub2(0, a); }
static inline unsigned __vneg4(unsigned a) { return __vsub4(0, a); }
static inline unsigned __vabs2(unsigned a) { return __vmaxs2(a, __vneg2(a)); }
static inline unsigned __vabs4(unsigned a) { return __vmaxs4(a, __vneg4(a)); }
static inline unsigned __vnegss2(unsigned a) { return __vsubss2(0, a); }
static inline unsigned __vnegss4(unsigned a) { return __vsubss4(0, a); }
static inline unsigned __vabsss2(unsigned a) { return __vmaxs2(a, __vnegss2(a)); }
static inline unsigned __vabsss4(unsigned a) { return __vmaxs4(a, __vnegss4(a)); }
static inline unsigned __vsads2(unsigned a, unsigned b) {
  const unsigned apart = __vabsdiffs2(a, b);
  return (apart & 0xffff) + (apart >> 16);
}
static inline unsigned __vsadu2(unsigned a, unsigned b) {
  const unsigned apart = __vabsdiffu2(a, b);
  return (apart & 0xffff) + (apart >> 16);
}
static inline unsigned __vsads4(unsigned a, unsigned b) { return __dp4a(__vabsdiffs4(a, b), 0x01010101u, 0u); }
static inline unsigned __vsadu4(unsigned a, unsigned b) { return __dp4a(__vabsdiffu4(a, b), 0x01010101u, 0u); }
