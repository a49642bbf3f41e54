// Elements (elements.h) as they are in memory, in 32-bit words: a float, two 16-bit floats, or one alone in the lower half.
// What is loaded under a condition stays a word until it is used: a conversion under that condition would follow each
// load, and the next load would wait for both.
#if ELEMENT == 0
#define WORDS(count) (count)
#else
#define WORDS(count) ((count) > 1 ? (count) / 2 : 1)
#endif

// Loads COUNT neighbours in vectors of at most 16 bytes, to whose size the address is aligned.
template <int COUNT>
__device__ __forceinline__ void load_words(float (&to)[WORDS(COUNT)], const Element* from) {
#if ELEMENT != 0
  if (COUNT == 1) {
    to[0] = __uint_as_float(from[0]);
    return;
  }
#endif
  constexpr int STEP = WORDS(COUNT) < 4 ? WORDS(COUNT) : 4;
#pragma unroll
  for (int i = 0; i < WORDS(COUNT); i += STEP) load_vector<STEP>(to + i, reinterpret_cast<const float*>(from) + i);
}

// Returns element `i` of COUNT in such words.
template <int COUNT>
__device__ __forceinline__ float element_of_words(const float (&words)[WORDS(COUNT)], int i) {
#if ELEMENT == 0
  return words[i];
#else
  const unsigned word = __float_as_uint(words[i / 2]);
  return float_of_element(i % 2 ? word >> 16 : word & 0xffffu);
#endif
}
