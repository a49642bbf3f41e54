// Warp-specialised GEMM of float32 on Hopper's tensor cores, C[M, N] = A[M, K] B[K, N], that splits each float into
// three bfloat16 (bf16x3_split.h), or two as TF32 (bf16x2_split.h), itself: no packed copies are written, so operands are
// read once for each tile.
//
// The left operand is A and the right one B, or with SWAPPED these of the transposed product. A block computes GROUPS *
// 64 rows by TILE_N columns over one of SPLIT ranges of K. A consumer warpgroup multiplies 64 rows: its threads load
// their own elements of the left operand, AHEAD K tiles ahead, and split them in registers. The producer warpgroup loads
// the right operand, splits it, and stores the pieces in a pipeline of STAGES stages in shared memory, as cells: 8
// elements along K of one column and piece. A stage has two mbarriers: `full`, completed by the producer warps, and
// `empty`, by the consumer warps.
//
// Tensor cores truncate when they accumulate: sums of a K tile, the small products first, are added as floats. K tiles
// with floats that cannot be split are multiplied by fmaf in the warps that have them.
constexpr int WORDS = TILE_N / 2, TILE_M = GROUPS * 64, PRODUCERS = 128, WARPS = 4;
constexpr int PIECES = sizeof(Pieces) / sizeof(unsigned);
constexpr int COLUMN_CELLS = CHUNK / 8, PITCH = TILE_N + 2, PIECE_BYTES = COLUMN_CELLS * PITCH * 16;
constexpr int STAGE_BYTES = PIECES * PIECE_BYTES;
// Cells of a producer thread in a K tile, and how many K tiles it loads ahead.
constexpr int CELLS = (COLUMN_CELLS * TILE_N + PRODUCERS - 1) / PRODUCERS;
constexpr int RIGHT_AHEAD = CELLS == 1 ? 3 : CELLS == 2 ? 2 : 1;

#ifdef AUTOTUNE_EMULATE
#define issue_part issue_wgmma
#else
DEFINE_RS_WGMMA(issue_part, ", 0", OWN_COLUMNS, WORDS, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)
#endif

// State of the pipeline: the current stage, and the phase parity, which flips each time around.
struct PipelineState {
  int stage;
  unsigned parity;
  __device__ __forceinline__ void next() {
    if (++stage < STAGES) return;
    stage = 0;
    parity ^= 1;
  }
};

struct SharedStorage {
  char* stages;
  int* flags;
  unsigned full, empty;
};

// The K tiles of a range, of equal numbers but for one.
struct Range {
  int begin, end;
};

__device__ __forceinline__ Range range_of(int z) {
  return {static_cast<int>(static_cast<long long>(z) * ALL_K_TILES / SPLIT),
          static_cast<int>(static_cast<long long>(z + 1) * ALL_K_TILES / SPLIT)};
}

// The pieces of a K tile as left operands: two steps of 16 along K.
typedef unsigned Fragments[2][PIECES][4];

__device__ __forceinline__ bool split_left(Fragments& to, const LeftTile& x) {
  SplitStatistics statistics = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int step = i / 4, half = i % 2, first = i / 2 * 2;
    const Pieces pieces = split(x[half][first], x[half][first + 1], statistics);
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) to[step][piece][i % 4] = pieces.word[piece];
  }
  statistics.force_update();
  return statistics.unsplittable();
}

// Issues the wgmma of a K tile: the six largest of the nine products of three pieces, or the three largest of the four of
// two, in ascending order.
__device__ __forceinline__ void issue_k_tile(float (&sum)[WORDS], const Fragments& left, descriptor right) {
  constexpr int LEFT[6] = {1, 0, 2, 0, 1, 0}, RIGHT[6] = {1, 2, 0, 1, 0, 0}, FIRST = PIECES == 3 ? 0 : 3;
  wgmma_fence();
#pragma unroll
  for (int i = FIRST; i < 6; ++i)
#pragma unroll
    for (int step = 0; step < 2; ++step)
      issue_part(sum, left[step][LEFT[i]],
                 right + descriptor_offset(RIGHT[i] * PIECE_BYTES + step * 2 * PITCH * 16), i > FIRST || step > 0);
  wgmma_commit();
}

