// Convolutions of NHWC images of four 8-bit channels, of which a pixel is a word, by wgmma of bytes (sm_90a), with their
// requantisation (requantise.h).
//
// Row m of the left operand is the window of a pixel, in the order filter row, filter column: SLOTS of these for each row,
// 4 or 8, of which the last have filters of zeros. So a thread's words of a fragment, which are four neighbours along K
// each, are pixels, and it reads them from a tile of the image in shared memory, where windows overlap: nothing is
// gathered. A warp multiplies 16 neighbouring pixels of a row by all filters, which stay in shared memory for TILES
// tiles of a block, one below the other; the pixels of the next tile are loaded while one is multiplied.
constexpr int WARPS = WARPGROUPS * 4, COLUMNS = 16;
constexpr int DEPTH_BYTES = (KH * SLOTS * 4 + 31) / 32 * 32, STEPS = DEPTH_BYTES / 32, PANELS = (DEPTH_BYTES + 127) / 128;
// Of a tile of pixels: a warp's last step may read a row beyond those of the filter.
constexpr int HEIGHT = (WARPS - 1) * SY + KH + (STEPS * 8 / SLOTS - KH), WIDTH = (COLUMNS - 1) * SX + SLOTS;
constexpr int PIXELS = HEIGHT * WIDTH, EACH = (PIXELS + THREADS - 1) / THREADS;
constexpr int FILTER_BYTES = PANELS * CO * 128, BOX_PITCH = CO + 16;
constexpr int BLOCKS_X = (OW + COLUMNS - 1) / COLUMNS, BLOCKS_Y = (OH + WARPS * TILES - 1) / (WARPS * TILES);
DEFINE_RS_WGMMA(issue_wgmma, OWN_COLUMNS, CO / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)

// Puts the filters into panels as wgmma reads them.
__device__ __forceinline__ void stage_filters(char* panels, const unsigned* __restrict__ weight) {
  constexpr int COUNT = CO * PANELS * 32;
#pragma unroll 8
  for (int i = threadIdx.x; i < COUNT; i += THREADS) {
    const int filter = i / (PANELS * 32), slot = i % (PANELS * 32), ky = slot / SLOTS, kx = slot % SLOTS;
    const unsigned word = ky < KH && kx < KW ? weight[(filter * KH + ky) * KW + kx] : 0;
    const int vector = slot % 32 / 4 ^ filter % 8;
    *reinterpret_cast<unsigned*>(panels + slot / 32 * (CO * 128) + filter * 128 + vector * 16 + slot % 4 * 4) = word;
  }
}

// Loads a thread's pixels of the tile whose first window begins at (y, x).
__device__ __forceinline__ void load_pixels(
    unsigned (&word)[EACH], const unsigned* __restrict__ image, int y0, int x0) {
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int pixel = i * THREADS + threadIdx.x, y = y0 + pixel / WIDTH, x = x0 + pixel % WIDTH;
    const bool inside = static_cast<unsigned>(y) < IH && static_cast<unsigned>(x) < IW;
    word[i] = inside ? image[y * IW + x] : DATA_ZERO_WORD;
  }
}

__device__ __forceinline__ void store_pixels(unsigned* tile, const unsigned (&word)[EACH]) {
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (PIXELS % THREADS == 0 || i * THREADS + threadIdx.x < PIXELS) tile[i * THREADS + threadIdx.x] = word[i];
}

// Writes the results of a warp's pixels, which are `width` or more neighbours in memory, through a box in shared memory.
__device__ __forceinline__ void write_row(
    Result* __restrict__ out, const int (&sum)[CO / 2], char* box, int width, int lane, REQUANTISE_PARAMETERS int) {
#pragma unroll
  for (int j = 0; j < CO / 8; ++j) {
    const int channel = j * 8 + lane % 4 * 2;
    const Channels<2> end = all_channels<2>(REQUANTISATION, channel);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<unsigned short*>(box + (lane / 4 + half * 8) * BOX_PITCH + channel) =
          static_cast<unsigned short>(bytes_of_two(sum + j * 4 + half * 2, end));
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < CO / 16 * COLUMNS; i += 32) {
    const int row = (i + lane) / (CO / 16), vector = (i + lane) % (CO / 16);
    if ((CO % 32 == 0 || row < COLUMNS) && row < width)
      *reinterpret_cast<uint4*>(out + row * CO + vector * 16) =
          *reinterpret_cast<const uint4*>(box + row * BOX_PITCH + vector * 16);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 512 / THREADS) conv2d_int8_words(
    const unsigned char* __restrict__ data, const signed char* __restrict__ weight,
    REQUANTISE_PARAMETERS Result* __restrict__ out) {
  extern __shared__ uint4 shared_memory[];
  const unsigned panels = (shared_address(shared_memory) + 1023) / 1024 * 1024;
  char* const filters = static_cast<char*>(__cvta_shared_to_generic(panels));
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  char* const box = filters + FILTER_BYTES + warp * (COLUMNS * BOX_PITCH);
  unsigned* const tile = reinterpret_cast<unsigned*>(filters + FILTER_BYTES + WARPS * COLUMNS * BOX_PITCH);
  const int x = blockIdx.x % BLOCKS_X * COLUMNS, image = blockIdx.x / (BLOCKS_X * BLOCKS_Y);
  int y = blockIdx.x / BLOCKS_X % BLOCKS_Y * (WARPS * TILES);
  const unsigned* const pixels = reinterpret_cast<const unsigned*>(data) + static_cast<size_t>(image) * (IH * IW);
  unsigned word[EACH];
  load_pixels(word, pixels, y * SY - PAD_TOP, x * SX - PAD_LEFT);
  stage_filters(filters, reinterpret_cast<const unsigned*>(weight));
  fence_proxy_async();
#pragma unroll 1
  for (int number = 0; number < TILES && y < OH; ++number, y += WARPS) {
    store_pixels(tile, word);
    __syncthreads();
    if (number + 1 < TILES) load_pixels(word, pixels, (y + WARPS) * SY - PAD_TOP, x * SX - PAD_LEFT);
    const unsigned* const first = tile + warp * SY * WIDTH + lane / 4 * SX + lane % 4;
    int sum[CO / 2];
    unsigned left[STEPS][4];
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int slot = step * 8 + i / 2 * 4;
        left[step][i] = first[slot / SLOTS * WIDTH + slot % SLOTS + i % 2 * 8 * SX];
      }
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
      issue_wgmma(sum, left[step],
                  make_descriptor(panels + step / 4 * (CO * 128), 0) + descriptor_offset(step % 4 * 32), step > 0);
    wgmma_commit();
    wgmma_wait<0>();
    fence_accumulators(sum);
    if (y + warp < OH)
      write_row(out + ((static_cast<size_t>(image) * OH + y + warp) * OW + x) * CO, sum, box, OW - x, lane, REQUANTISATION,
                0);
    __syncthreads();
  }
}
