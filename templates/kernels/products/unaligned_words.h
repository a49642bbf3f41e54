// Words of four 8-bit integers from any address: of two words of memory what belongs to it. Arrays start at multiples of
// 4. The last bytes of one whose size is no such multiple are loaded one by one, so that nothing beyond it is read.
template <size_t SIZE>
__device__ __forceinline__ unsigned last_integers(const signed char* array) {
  constexpr int LEFT = SIZE % 4;
  unsigned rest = 0;
#pragma unroll
  for (int i = 0; i < LEFT; ++i)
    rest |= static_cast<unsigned>(static_cast<unsigned char>(array[SIZE - LEFT + i])) << 8 * i;
  return rest;
}

// Whether words of a row may reach beyond the array: of the rows of an array, those of one integer share its last word.
__device__ __forceinline__ constexpr bool is_last(int length, int row, int rows) {
  return length > 1 ? row == rows - 1 : row >= rows / 4 * 4;
}

// A place of a row in memory.
struct Place {
  const signed char* at;
  int index;    // in the row
  int start;    // bytes behind a multiple of 4
  bool exists;  // else zeros are loaded
  bool last;    // whether it is the array's last row, or shares its last word
};

// Loads WORDS words of a row of LENGTH; of those that reach beyond it the rest is not defined. `rest` is what
// `last_integers` returns of the array of SIZE bytes.
template <size_t SIZE, int LENGTH, int WORDS>
__device__ __forceinline__ void load_unaligned(unsigned (&to)[WORDS], const Place& from, unsigned rest) {
  unsigned word[WORDS + 1];
#pragma unroll
  for (int i = 0; i <= WORDS; ++i) {
    const int begin = from.index - from.start + i * 4;
    const bool needed = from.exists && begin < LENGTH && (i < WORDS || from.start > 0);
    const bool whole = SIZE % 4 == 0 || !from.last || begin + 4 <= LENGTH;
    const unsigned* const at = reinterpret_cast<const unsigned*>(from.at - from.start) + i;
    word[i] = !needed ? 0 : whole ? __ldg(at) : rest;
  }
#pragma unroll
  for (int i = 0; i < WORDS; ++i)
    to[i] = from.start > 0 ? __funnelshift_r(word[i], word[i + 1], from.start * 8) : word[i];
}
