// Operands of mma.sync of 8-bit integers that are stored across K: rows of a tile in shared memory are places along K,
// of PITCH 16-bit items, and hold neighbouring rows of A or columns of B.
//
// ldmatrix transposes 16-bit elements, which are two neighbouring integers of one place along K here. It is given the
// addresses of such places that two of its matrices have the four along K of a lane's words, of both neighbours; the
// words are sorted by byte permutations. So the two neighbours of a pair are rows `g` and `g + 8` of a fragment of A,
// and column `g` of two fragments of B: rows and columns of the product are permuted, see `row_of` and `column_of`.
//
// A row of PITCH items is 16 bytes longer than a multiple of 32. Lanes 2 and 3 of a quad have the halves of their words
// in the other matrix, so that the eight places of each start in different banks.
__device__ __forceinline__ constexpr int row_of_pair(int pair, int second) { return 2 * pair + second; }

#ifdef AUTOTUNE_EMULATE
__device__ __forceinline__ unsigned word_across(const Item* tile, int pitch, int across, int k) {
  unsigned word = 0;
  for (int i = 0; i < 4; ++i)
    word |= static_cast<unsigned>(reinterpret_cast<const unsigned char*>(tile + (k + i) * pitch)[across]) << 8 * i;
  return word;
}
#endif

// The place along K, of 32, whose 16 neighbours a thread addresses for ldmatrix.
__device__ __forceinline__ int place_across(int lane) {
#ifdef AUTOTUNE_EMULATE
  return 0;
#else
  const int quad = lane % 8 / 2, matrix = lane / 8;
  return matrix / 2 * 16 + quad * 4 + (matrix % 2 ^ quad / 2) * 2 + lane % 2;
#endif
}

// Sorts what ldmatrix loaded into words along K.
__device__ __forceinline__ void sort_across(
    unsigned (&first)[2], unsigned (&second)[2], const unsigned (&words)[4], int lane) {
  const bool swapped = lane % 4 >= 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    first[half] = __byte_perm(words[2 * half], words[2 * half + 1], swapped ? 0x2064 : 0x6420);
    second[half] = __byte_perm(words[2 * half], words[2 * half + 1], swapped ? 0x3175 : 0x7531);
  }
}

// Loads 32 places along K of 16 neighbours at `tile`: of each half of K a word of the first of a pair and one of the
// second.
__device__ __forceinline__ void load_across(unsigned (&first)[2], unsigned (&second)[2], const Item* tile, int pitch, int lane) {
#ifdef AUTOTUNE_EMULATE
  for (int half = 0; half < 2; ++half) {
    const int k = half * 16 + lane % 4 * 4;
    first[half] = word_across(tile, pitch, row_of_pair(lane / 4, 0), k);
    second[half] = word_across(tile, pitch, row_of_pair(lane / 4, 1), k);
  }
#else
  unsigned words[4];
  ldmatrix_x4<true>(words, tile + place_across(lane) * pitch);
  sort_across(first, second, words, lane);
#endif
}

// The left operand of one mma, and the right operands of two side by side, as `load_left` and `load_right` have them.
__device__ __forceinline__ void load_left_across(unsigned (&to)[4], const Item* tile, int pitch, int lane) {
  unsigned first[2], second[2];
  load_across(first, second, tile, pitch, lane);
  to[0] = first[0], to[1] = second[0], to[2] = first[1], to[3] = second[1];
}

__device__ __forceinline__ void load_right_across(unsigned (&to)[4], const Item* tile, int pitch, int lane) {
  unsigned first[2], second[2];
  load_across(first, second, tile, pitch, lane);
  to[0] = first[0], to[1] = first[1], to[2] = second[0], to[3] = second[1];
}

// The left operand of one wgmma from a panel with the 128-byte swizzle; `at` is the address of the thread's place along K.
__device__ __forceinline__ void load_left_across(unsigned (&to)[4], unsigned at, int lane) {
#ifdef AUTOTUNE_EMULATE
  for (int r = 0; r < 4; ++r) {
    to[r] = 0;
    for (int i = 0; i < 4; ++i) {
      const int k = r / 2 * 16 + lane % 4 * 4 + i, across = row_of_pair(lane / 4, r % 2);
      const void* const byte = __cvta_shared_to_generic((at + k * 128 ^ k % 8 * 16) + across);
      to[r] |= static_cast<unsigned>(*static_cast<const unsigned char*>(byte)) << 8 * i;
    }
  }
#else
  unsigned words[4], first[2], second[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
  sort_across(first, second, words, lane);
  to[0] = first[0], to[1] = second[0], to[2] = first[1], to[3] = second[1];
#endif
}
