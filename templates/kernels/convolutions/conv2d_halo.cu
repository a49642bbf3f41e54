// Convolution of NHWC images of 16-bit floats with stride 1 on Hopper (sm_90a), whose input pixels are loaded once for
// all taps. As implicit GEMM (gemm_tma.cu) each tap of each output pixel is loaded from the L2 cache, which takes
// longer than to multiply it.
//
// A block computes DOWN x SQUARES_ACROSS squares of 8 x 8 output pixels, for TILE_N filters. TMA loads 64 channels of
// its input tile with the halo, HALO_H x HALO_W pixels of 128 bytes, with zeros outside of the image, and for each tap
// the 64 x TILE_N filters. A square is the left operand of wgmma, 8 groups of 8 rows: for a tap its descriptor begins
// at another pixel of the tile, and groups are HALO_W pixels apart. The swizzle depends on the address alone, so any
// pixel will do. The pipeline has A_STAGES stages of pixels and STAGES of filters, each with a `full` and an `empty`
// mbarrier.
//
// If there is a stage for each tap of all channels (ALL_FILTERS), a block loads its filters once and computes several
// tiles with them; the pixels of the next tile arrive meanwhile.
constexpr int TAPS = KH * KW, DOWN = GROUPS * FRAGS_M / SQUARES_ACROSS;
constexpr int HALO_W = SQUARES_ACROSS * 8 + (KW - 1) * DX, HALO_H = DOWN * 8 + (KH - 1) * DY;
constexpr int PIXEL_BYTES = HALO_W * HALO_H * 128, A_BYTES = (PIXEL_BYTES + 1023) / 1024 * 1024;
constexpr int PANELS_N = (TILE_N + PANEL - 1) / PANEL, PANEL_BYTES = FILTER_ROWS * 128;
constexpr int B_BYTES = PANELS_N * PANEL_BYTES;
constexpr int CHUNKS = TAP_RUN / PANEL, LEFT = CI % PANEL, WHOLE_CHUNKS = CI / PANEL;
constexpr int TILE_H = DOWN * 8, TILE_W = SQUARES_ACROSS * 8;
constexpr int TILES_Y = (OH + TILE_H - 1) / TILE_H, TILES_X = (OW + TILE_W - 1) / TILE_W;
constexpr bool ALL_FILTERS = STAGES == TAPS * CHUNKS;
static_assert(A_STAGES > 1 || (CHUNKS == 1 && !ALL_FILTERS), "a stage is released while the next is multiplied");
constexpr int TILES_N = (N + TILE_N - 1) / TILE_N, WORDS = TILE_N / 2;
constexpr unsigned TILES = static_cast<unsigned>(IMAGES) * TILES_Y * TILES_X * TILES_N;
// A warp stages 16 pixels of 64 results.
constexpr int STAGING_BYTES = 16 * 64 * 4;

DEFINE_WGMMA(issue_wgmma, ", 0, 1", OWN_COLUMNS, TILE_N / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)

__constant__ __align__(128) TensorMap a_map = {{A_MAP}}, b_map = {{B_MAP}};

struct Tile {
  int image, y, x, n;
};

__device__ __forceinline__ Tile tile_of(unsigned number) {
  const unsigned pixels = number / TILES_N;
  return {static_cast<int>(pixels / (TILES_X * TILES_Y)), static_cast<int>(pixels / TILES_X % TILES_Y) * TILE_H,
          static_cast<int>(pixels % TILES_X) * TILE_W, static_cast<int>(number % TILES_N) * TILE_N};
}

// Addresses in shared memory.
struct SharedStorage {
  unsigned a, b, staging, a_full, a_empty, b_full, b_empty;
};

__device__ __forceinline__ SharedStorage shared_storage_of(const void* shared) {
  const unsigned a = (shared_address(shared) + 1023) / 1024 * 1024, b = a + A_STAGES * A_BYTES;
  const unsigned staging = b + STAGES * B_BYTES, a_full = staging + GROUPS * 4 * STAGING_BYTES;
  return {a, b, staging, a_full, a_full + A_STAGES * 8, a_full + A_STAGES * 16, a_full + A_STAGES * 16 + STAGES * 8};
}