// Keeps the compiler from overwriting registers before the wgmma that read them are complete.
__device__ __forceinline__ void fence_left_operand(const Fragments& left) {
#ifndef AUTOTUNE_EMULATE
#pragma unroll
  for (int i = 0; i < 8 * PIECES; ++i)
    asm volatile("" ::"r"(left[i % 2][i / 2 % PIECES][i / 2 / PIECES]) : "memory");
#endif
}

// The columns of the right operand from n on that a thread multiplies by its two rows.
struct RightSource {
  const float* matrix;
  int n;
};

// The sums of a K tile by fmaf, where the pieces do not add up to the operands.
__device__ __forceinline__ void multiply_fmaf(
    float (&total)[WORDS], const LeftSource& left, const RightSource& right, int k_tile) {
  const int end = (k_tile + 1) * CHUNK < K ? (k_tile + 1) * CHUNK : K;
#pragma unroll 1
  for (int k = k_tile * CHUNK; k < end; ++k) {
    const float upper = left.element(0, k), lower = left.element(1, k);
#pragma unroll
    for (int i = 0; i < WORDS / 2; ++i) {
      const float other = right.matrix[right_column(right.n + i / 2 * 8 + i % 2) + k * RIGHT_STEP];
      float* const sums = total + i / 2 * 4 + i % 2;
      sums[0] = fmaf(upper, other, sums[0]);
      sums[2] = fmaf(lower, other, sums[2]);
    }
  }
}

// Main loop of a consumer warpgroup.
__device__ __forceinline__ void consume(
    float (&total)[WORDS], const SharedStorage& smem, const LeftSource& left, const RightSource& right, Range range) {
  const descriptor pieces = make_block_descriptor(shared_address(smem.stages), PITCH * 16);
  LeftTile ahead[AHEAD];
#pragma unroll
  for (int i = 0; i < AHEAD; ++i)
    if (range.begin + i < range.end) left.load(ahead[i], range.begin + i);
#pragma unroll
  for (int i = 0; i < WORDS; ++i) total[i] = 0.0f;
  PipelineState state = {0, 0};
#pragma unroll 1
  for (int first = range.begin; first < range.end; first += AHEAD) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      const int k_tile = first + i;
      if (k_tile >= range.end) break;
      Fragments fragments;
      bool flagged = split_left(fragments, ahead[i]);
      if (k_tile + AHEAD < range.end) left.load(ahead[i], k_tile + AHEAD);
      barrier_wait(smem.full + state.stage * 8, state.parity);
      const int* const flags = smem.flags + state.stage * WARPS;
      flagged = flagged || (flags[0] | flags[1] | flags[2] | flags[3]) != 0;
      float sum[WORDS];
      issue_k_tile(sum, fragments, pieces + descriptor_offset(STAGE_BYTES) * static_cast<descriptor>(state.stage));
      wgmma_wait<0>();
      fence_accumulators(sum);
      fence_left_operand(fragments);
      if (threadIdx.x % 32 == 0) barrier_arrive(smem.empty + state.stage * 8);
      if (__any_sync(0xffffffffu, flagged)) {
        multiply_fmaf(total, left, right, k_tile);
      } else {
#pragma unroll
        for (int word = 0; word < WORDS; ++word) total[word] += sum[word];
      }
      state.next();
    }
  }
}

// A producer thread's elements of a K tile of the right operand.
typedef float RightTile[CELLS][8];

// The cells of a producer thread: of neighbouring columns, or where these are contiguous along K, of one column first.
struct CellSource {
  const float* from[CELLS];
  int place[CELLS], k[CELLS];

