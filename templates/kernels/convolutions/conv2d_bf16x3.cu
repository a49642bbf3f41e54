// Convolution, NCHW, of float32 on Hopper's tensor cores: each float is the sum of three bfloat16, whose products
// are exact (conv2d_bf16x3.py). There is one launch: floats are split while they are loaded.
//
// A block owns 64 output channels x ROWS x 8 output pixels of one image, and one of SPLIT ranges of the input
// channels. Each of its SLICES warpgroups loops over K tiles of CHUNK channels of a part of that range, independently
// until the accumulators are reduced. The filters are the left operand: they are copied in their memory order by
// cp.async, and split in registers, each by one thread. The input is the right operand: the input tile with its halo is
// split once, into core matrices of 8 channels (with FOLD: 8 taps of a row), 16 bytes a cell, and deinterleaved by
// STRIDE. Eight pixels of a row at one tap are then eight neighbouring cells, and the next tap is an address offset:
// GROUPS of them, each of 8 along K, make a K tile.
//
// A channel has IN_PLANE inputs and OUT_PLANE outputs. A line is an image of short rows, the last of which may be
// partial: of rows as long as its dilation, or, with WRAPPED, of 8 outputs, whose halo is in the rows beside them.
//
// Tensor cores truncate when they accumulate: small and large products have separate accumulators for each K tile,
// which are added up as floats. K tiles with floats that cannot be split are multiplied by fmaf.

// Loads a thread's elements of the filters for 8 along K: two neighbours along K of rows `row` and row + 8.
__device__ __forceinline__ void load_filters(float (&x)[2][2], const float* filters, int group, int lane) {
  const int tap = tap_of(group) % (FOLD ? CI * KH : TAPS), eight = FOLD ? 0 : tap_of(group) / TAPS;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float* const row = filters + half * 8 * W_PITCH;
    if (FOLD) {
      const int kx = lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < 2; ++i) x[half][i] = kx + i < KW ? row[tap * KW + kx + i] : 0.0f;
    } else {
      const float* const two = row + (eight * 8 + lane % 4 * 2) * TAPS + tap;
      x[half][0] = two[0], x[half][1] = two[TAPS];
    }
  }
}

typedef unsigned Fragments[3][4];
// The elements of a step, 16 along K.
typedef float Raw[2][2][2];

__device__ __forceinline__ void load_step(Raw& x, const float* filters, int step, int lane) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (2 * step + i < GROUPS) load_filters(x[i], filters, 2 * step + i < GROUPS ? 2 * step + i : 0, lane);
    else x[i][0][0] = x[i][0][1] = x[i][1][0] = x[i][1][1] = 0.0f;
  }
}

__device__ __forceinline__ void split_step(Fragments& to, const Raw& x, SplitStatistics& statistics) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Pieces pieces = split(x[i / 2][i % 2][0], x[i / 2][i % 2][1], statistics);
#pragma unroll
    for (int piece = 0; piece < 3; ++piece) to[piece][i] = pieces.word[piece];
  }
}

// Issues the products of 16 along K: the five small ones of the six, and the large one.
__device__ __forceinline__ void issue_step(
    float (&small)[WORDS], float (&large)[WORDS], const Fragments& left, descriptor window, int step) {
  constexpr int LEFT[5] = {0, 1, 2, 0, 1}, RIGHT[5] = {2, 1, 0, 1, 0};
  const int first = cell_of(2 * step), second = cell_of(2 * step + 1 < GROUPS ? 2 * step + 1 : 2 * step);
  const descriptor right = window + first + along(second - first);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < 5; ++i) issue_wgmma(small, left[LEFT[i]], right + RIGHT[i] * PIECE_CELLS, step > 0 || i > 0);
  issue_wgmma(large, left[0], right, step > 0);
  wgmma_commit();
}

// Waits for one copy group of a K tile; later ones may still be in flight.
template <int COPY>
struct Copied {
  static __device__ __forceinline__ void wait(int copy, int group) {
    Copied<COPY - 1>::wait(copy, group);
    if (copy != COPY) return;
    copy_wait<COPIES - 1 - COPY + (STAGES - 1) * COPIES>();
    group_sync(group);
  }
};
template <>
struct Copied<0> {
  static __device__ __forceinline__ void wait(int, int) {}
};

