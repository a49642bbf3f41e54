// 8-bit integers in place of the floats of elements.h and raw_elements.h: with a sign (ELEMENT 3) or without (4). Arithmetic is in float32, which is
// exact for integers up to 2^24. Results are sums of 32 bits, or with OPERATION (pooling) of 8 bits, rounded to nearest
// even.
#if ELEMENT == 3
typedef signed char Element;
constexpr unsigned SIGNS = 0x80808080u;
#else
typedef unsigned char Element;
constexpr unsigned SIGNS = 0;
#endif
#if OPERATION == 0
typedef int Result;
#else
typedef Element Result;
#endif
// Words of 32 bits in which `count` neighbours are loaded; one or two are in the lower bytes of one.
#define WORDS(count) ((count) > 4 ? (count) / 4 : 1)

template <int COUNT>
__device__ __forceinline__ void load_words(float (&to)[WORDS(COUNT)], const Element* from) {
  if (COUNT == 1) {
    to[0] = __uint_as_float(*reinterpret_cast<const unsigned char*>(from));
  } else if (COUNT == 2) {
    to[0] = __uint_as_float(*reinterpret_cast<const unsigned short*>(from));
  } else {
    constexpr int STEP = WORDS(COUNT) < 4 ? WORDS(COUNT) : 4;
#pragma unroll
    for (int i = 0; i < WORDS(COUNT); i += STEP) load_vector<STEP>(to + i, reinterpret_cast<const float*>(from) + i);
  }
}

// Returns element `i` of COUNT in such words. With its sign flipped a byte is the number + 128; below the exponent of 2^23
// it is the last bits of 2^23 + 128 + the number: two instructions, where conversions have a quarter of their rate.
template <int COUNT>
__device__ __forceinline__ float element_of_words(const float (&words)[WORDS(COUNT)], int i) {
  const unsigned flipped = __float_as_uint(words[i / 4]) ^ SIGNS;
  return __uint_as_float(__byte_perm(flipped, 0x4b000000u, 0x7440u | i % 4)) - (ELEMENT == 3 ? 8388736.0f : 8388608.0f);
}

template <int COUNT>
__device__ __forceinline__ void load_elements(float (&to)[COUNT], const Element* from) {
  float words[WORDS(COUNT)];
  load_words<COUNT>(words, from);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) to[i] = element_of_words<COUNT>(words, i);
}

// Stores COUNT neighbours in vectors of at most 16 bytes, to whose size the address is aligned.
template <int COUNT>
__device__ __forceinline__ void store_results(int* to, const float (&from)[COUNT]) {
  constexpr int STEP = COUNT < 4 ? COUNT : 4;
  float words[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) words[i] = __int_as_float(__float2int_rn(from[i]));
#pragma unroll
  for (int i = 0; i < COUNT; i += STEP) store_vector<STEP>(reinterpret_cast<float*>(to) + i, words + i);
}

template <int COUNT>
__device__ __forceinline__ void store_results(Element* to, const float (&from)[COUNT]) {
  unsigned words[WORDS(COUNT)] = {};
#pragma unroll
  for (int i = 0; i < COUNT; ++i) words[i / 4] |= (__float2int_rn(from[i]) & 0xffu) << i % 4 * 8;
  if (COUNT == 1) {
    *to = static_cast<Element>(words[0]);
  } else if (COUNT == 2) {
    *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(words[0]);
  } else {
    constexpr int STEP = WORDS(COUNT) < 4 ? WORDS(COUNT) : 4;
    float vectors[WORDS(COUNT)];
#pragma unroll
    for (int i = 0; i < WORDS(COUNT); ++i) vectors[i] = __uint_as_float(words[i]);
#pragma unroll
    for (int i = 0; i < WORDS(COUNT); i += STEP) store_vector<STEP>(reinterpret_cast<float*>(to) + i, vectors + i);
  }
}
