// Elements of arrays as floats: ELEMENT 0 is float32, 1 float16, 2 bfloat16. Arithmetic is in float32.
#if ELEMENT == 0
typedef float Element;
#else
typedef unsigned short Element;
#ifdef AUTOTUNE_EMULATE
#include <cuda_fp16.h>
#endif

__device__ __forceinline__ float float_of_element(unsigned bits) {
#if ELEMENT == 2
  return __uint_as_float(bits << 16);
#elif defined(AUTOTUNE_EMULATE)
  const Element narrow = static_cast<Element>(bits);
  return __half2float(*reinterpret_cast<const __half*>(&narrow));
#else
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<Element>(bits)));
  return value;
#endif
}

__device__ __forceinline__ unsigned element_of_float(float value) {
#if ELEMENT == 2 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(AUTOTUNE_EMULATE)
  Element bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#elif ELEMENT == 2
  // Rounds to nearest even; NaN stays NaN.
  const unsigned bits = __float_as_uint(value);
  return value != value ? 0x7fc0u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
#elif defined(AUTOTUNE_EMULATE)
  const __half narrow = __float2half(value);
  return *reinterpret_cast<const Element*>(&narrow);
#else
  Element bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#endif
}
#endif

// Loads COUNT neighbours in vectors of at most 16 bytes, to whose size the address is aligned.
template <int COUNT>
__device__ __forceinline__ void load_elements(float (&to)[COUNT], const Element* from) {
#if ELEMENT == 0
  constexpr int STEP = COUNT < 4 ? COUNT : 4;
#pragma unroll
  for (int i = 0; i < COUNT; i += STEP) load_vector<STEP>(to + i, from + i);
#else
  if (COUNT == 1) {
    to[0] = float_of_element(from[0]);
  } else {
    constexpr int WORDS = COUNT > 1 ? COUNT / 2 : 1, STEP = WORDS < 4 ? WORDS : 4;
    float words[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; i += STEP)
      load_vector<STEP>(words + i, reinterpret_cast<const float*>(from) + i);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const unsigned word = __float_as_uint(words[i / 2]);
      to[i] = float_of_element(i % 2 ? word >> 16 : word & 0xffffu);
    }
  }
#endif
}

// Stores COUNT neighbours in the same vectors.
template <int COUNT>
__device__ __forceinline__ void store_elements(Element* to, const float (&from)[COUNT]) {
#if ELEMENT == 0
  constexpr int STEP = COUNT < 4 ? COUNT : 4;
#pragma unroll
  for (int i = 0; i < COUNT; i += STEP) store_vector<STEP>(to + i, from + i);
#else
  if (COUNT == 1) {
    to[0] = static_cast<Element>(element_of_float(from[0]));
  } else {
    constexpr int WORDS = COUNT > 1 ? COUNT / 2 : 1, STEP = WORDS < 4 ? WORDS : 4;
    float words[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; ++i)
      words[i] = __uint_as_float(element_of_float(from[2 * i < COUNT ? 2 * i : 0]) |
                                 element_of_float(from[2 * i + 1 < COUNT ? 2 * i + 1 : 0]) << 16);
#pragma unroll
    for (int i = 0; i < WORDS; i += STEP)
      store_vector<STEP>(reinterpret_cast<float*>(to) + i, words + i);
  }
#endif
}