template <int COUNT>
struct PipelineState {
  int stage;
  unsigned parity;
  __device__ __forceinline__ void next() {
    if (++stage < COUNT) return;
    stage = 0;
    parity ^= 1;
  }
};

// Issues the load of the input pixels of a tile, of 64 channels: their first column and row may be outside of the
// image, for which the map must have the address of the images.
__device__ __forceinline__ void load_pixels(
    unsigned to, const TensorMap* map, int channel, int x, int y, int number, unsigned full) {
#ifdef AUTOTUNE_EMULATE
  const Item* const image = reinterpret_cast<const Item*>(map) + static_cast<size_t>(number) * (IH * IW) * CI;
  char* const begin = static_cast<char*>(__cvta_shared_to_generic(to));
  for (int i = 0; i < HALO_W * HALO_H; ++i) {
    const int row = y + i / HALO_W, column = x + i % HALO_W;
    const bool exists = row >= 0 && row < IH && column >= 0 && column < IW;
    const Item* const from = image + (static_cast<long long>(row) * IW + column) * CI + channel;
    for (int j = 0; j < PANEL; ++j)
      *reinterpret_cast<Item*>(begin + i * 128 + (j * 2 ^ i % 8 * 16)) = exists && channel + j < CI ? from[j] : Item(0);
  }
  barrier_complete_tx(full, HALO_W * HALO_H * 128);
#else
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(map), "r"(channel), "r"(x), "r"(y), "r"(number), "r"(full)
      : "memory");
#endif
}

// Loads the pixels of a tile, and its filters if they are not there.
__device__ __forceinline__ void produce(
    const SharedStorage& smem, const TensorMap* map, const Item* filters, Tile tile, PipelineState<A_STAGES>& a,
    bool filters_too) {
  PipelineState<STAGES> b = {0, 1};
  const int panels = N - tile.n < TILE_N ? (N - tile.n + PANEL - 1) / PANEL : PANELS_N;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    barrier_wait(smem.a_empty + a.stage * 8, a.parity);
    if (elect_one()) {
      barrier_arrive_expect_tx(smem.a_full + a.stage * 8, PIXEL_BYTES);
      load_pixels(smem.a + a.stage * A_BYTES, map, chunk * PANEL, tile.x - PX, tile.y - PY, tile.image,
                  smem.a_full + a.stage * 8);
    }
    __syncwarp();
    a.next();
    if (!filters_too) continue;
#pragma unroll 1
    for (int tap = 0; tap < TAPS; ++tap) {
      barrier_wait(smem.b_empty + b.stage * 8, b.parity);
      if (elect_one()) {
        const unsigned full = smem.b_full + b.stage * 8;
        barrier_arrive_expect_tx(full, panels * PANEL_BYTES);
#pragma unroll
        for (int i = 0; i < PANELS_N; ++i)
          if (i < panels)
            tma_load_of_several<1>(
                smem.b + b.stage * B_BYTES + i * PANEL_BYTES, b_map, filters, tile.n + i * PANEL, chunk * PANEL, tap, full);
      }
      __syncwarp();
      b.next();
    }
  }
}

// Returns the descriptor of 64 pixels of a tile, 8 in each of 8 rows of the image.
__device__ __forceinline__ descriptor square_at(unsigned address) {
  constexpr descriptor ROW = static_cast<descriptor>(HALO_W) * 128 >> 4;
  return 1ull << 62 | ROW << 32 | (address & 0x3ffff) >> 4;
}

struct Consumer {
  const SharedStorage& smem;
  PipelineState<A_STAGES> a;
  PipelineState<STAGES> b;
  int group, a_before, b_before;  // stages that are released when the wgmma in flight are complete