  __device__ __forceinline__ CellSource(const float* right, int n0, int thread) {
#pragma unroll
    for (int i = 0; i < CELLS; ++i) {
      const int number = i * PRODUCERS + thread;
      const int column = RIGHT_ALONG_K ? number / COLUMN_CELLS : number % TILE_N;
      const int cell = RIGHT_ALONG_K ? number % COLUMN_CELLS : number / TILE_N;
      place[i] = number < COLUMN_CELLS * TILE_N ? cell * PITCH + column : -1;
      k[i] = along_k(0, 2 * cell);
      from[i] = right + right_column(n0 + column) + k[i] * RIGHT_STEP;
    }
  }

  template <bool WHOLE>
  __device__ __forceinline__ void load_part(RightTile& x, int k_tile) const {
    constexpr int FLOATS = RIGHT_ALONG_K && RUN > 1 && K % 2 == 0 ? 2 : 1;
    const long long at = static_cast<long long>(k_tile) * CHUNK * RIGHT_STEP;
#pragma unroll
    for (int i = 0; i < CELLS; ++i) {
      if (place[i] < 0) continue;
#pragma unroll
      for (int item = 0; item < 8; item += FLOATS) {
        const int offset = along_k(item / 2, item % 2);
        load_existing<WHOLE, FLOATS>(
            x[i] + item, from[i] + at + offset * RIGHT_STEP, k_tile * CHUNK + k[i] + offset, K);
      }
    }
  }

  __device__ __forceinline__ void load(RightTile& x, int k_tile) const {
    if (K % CHUNK == 0 || k_tile + 1 < ALL_K_TILES) load_part<true>(x, k_tile);
    else load_part<false>(x, k_tile);
  }
};

// Splits and stores a K tile; returns whether this thread's floats could not all be split.
__device__ __forceinline__ bool store_cells(char* stage, const CellSource& source, const RightTile& x) {
  SplitStatistics statistics = {};
#pragma unroll
  for (int i = 0; i < CELLS; ++i) {
    if (source.place[i] < 0) continue;
    unsigned word[PIECES][4];
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const Pieces pieces = split(x[i][2 * pair], x[i][2 * pair + 1], statistics);
#pragma unroll
      for (int piece = 0; piece < PIECES; ++piece) word[piece][pair] = pieces.word[piece];
    }
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece)
      *reinterpret_cast<uint4*>(stage + piece * PIECE_BYTES + source.place[i] * 16) =
          make_uint4(word[piece][0], word[piece][1], word[piece][2], word[piece][3]);
  }
  return statistics.unsplittable();
}

// Main loop of the producer warpgroup.
__device__ __forceinline__ void produce(const SharedStorage& smem, const CellSource& source, Range range) {
  const int warp = threadIdx.x / 32 % WARPS;
  RightTile ahead[RIGHT_AHEAD];
#pragma unroll
  for (int i = 0; i < RIGHT_AHEAD; ++i)
    if (range.begin + i < range.end) source.load(ahead[i], range.begin + i);
  PipelineState state = {0, 1};
#pragma unroll 1
  for (int first = range.begin; first < range.end; first += RIGHT_AHEAD) {
#pragma unroll
    for (int i = 0; i < RIGHT_AHEAD; ++i) {
      const int k_tile = first + i;
      if (k_tile >= range.end) break;
      barrier_wait(smem.empty + state.stage * 8, state.parity);
      const bool flagged = store_cells(smem.stages + state.stage * STAGE_BYTES, source, ahead[i]);
      if (k_tile + RIGHT_AHEAD < range.end) source.load(ahead[i], k_tile + RIGHT_AHEAD);
      fence_proxy_async();
      const bool any = __any_sync(0xffffffffu, flagged);
      __syncwarp();
      if (threadIdx.x % 32 == 0) {
        smem.flags[state.stage * WARPS + warp] = any;
        barrier_arrive(smem.full + state.stage * 8);
      }
      state.next();
    }
  }
}

