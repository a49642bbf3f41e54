// Loads of weights that are larger than the L2 cache. Where all are loaded alike they evict each other, and a run finds
// none of the run before. So those of RESIDENT_256THS of the units (rows, blocks) are loaded as usual, and stay, and the
// others evict first (ld.global.cs), in each other's place: thrash-resistant insertion (Qureshi et al., "Adaptive
// insertion policies for high performance caching", ISCA 2007). With 256 of 256 all loads are usual ones.

// Whether the weights of a unit are to stay; units that do are spread evenly.
__device__ __forceinline__ bool is_resident(unsigned unit) {
  return RESIDENT_256THS >= 256 || unit * RESIDENT_256THS % 256u < RESIDENT_256THS;
}

template <bool RESIDENT_HERE, class Word>
__device__ __forceinline__ Word load_weight(const Word* from) {
  return RESIDENT_HERE ? __ldg(from) : __ldcs(from);
}

template <int BYTES> struct WordOf;
template <> struct WordOf<2> { typedef unsigned short type; };
template <> struct WordOf<4> { typedef unsigned type; };
template <> struct WordOf<8> { typedef uint2 type; };
template <> struct WordOf<16> { typedef uint4 type; };

// Loads COUNT neighbours evict first, in vectors of at most 16 bytes, to whose size both addresses are aligned.
template <int COUNT, class Item>
__device__ __forceinline__ void load_evict_first(Item* to, const Item* from) {
  constexpr int BYTES = COUNT * sizeof(Item), STEP = BYTES < 16 ? BYTES : 16;
  typedef typename WordOf<STEP>::type Word;
#pragma unroll
  for (int i = 0; i < BYTES / STEP; ++i)
    reinterpret_cast<Word*>(to)[i] = __ldcs(reinterpret_cast<const Word*>(from) + i);
}