// Waits for the copy group that a step is the first to need; the first has arrived.
__device__ __forceinline__ void wait_for_step(int step, int group) {
  constexpr int EACH = GROUPS / COPIES;
  const int before = (2 * step - 1) / EACH, last = (2 * step + 1 < GROUPS ? 2 * step + 1 : GROUPS - 1) / EACH;
  if (last > before) Copied<COPIES - 1>::wait(last, group);
}

// The products of a K tile, with the left operands of AHEAD steps in registers; returns whether this thread's filters
// have floats that cannot be split.
__device__ __forceinline__ bool multiply_k_tile(
    float (&small)[WORDS], float (&large)[WORDS], const float* filters, descriptor window, int group, int lane) {
  SplitStatistics statistics = {0.0f, 0};
  Fragments left[AHEAD];
  Raw x;
  load_step(x, filters, 0, lane);
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    split_step(left[step % AHEAD], x, statistics);
    statistics.force_update();
    issue_step(small, large, left[step % AHEAD], window, step);
    if (step + 1 < STEPS) {
      wait_for_step(step + 1, group);
      load_step(x, filters, step + 1, lane);
    }
    wgmma_wait<AHEAD - 1>();
  }
  return statistics.unsplittable();
}

// The same sums by fmaf, of input channels from `ci` on.
__device__ __forceinline__ void multiply_fmaf(
    float (&total)[WORDS], const TileSource& source, int ci, int ci_end, int row, int lane) {
  const int row0 = source.co0 + row < CO ? source.co0 + row : CO - 1;
  const int row1 = source.co0 + row + 8 < CO ? source.co0 + row + 8 : CO - 1;
#pragma unroll 1
  for (; ci < ci_end; ++ci) {
#pragma unroll 1
    for (int tap = 0; tap < TAPS; ++tap) {
      const float upper = source.filters[(static_cast<size_t>(row0) * CI + ci) * TAPS + tap];
      const float lower = source.filters[(static_cast<size_t>(row1) * CI + ci) * TAPS + tap];
#pragma unroll
      for (int i = 0; i < PAIRS; ++i) {
        const int y = source.y0 + i / 2 * SY + tap / KW * DY,
                  x = source.x0 + (lane % 4 * 2 + i % 2) * SX + tap % KW * DX;
        const bool inside = (WRAPPED || (y >= 0 && y < IH && x >= 0 && x < IW)) && within_plane(y, x) &&
                            plane_exists(source.plane, ci);
        const float right = inside ? source.image[input_index(ci, y, x)] : 0.0f;
        float* const sums = total + i / 2 * 4 + i % 2;
        sums[0] = fmaf(upper, right, sums[0]);
        sums[2] = fmaf(lower, right, sums[2]);
      }
    }
  }
}

// Main loop of a warpgroup. `storage` is its shared memory, and `flags` two words: the last K tile whose input has floats
// that cannot be split.
__device__ __forceinline__ void main_loop(
    float (&total)[WORDS], const TileSource& source, char* storage, int* flags, int group) {
  const int tid = threadIdx.x % THREADS, lane = tid % 32, row = tid / 32 * 16 + lane / 4;
  float* const buffer = reinterpret_cast<float*>(storage);
  uint4* const windows = reinterpret_cast<uint4*>(storage + STAGES * W_FLOATS * 4);
  const descriptor first_window = describe_cells(shared_address(windows), PLANE_W * 16);
#pragma unroll
  for (int i = 0; i < WORDS; ++i) total[i] = 0.0f;
  float x[BATCHED][8];
  load_window(x, source, source.ci_begin, 0, tid);
#pragma unroll
  for (int k_tile = 0; k_tile < (STAGES > 1 ? STAGES - 1 : 1); ++k_tile)
    copy_k_tile(buffer + k_tile * W_FLOATS, source, k_tile, tid);
  if (tid < 2) flags[tid] = 0;
  group_sync(group);
  if (split_window(windows, x, source, source.ci_begin, tid)) flags[0] = 1;
  int stage = 0, free_stage = STAGES - 1;
#pragma unroll 1
  for (int k_tile = 0; k_tile < CHUNKS; ++k_tile) {
    const int ci0 = source.ci_begin + k_tile * CHUNK;
    fence_proxy_async();
    copy_wait<(STAGES > 1 ? STAGES - 2 : 0) * COPIES + COPIES - 1>();
    group_sync(group);
    if (STAGES > 1) {
      copy_k_tile(buffer + free_stage * W_FLOATS, source, k_tile + STAGES - 1, tid);
      free_stage = free_stage + 1 == STAGES ? 0 : free_stage + 1;
    }
    if (k_tile + 1 < CHUNKS) load_window(x, source, ci0 + CHUNK, 0, tid);
    float small[WORDS], large[WORDS];
    bool unsplittable = multiply_k_tile(small, large, buffer + stage * W_FLOATS + row * W_PITCH,
                                  first_window + k_tile % 2 * X_CELLS, group, lane);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    unsplittable = unsplittable || flags[k_tile % 2] == k_tile + 1;
    if (k_tile + 1 < CHUNKS &&
        split_window(windows + (k_tile + 1) % 2 * X_CELLS, x, source, ci0 + CHUNK, tid))
      flags[(k_tile + 1) % 2] = k_tile + 2;
    wgmma_wait<0>();
    fence_accumulators(small);
    fence_accumulators(large);
    if (__any_sync(0xffffffffu, unsplittable)) {
      multiply_fmaf(total, source, ci0, ci0 + CHUNK < CI ? ci0 + CHUNK : CI, row, lane);
    } else {
#pragma unroll
      for (int i = 0; i < WORDS; ++i) total[i] += small[i] + large[i];
    }
  }
}

