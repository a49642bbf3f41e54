// Copies of windows of NHWC images by Hopper's bulk copy engine in its mode "im2col" (sm_90a): of pixels of the result,
// which are counted through all images, the channels that fill 128 bytes of one tap of their windows, a row each. What
// lies outside of an image becomes 0, and so does what is asked for of images behind the last.
//
// Maps of this mode have no dimensions to spare for an address (bulk.h), so a block writes one of its own to memory, with
// the address that it was given, and shows it to the engine.
#if CONV
// Where the window of a pixel of the result begins: column and row, of which image.
struct Window {
  int x, y, image;
};

__device__ __forceinline__ Window window_of(int m) {
  return {m % OW * SX - PX, m / OW % OH * SY - PY, m / (OH * OW)};
}

#ifdef AUTOTUNE_EMULATE
static inline TensorMap* own_map(TensorMap*, const Item* images) {
  return reinterpret_cast<TensorMap*>(const_cast<Item*>(images));
}

static inline void write_map(TensorMap*, const TensorMap&, const Item*) {}

// Copies as the engine does, of the images at the address that the map stands for here.
template <int PIXELS>
static inline void copy_windows(
    unsigned to, const TensorMap* map, int channel, Window first, int x, int y, unsigned) {
  const Item* const images = reinterpret_cast<const Item*>(map);
  char* const begin = static_cast<char*>(__cvta_shared_to_generic(to));
  Window window = first;
  for (int row = 0; row < PIXELS; ++row) {
    const int column = window.x + x, line = window.y + y;
    const bool exists = window.image < IMAGES && column >= 0 && column < IW && line >= 0 && line < IH;
    const Item* const from = images + ((static_cast<size_t>(window.image) * IH + line) * IW + column) * CI + channel;
    for (int j = 0; j < PANEL; ++j)
      *reinterpret_cast<Item*>(begin + row * 128 + (j * sizeof(Item) ^ row % 8 * 16)) = exists ? from[j] : Item(0);
    window.x += SX;
    if (window.x < OW * SX - PX) continue;
    window.x = -PX, window.y += SY;
    if (window.y < OH * SY - PY) continue;
    window.y = -PY, ++window.image;
  }
}
#else
// Returns where this block's map is; maps begin at multiples of 128 bytes.
__device__ __forceinline__ TensorMap* own_map(TensorMap* maps, const Item*) {
  const unsigned long long begin = (reinterpret_cast<unsigned long long>(maps) + 127) / 128 * 128;
  return reinterpret_cast<TensorMap*>(begin) + blockIdx.z * gridDim.x + blockIdx.x;
}

// Writes a map with the address of the images, and shows it to the engine.
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

// Copies the channels from `channel` on of the tap at `x` and `y` of PIXELS windows, as many as the map says.
template <int PIXELS>
__device__ __forceinline__ void copy_windows(
    unsigned to, const TensorMap* map, int channel, Window first, int x, int y, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
      "l"(map), "r"(channel), "r"(first.x), "r"(first.y), "r"(first.image), "r"(barrier),
      "h"(static_cast<unsigned short>(x)), "h"(static_cast<unsigned short>(y))
      : "memory");
}
#endif

// Begins to copy what a chunk from `k` on covers of the windows of PIXELS pixels.
template <int PIXELS>
__device__ __forceinline__ void copy_chunk_of_windows(
    unsigned to, const TensorMap* map, int m, int k, unsigned barrier) {
  const Window first = window_of(m);
#pragma unroll
  for (int i = 0; i < CHUNK; i += PANEL) {
    const int tap = (k + i) / CI;
    copy_windows<PIXELS>(to + i / PANEL * (PIXELS * 128), map, (k + i) % CI, first, tap % KW * DX, tap / KW * DY, barrier);
  }
}
#endif