#if FOLLOWS && BY_ROWS
// The epilogue of two neighbours of row m, its channel.
__device__ __forceinline__ void finish_pair_of_row(
    float& low, float& high, const EpilogueArgs& epilogue, int m, int n, size_t at) {
  if (N % 2 == 0) {
    float pair[2] = {low, high};
    finish<0>(pair, epilogue, m, at);
    low = pair[0], high = pair[1];
  } else {
    float one[1] = {low}, other[1] = {high};
    finish<0>(one, epilogue, m, at);
    finish<0>(other, epilogue, m, n + 1 < N ? at + 1 : at);
    low = one[0], high = other[0];
  }
}
#endif

#if FOLLOWS && SPLIT == 1 && BY_ROWS
#define FINISH(low, high, m, n, at) finish_pair_of_row(low, high, epilogue, m, n, at)
#elif FOLLOWS && SPLIT == 1
#define FINISH(low, high, m, n, at) finish_pair(low, high, epilogue, n, at)
#else
#define FINISH(low, high, m, n, at)
#endif

#if STRIPS
// Writes a warp's sums by rows (float_strips.h).
__device__ __forceinline__ void write_sums(
    float* __restrict__ out, float (&sum)[WORDS], int row, int column, const EpilogueArgs& epilogue) {
  extern __shared__ float4 shared_memory[];
  constexpr int FRAGMENTS = WORDS / 4, LEFT = FRAGMENTS % STRIP_FRAGMENTS;
  const int lane = threadIdx.x % 32, m = row - lane / 4 * 2, n = column - lane % 4 * 2;
  float* const strip =
      reinterpret_cast<float*>(shared_memory) + STRIPS_AT / 4 + (threadIdx.x / 32 - 4) * FLOATS_OF_STRIP;
#pragma unroll
  for (int first = 0; first < FRAGMENTS; first += STRIP_FRAGMENTS) {
#pragma unroll
    for (int pair = first * 2; pair < FRAGMENTS * 2 && pair < (first + STRIP_FRAGMENTS) * 2; ++pair) {
      const int m1 = row + pair % 2, n1 = column + pair / 2 * 8;
      if (m1 < M && n1 < N) FINISH(sum[pair * 2], sum[pair * 2 + 1], m1, n1, static_cast<size_t>(m1) * N + n1);
    }
    float* const to = out + static_cast<size_t>(m) * N + n + first * 8;
    if (first + STRIP_FRAGMENTS <= FRAGMENTS)
      write_float_strip<STRIP_FRAGMENTS, true>(to, strip, sum + first * 4, M - m, N - n - first * 8, N, lane);
    else
      write_float_strip<LEFT ? LEFT : 1, true>(to, strip, sum + first * 4, M - m, N - n - first * 8, N, lane);
  }
}
#else
// Writes a thread's sums: two rows from `row` on, and of each 8 columns two from `column` on. What the epilogue of some
// of them needs is loaded before any of these is stored: the compiler cannot know that stores do not alias.
__device__ __forceinline__ void write_sums(
    float* __restrict__ out, float (&sum)[WORDS], int row, int column, const EpilogueArgs& epilogue) {
  constexpr int PAIRS = WORDS / 4, AT_ONCE = 8;
#pragma unroll
  for (int two = 0; two < 2; ++two) {
    auto each = [&](int first, auto body) {
#pragma unroll
      for (int j = first; j < first + AT_ONCE; ++j) {
        const int m = SWAPPED ? column + j * 8 + two : row + two, n = SWAPPED ? row : column + j * 8;
        if (j < PAIRS && m < M && n < N)
          body(m, n, static_cast<size_t>(m) * ALL_N + n, sum[j * 4 + (SWAPPED ? two : two * 2)],
               sum[j * 4 + (SWAPPED ? two + 2 : two * 2 + 1)]);
      }
    };
#pragma unroll
    for (int first = 0; first < PAIRS; first += AT_ONCE) {
      each(first, [&](int m, int n, size_t at, float& low, float& high) { FINISH(low, high, m, n, at); });
      each(first, [&](int, int n, size_t at, float low, float high) { write_floats(out, at, n, low, high); });
    }
  }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) gemm_bf16x3_fused(
    const float* __restrict__ a, const float* __restrict__ b, EPILOGUE_PARAMETERS float* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  SharedStorage smem;
  smem.stages = reinterpret_cast<char*>(shared_memory);
  smem.flags = reinterpret_cast<int*>(smem.stages + STAGES * STAGE_BYTES);
  smem.full = shared_address(smem.flags + STAGES * WARPS);
  smem.empty = smem.full + STAGES * 8;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(smem.full + stage * 8, WARPS);
      barrier_init(smem.empty + stage * 8, GROUPS * WARPS);
    }
  }
  const int which = blockIdx.x / (BLOCKS_M * BLOCKS_N), tile = blockIdx.x % (BLOCKS_M * BLOCKS_N);
  const int m0 = tile % BLOCKS_M * TILE_M, n0 = tile / BLOCKS_M * TILE_N;
  const int group_of_channels = which % PLANE_GROUPS;
  a += static_cast<size_t>(PLANES ? group_of_channels : which) * A_STRIDE;
  b += static_cast<size_t>(which) * B_STRIDE;
  const float* const left = SWAPPED ? b : a;
  const float* const right = SWAPPED ? a : b;
  const Range range = range_of(blockIdx.z);
  __syncthreads();

  // Broadcast by the first lane, it is uniform to the compiler.
  const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0), lane = threadIdx.x % 32;
  if (group == 0) {
    warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
    const CellSource source(right, n0, threadIdx.x);
    produce(smem, source, range);
  } else {
    warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    const int row = m0 + (group - 1) * 64 + threadIdx.x / 32 % WARPS * 16 + lane / 4 * 2, column = n0 + lane % 4 * 2;
    LeftSource source;
    source.quarter = lane % 4;
    // Of rows that do not exist, the last are loaded: an even number of them, where two are loaded at once.
    const int last = LEFT_EXTENT % 2 == 0 ? LEFT_EXTENT - 2 : LEFT_EXTENT - 1;
    const int existing = row < last ? row : last;
#pragma unroll
    for (int half = 0; half < 2; ++half) source.place(left, half, existing + half);
    float total[WORDS];
    consume(total, smem, source, {right, column}, range);
    if (SPLIT > 1) launch_dependent_grids();
    const size_t first = static_cast<size_t>(which) * (IN_GROUPS ? N : static_cast<size_t>(M) * N);
    out += first;
#if FOLLOWS && SPLIT == 1 && IN_GROUPS
    const EpilogueArgs epilogue = of_group({bias, residual, scale, shift}, which);
#elif FOLLOWS && SPLIT == 1 && PLANES
    const int channel = group_of_channels * M;
    const EpilogueArgs epilogue = {
        bias + channel, RESIDUAL ? residual + first : residual, scale + channel, shift + channel};
#elif FOLLOWS && SPLIT == 1
    const EpilogueArgs epilogue = {bias, RESIDUAL ? residual + first : residual, scale, shift};
#else
    const EpilogueArgs epilogue = {};
#endif
    if (SPLIT > 1) out += static_cast<size_t>(blockIdx.z) * BATCH * M * N;
    write_sums(out, total, row, column, epilogue);
  }
}

#if SPLIT > 1
// Adds the partial sums of all ranges of K, R_VEC neighbours a thread.
extern "C" __global__ void __launch_bounds__(128) gemm_bf16x3_reduce(
    const float* __restrict__ partial, EPILOGUE_PARAMETERS float* __restrict__ out) {
  constexpr size_t SIZE = static_cast<size_t>(BATCH) * M * N;
  const size_t i = (static_cast<size_t>(blockIdx.x) * 128 + threadIdx.x) * R_VEC;
  wait_on_dependent_grids();
  if (i >= SIZE) return;
  float total[R_VEC];
  add_parts<SPLIT>(total, partial + i, SIZE);
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#if BY_ROWS
  finish<0>(total, epilogue, static_cast<int>(i / N % (PLANE_GROUPS * M)), i);
#else
  finish<1>(total, epilogue, static_cast<int>(i % ALL_N), i);
#endif
#endif
  store_vector<R_VEC>(out + i, total);
}
#endif