  // Multiplies STEPS times 16 channels of all taps; the wgmma of one tap are in flight while those of the next begin.
  template <int STEPS>
  __device__ __forceinline__ void multiply(float (&sum)[FRAGS_M][WORDS], bool first) {
    const bool releases = threadIdx.x % 32 == 0;
    barrier_wait(smem.a_full + a.stage * 8, a.parity);
    const descriptor left = square_at(smem.a + a.stage * A_BYTES), right = make_descriptor(smem.b, PANEL_BYTES);
#pragma unroll 1
    for (int tap = 0; tap < TAPS; ++tap) {
      barrier_wait(smem.b_full + b.stage * 8, b.parity);
      wgmma_fence();
      const int begin = tap / KW * DY * HALO_W + tap % KW * DX;
      const descriptor filters = right + descriptor_offset(B_BYTES) * static_cast<descriptor>(b.stage);
#pragma unroll
      for (int step = 0; step < STEPS; ++step)
#pragma unroll
        for (int i = 0; i < FRAGS_M; ++i) {
          const int square = group * FRAGS_M + i;
          const int pixel = begin + square / SQUARES_ACROSS * 8 * HALO_W + square % SQUARES_ACROSS * 8;
          issue_wgmma(sum[i], left + static_cast<descriptor>(descriptor_offset(pixel * 128 + step * 32)),
                      filters + descriptor_offset(step * 16 * 128), step > 0 || tap > 0 || !first);
        }
      wgmma_commit();
      wgmma_wait<1>();
      if (!ALL_FILTERS && releases && b_before >= 0) barrier_arrive(smem.b_empty + b_before * 8);
      if (releases && a_before >= 0 && tap == 0) barrier_arrive(smem.a_empty + a_before * 8);
      b_before = b.stage;
      b.next();
    }
    a_before = a.stage;
    a.next();
  }

  // Multiplies a tile; its filters are loaded for it, or were for the first.
  __device__ __forceinline__ void multiply_tile(float (&sum)[FRAGS_M][WORDS]) {
    if (ALL_FILTERS) b = {0, 0};
#pragma unroll 1
    for (int chunk = 0; chunk < WHOLE_CHUNKS; ++chunk) multiply<4>(sum, chunk == 0);
    if (LEFT > 0) multiply<(LEFT > 0 ? (LEFT + 15) / 16 : 4)>(sum, WHOLE_CHUNKS == 0);
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i) fence_accumulators(sum[i]);
    if (ALL_FILTERS && threadIdx.x % 32 == 0) barrier_arrive(smem.a_empty + a_before * 8);
    a_before = -1;
  }
};

// Stages the results of a warp's 16 pixels for 64 filters from `first` on.
__device__ __forceinline__ void stage_part(float* staged, const float (&sum)[WORDS], int first, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
#pragma unroll
    for (int j = 0; j < 8; ++j)
      if (first + j * 8 < TILE_N)
        store_vector<2>(staged + row * 64 + (j ^ row % 8) * 8 + lane % 4 * 2, sum + (first / 8 + j) * 4 + half * 2);
  }
}