#if OW % 2 == 0 && OUT_PLANE % 2 == 0
#define ALIGNED_PAIRS 1
#else
#define ALIGNED_PAIRS 0
#endif

__device__ __forceinline__ int result_index(int n, int co, int oy, int ox) {
  if (IN_VOLUMES) return result_at<CO, OUT_PLANE>(n, co, oy * OW + ox);
  return OUT_PLANE < OH * OW ? (n * CO + co) * OUT_PLANE + oy * OW + ox : ((n * CO + co) * OH + oy) * OW + ox;
}

#if ALIGNED_PAIRS
// Epilogue of two neighbours of a row.
__device__ __forceinline__ void write_two(
    float* __restrict__ out, float low, float high, const EpilogueArgs& epilogue, int first_channel, int co, int oy, int ox, int n) {
  const int pixel = oy * OW + ox;
  if ((!WHOLE_CO && co >= CO) || oy >= OH || ox >= OW || (OUT_PLANE < OH * OW && pixel >= OUT_PLANE)) return;
  const int at = result_index(n, co, oy, ox);
  float sums[2] = {low, high};
  finish<0>(sums, epilogue, first_channel + co, at);
  store_vector<2>(out + at, sums);
}
#else
// Epilogue of a row of 8 pixels of 8 channels, of which a lane has two neighbours of one channel. Lanes exchange them, so
// that each store has whole rows, however they are aligned. All threads of a warp call this.
__device__ __forceinline__ void write_rows(
    float* __restrict__ out, float low, float high, const EpilogueArgs& epilogue, int first_channel, int co0, int oy, int ox0, int n) {
  const int lane = threadIdx.x % 32, ox = ox0 + lane % 8, pixel = oy * OW + ox;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int channel = half * 4 + lane / 8, from = channel * 4 + lane % 8 / 2, co = co0 + channel;
    const float first = __shfl_sync(0xffffffffu, low, from), second = __shfl_sync(0xffffffffu, high, from);
    if ((!WHOLE_CO && co >= CO) || oy >= OH || ox >= OW || (OUT_PLANE < OH * OW && pixel >= OUT_PLANE)) continue;
    const int at = result_index(n, co, oy, ox);
    float one[1] = {lane % 2 ? second : first};
    finish<0>(one, epilogue, first_channel + co, at);
    out[at] = one[0];
  }
}
#endif

// Adds up COUNT partial sums with a stride of `apart`.
template <int COUNT>
__device__ __forceinline__ float4 add_four(const float4* from, int apart) {
  float4 sum = from[0];
#pragma unroll
  for (int i = 1; i < COUNT; ++i) {
    const float4 one = from[i * apart];
    sum.x += one.x, sum.y += one.y, sum.z += one.z, sum.w += one.w;
  }
  return sum;
}

