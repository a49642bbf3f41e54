// Loads the left operand of an implicit GEMM from NHWC images by TMA in im2col mode (sm_90a). A row of a box is an
// output pixel, counted through all images, and has 128 bytes of channels of one filter tap. Elements outside of an
// image, pixels beyond the last image, and channels beyond the last are filled with zeros: a tap has TAP_RUN elements of
// K, whole boxes.
//
// im2col tensor maps leave no dimension to encode an address in (tma.h), so each block writes a map of its own to
// global memory, with the address that it was given, and fences it for the tensor map proxy.
#if CONV
// The input position of the first tap of an output pixel: column, row and image.
struct Position {
  int x, y, image;
};

__device__ __forceinline__ Position position_of(int m) {
  return {m % OW * SX - PX, m / OW % OH * SY - PY, m / (OH * OW)};
}

#ifdef AUTOTUNE_EMULATE
static inline TensorMap* own_map(TensorMap*, const Item* images) {
  return reinterpret_cast<TensorMap*>(const_cast<Item*>(images));
}

static inline void write_map(TensorMap*, const TensorMap&, const Item*) {}

// Copies as TMA does; here the pointer to the map is the address of the images.
template <int PIXELS>
static inline void load_im2col(
    unsigned to, const TensorMap* map, int channel, Position first, int x, int y, unsigned barrier) {
  const Item* const images = reinterpret_cast<const Item*>(map);
  char* const begin = static_cast<char*>(__cvta_shared_to_generic(to));
  Position position = first;
  for (int row = 0; row < PIXELS; ++row) {
    const int column = position.x + x, line = position.y + y;
    const bool exists = position.image < IMAGES && column >= 0 && column < IW && line >= 0 && line < IH;
    const Item* const from = images + ((static_cast<size_t>(position.image) * IH + line) * IW + column) * CI + channel;
    for (int j = 0; j < PANEL; ++j)
      *reinterpret_cast<Item*>(begin + row * 128 + (j * sizeof(Item) ^ row % 8 * 16)) =
          exists && channel + j < CI ? from[j] : Item(0);
    position.x += SX;
    if (position.x < OW * SX - PX) continue;
    position.x = -PX, position.y += SY;
    if (position.y < OH * SY - PY) continue;
    position.y = -PY, ++position.image;
  }
  barrier_complete_tx(barrier, PIXELS * 128);
}

template <int BLOCKS>
static inline void tma_load_of_several(
    unsigned to, const TensorMap& map, const Item* matrices, int column, int row, int number, unsigned full,
    unsigned = 0) {
  const size_t size = static_cast<size_t>(map.words[4]) * 16 / sizeof(Item);
  assert(number <= static_cast<int>(map.words[10]));
  tma_load<BLOCKS>(to, map, matrices + number * size, column, row, full);
}

#else
// Returns this block's map; maps are aligned to 128 bytes.
__device__ __forceinline__ TensorMap* own_map(TensorMap* maps, const Item*) {
  const unsigned long long begin = (reinterpret_cast<unsigned long long>(maps) + 127) / 128 * 128;
  return reinterpret_cast<TensorMap*>(begin) + blockIdx.z * gridDim.x + blockIdx.x;
}

// Writes a map with the address of the images, and makes it visible to the tensor map proxy.
__device__ __forceinline__ void write_map(TensorMap* own, const TensorMap& map, const Item* images) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(images);
  uint4* const to = reinterpret_cast<uint4*>(own);
  const unsigned* const words = map.words;
  to[0] = make_uint4(static_cast<unsigned>(address), static_cast<unsigned>(address >> 32), words[2], words[3]);
#pragma unroll
  for (int i = 1; i < 8; ++i) to[i] = make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
  asm volatile(
      "fence.proxy.tensormap::generic.release.gpu;\n"
      "fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(own)
      : "memory");
}

// Loads the box at `column` and `row` of one of several matrices, whose map has one dimension more (tma.h).
template <int BLOCKS>
__device__ __forceinline__ void tma_load_of_several(
    unsigned to, const TensorMap& map, const void* matrices, int column, int row, int number, unsigned barrier,
    unsigned blocks = (1 << BLOCKS) - 1) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(matrices);
  const int low = static_cast<int>(address >> 4 & 0xfffffff), high = static_cast<int>(address >> 32);
  if (BLOCKS == 1)
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to),
        "l"(&map), "r"(column), "r"(row), "r"(number), "r"(low), "r"(high), "r"(barrier)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(to),
        "l"(&map), "r"(column), "r"(row), "r"(number), "r"(low), "r"(high), "r"(barrier),
        "h"(static_cast<unsigned short>(blocks))
        : "memory");
}

// Issues the load of a box: channels from `channel` on of the tap at offset (x, y), of PIXELS output pixels from
// `first` on.
template <int PIXELS>
__device__ __forceinline__ void load_im2col(
    unsigned to, const TensorMap* map, int channel, Position first, int x, int y, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
      "l"(map), "r"(channel), "r"(first.x), "r"(first.y), "r"(first.image), "r"(barrier),
      "h"(static_cast<unsigned short>(x)), "h"(static_cast<unsigned short>(y))
      : "memory");
}
#endif

// Returns the first input channel of the group that has filter `co`. With GROUP_CO a product has the filters of all
// groups, and a tile those of one, whose channels its pixels have; or those of JOINED groups, which fill a box together.
__device__ __forceinline__ int first_channel(int co) {
#ifdef GROUP_CO
  return co / (GROUP_CO * JOINED) * (GROUP_CI * JOINED);
#else
  return 0;
#endif
}

// Issues the loads of the K tile from `k` on, of PIXELS output pixels from `m` on; a tap begins at channel `first_of_tap`.
template <int PIXELS>
__device__ __forceinline__ void load_im2col_k_tile(
    unsigned to, const TensorMap* map, int m, int first_of_tap, int k, unsigned barrier) {
  const Position first = position_of(m);
#pragma unroll
  for (int i = 0; i < CHUNK; i += PANEL) {
    const int tap = (k + i) / TAP_RUN, channel = first_of_tap + (k + i) % TAP_RUN;
    load_im2col<PIXELS>(to + i / PANEL * (PIXELS * 128), map, channel, first, tap % KW * DX, tap / KW * DY, barrier);
  }
}
#endif