// Runs the epilogue of a warp's pixels, 64 filters at a time and 8 of a pixel per thread. Unrolled over all accumulators
// it would be bound by instruction fetch.
__device__ __forceinline__ void write_results(
    Item* __restrict__ out, const float (&sum)[FRAGS_M][WORDS], unsigned staging, Tile tile, int group, int lane,
    const EpilogueArgs& epilogue) {
  const int warp = threadIdx.x / 32 % 4;
  float* const staged = static_cast<float*>(__cvta_shared_to_generic(staging));
#pragma unroll 1
  for (int part = 0; part < FRAGS_M * PANELS_N; ++part) {
#pragma unroll
    for (int i = 0; i < FRAGS_M * PANELS_N; ++i)
      if (i == part) stage_part(staged, sum[i / PANELS_N], i % PANELS_N * PANEL, lane);
    const int first = part % PANELS_N * PANEL, square = group * FRAGS_M + part / PANELS_N;
    __syncwarp();
    const int inside = first + lane % 8 * 8, n = tile.n + inside;
    const int y0 = tile.y + square / SQUARES_ACROSS * 8 + warp * 2, x0 = tile.x + square % SQUARES_ACROSS * 8;
#if C_N % 8 == 0
    // What four pixels need is loaded before any is stored, of those outside of the output that of the last: a thread
    // waits for a residual once.
    float results[4][8];
    const int column = n < C_N ? n : C_N - 8;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = j * 4 + lane / 8, y = y0 + row / 8, x = x0 + row % 8;
      const size_t line = static_cast<size_t>(tile.image) * OH + (y < OH ? y : OH - 1);
      load_vector<4>(results[j], staged + row * 64 + (lane % 8 ^ row % 8) * 8);
      load_vector<4>(results[j] + 4, staged + row * 64 + (lane % 8 ^ row % 8) * 8 + 4);
      finish<1>(results[j], epilogue, column, (line * OW + (x < OW ? x : OW - 1)) * C_N + column);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = j * 4 + lane / 8, y = y0 + row / 8, x = x0 + row % 8;
      if (y >= OH || x >= OW || n >= C_N || inside >= TILE_N) continue;
      float words[4];
#pragma unroll
      for (int v = 0; v < 4; ++v)
        words[v] = __uint_as_float(pack_pair(last_step(results[j][2 * v]), last_step(results[j][2 * v + 1])));
      store_vector<4>(
          reinterpret_cast<float*>(out + ((static_cast<size_t>(tile.image) * OH + y) * OW + x) * C_N + n), words);
    }
#else
#pragma unroll 1
    for (int at_row = 0; at_row < 16; at_row += 4) {
      const int row = at_row + lane / 8, y = y0 + row / 8, x = x0 + row % 8;
      if (y >= OH || x >= OW || n >= C_N || inside >= TILE_N) continue;
      const size_t at = ((static_cast<size_t>(tile.image) * OH + y) * OW + x) * C_N + n;
      float results[8];
      load_vector<4>(results, staged + row * 64 + (lane % 8 ^ row % 8) * 8);
      load_vector<4>(results + 4, staged + row * 64 + (lane % 8 ^ row % 8) * 8 + 4);
#pragma unroll
      for (int v = 0; v < 8; ++v) {
        if (n + v >= C_N) continue;
        float one[1] = {results[v]};
        finish<1>(one, epilogue, n + v, at + v);
        out[at + v] = static_cast<Item>(pack_pair(last_step(one[0]), 0.0f));
      }
    }
#endif
    __syncwarp();
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) conv2d_halo(
    const Item* __restrict__ data, const Item* __restrict__ weight, EPILOGUE_PARAMETERS Item* __restrict__ out,
    TensorMap* __restrict__ maps) {
  extern __shared__ float4 shared_memory[];
  const SharedStorage smem = shared_storage_of(shared_memory);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < A_STAGES; ++i) barrier_init(smem.a_full + i * 8, 1), barrier_init(smem.a_empty + i * 8, GROUPS * 4);
#pragma unroll
    for (int i = 0; i < STAGES; ++i) barrier_init(smem.b_full + i * 8, 1), barrier_init(smem.b_empty + i * 8, GROUPS * 4);
    fence_mbarrier_init();
  }
  __syncthreads();
  wait_on_dependent_grids();
  const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    if (threadIdx.x >= 32) return;
    TensorMap* const own = own_map(maps, data);
    if (elect_one()) write_map(own, a_map, data);
    __syncwarp();
    PipelineState<A_STAGES> a = {0, 1};
#pragma unroll 1
    for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
      produce(smem, own, weight, tile_of(number), a, number == blockIdx.x);
      if (!ALL_FILTERS) break;
    }
    return;
  }
  Consumer consumer = {smem, {0, 0}, {0, 0}, warpgroup - 1, -1, -1};
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#else
  const EpilogueArgs epilogue = {};
#endif
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
    float sum[FRAGS_M][WORDS];
    consumer.multiply_tile(sum);
    write_results(out, sum, smem.staging + (threadIdx.x / 32 - 4) * STAGING_BYTES, tile_of(number), warpgroup - 1,
                  threadIdx.x % 32, epilogue);
    if (!ALL_FILTERS) break;
  }
}