#if CLUSTER
// Stores partial sums to distributed shared memory of the block of the cluster that reduces them.
__device__ __forceinline__ void store_remote(float4* to, int rank, const float4& sums) {
  asm volatile(
      "{ .reg .u32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "st.shared::cluster.v4.f32 [remote], {%2, %3, %4, %5}; }" ::"r"(shared_address(to)),
      "r"(rank), "f"(sums.x), "f"(sums.y), "f"(sums.z), "f"(sums.w)
      : "memory");
}
#endif

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(SLICES* THREADS, RESIDENT) conv2d_bf16x3(
    const float* __restrict__ data, const float* __restrict__ weight, const float* __restrict__ bias,
    const float* __restrict__ residual, const float* __restrict__ scale, const float* __restrict__ shift,
    KEPT_PARAMETER float* __restrict__ out) {
  const EpilogueArgs epilogue = {bias, residual, scale, shift KEPT_POINTER};
  extern __shared__ uint4 shared_memory[];
  char* const memory = reinterpret_cast<char*>(shared_memory);
  const int group = __shfl_sync(0xffffffffu, threadIdx.x / THREADS, 0), tid = threadIdx.x % THREADS, lane = tid % 32;
  const int n = blockIdx.x / (TILES_X * TILES_Y);
  const int channels_before = n % CONV_GROUPS * CO;
  TileSource source;
  source.oy0 = blockIdx.x / TILES_X % TILES_Y * ROWS, source.ox0 = blockIdx.x % TILES_X * 8;
  source.co0 = blockIdx.y * TILE_CO;
  source.ci_begin = (blockIdx.z * SLICES + group) * (CHUNKS * CHUNK);
  source.y0 = source.oy0 * SY - PY, source.x0 = source.ox0 * SX - PX;
  source.plane = first_plane(n);
  source.image = data + (IN_VOLUMES ? data_of_image<CI, IN_PLANE>(n) : static_cast<size_t>(n) * (CI * IN_PLANE));
  source.filters = weight + static_cast<size_t>(channels_before) * (CI * TAPS);
#if CLUSTER
  cluster_arrive();
#endif
  float total[WORDS];
  // Partial sums of the blocks of the cluster that this one reduces, and flags.
  float4* const parts = reinterpret_cast<float4*>(memory + SLICES * SLICE_BYTES);
  int* const flags = reinterpret_cast<int*>(parts + PARTS * THREADS);
  main_loop(total, source, memory + group * SLICE_BYTES, flags + group * 2, group);

#if ALIGNED_PAIRS
  const int co = source.co0 + tid / 32 * 16 + lane / 4, ox = source.ox0 + lane % 4 * 2;
  auto write = [&](int row, const float4& sums) {
    write_two(out, sums.x, sums.y, epilogue, channels_before, co, source.oy0 + row, ox, n);
    write_two(out, sums.z, sums.w, epilogue, channels_before, co + 8, source.oy0 + row, ox, n);
  };
#else
  const int co = source.co0 + tid / 32 * 16;
  auto write = [&](int row, const float4& sums) {
    write_rows(out, sums.x, sums.y, epilogue, channels_before, co, source.oy0 + row, source.ox0, n);
    write_rows(out, sums.z, sums.w, epilogue, channels_before, co + 8, source.oy0 + row, source.ox0, n);
  };
#endif
  auto own = [&](int row) {
    return make_float4(total[4 * row], total[4 * row + 1], total[4 * row + 2], total[4 * row + 3]);
  };
#if SLICES > 1
  // The warpgroups store accumulators over their filters, and each reduces some of the rows.
  float4* const mine = reinterpret_cast<float4*>(memory + group * SLICE_BYTES) + tid;
  group_sync(group);
#pragma unroll
  for (int row = 0; row < ROWS; ++row) mine[row * THREADS] = own(row);
  __syncthreads();
  const float4* const first = reinterpret_cast<const float4*>(memory) + tid;
  auto of_block = [&](int row) { return add_four<SLICES>(first + row * THREADS, SLICE_BYTES / 16); };
#define EACH_ROW _Pragma("unroll 1") for (int row = group; row < ROWS; row += SLICES)
#else
  auto of_block = own;
#define EACH_ROW _Pragma("unroll") for (int row = 0; row < ROWS; ++row)
#endif
#if CLUSTER
  cluster_wait();
  const int rank = blockIdx.z;
  EACH_ROW {
    const float4 sums = of_block(row);
    float4* const to = parts + (rank * SHARE + row % SHARE) * THREADS + tid;
    if (row / SHARE == rank) *to = sums;
    else store_remote(to, row / SHARE, sums);
  }
  cluster_sync();
#pragma unroll 1
  for (int i = group; i < SHARE && rank * SHARE + i < ROWS; i += SLICES)
    write(rank * SHARE + i, add_four<SPLIT>(parts + i * THREADS + tid, SHARE * THREADS));
#else
  EACH_ROW write(row, of_block(row));
#endif
}
