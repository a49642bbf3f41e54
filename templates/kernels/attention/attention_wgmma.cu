// softmax(Q K^T * scale) V on Hopper's tensor cores: 16-bit floats, sums and exponentials in float32.
//
// The producer warpgroup loads keys and values by TMA into a pipeline of STAGES stages, and copies queries; each consumer
// warpgroup has 64 rows. The exponentials of a tile of keys overlap with the product by the values of the tile before,
// and with the products of other warpgroups. The keys and the values of a stage have two mbarriers each: `full` when
// they have arrived, `empty` when all consumer warps have read them. Rows in shared memory are whole 128-byte swizzled
// panels, zero-padded beyond D, of which products read DEEP columns. TMA needs one row pitch of keys: heads that share
// them do not have one of queries.
//
// With PERSISTENT, where there are more work tiles than resident blocks, blocks loop over them, and the producer loads
// the next queries and keys during the epilogue of the consumers. With SPLIT, blocks have one range of the keys each.
__constant__ __align__(128) TensorMap row_map = {{ROW_MAP}};

constexpr int BLOCKS = TILES * MATRICES, GROUPS = WARPS / 4, PANELS = (D + PANEL - 1) / PANEL, WIDE = PANELS * PANEL;
constexpr int Q_BYTES = TILE_Q * WIDE * 2, HALF_BYTES = TILE_K * WIDE * 2, STAGE_BYTES = 2 * HALF_BYTES;
constexpr int ENTRY_REGISTERS = 65536 / (THREADS * RESIDENT) / 8 * 8, PRODUCER_REGISTERS = GROUPS < 3 ? 40 : 32;
constexpr int FREE_REGISTERS = (ENTRY_REGISTERS * (GROUPS + 1) - PRODUCER_REGISTERS) / GROUPS / 8 * 8;
constexpr int CONSUMER_REGISTERS = FREE_REGISTERS < 240 ? FREE_REGISTERS : 240;
constexpr int COPIERS = 64;  // threads that copy queries
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240;
// Ping-pong scheduling of two consumer warpgroups (FlashAttention-3): one computes exponentials while the products of
// the other run. Three overlap without it.
constexpr bool PING_PONG = GROUPS == 2;
static_assert(TILE_K % 64 == 0, "panels are 64 wide");
#if QUERIES_IN_REGISTERS
DEFINE_RS_WGMMA(issue_scores, ", 0", SCORES_COLUMNS, TILE_K / 2, SCORES_NAMES, SCORES_SUMS, SCORES_LEFT, SCORES_RIGHT, SCORES_ADD)
#else
DEFINE_WGMMAS(issue_scores, ", 0, 0")
#endif
DEFINE_RS_WGMMA(issue_values, ", 1", OWN_COLUMNS, DEEP / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)

// State of a pipeline: the stage, and the parity of its mbarriers, which flips at each wrap-around.
struct PipelineState {
  int stage;
  unsigned parity;
  __device__ __forceinline__ void next() {
    if (++stage < STAGES) return;
    stage = 0;
    parity ^= 1;
  }
};

// The work tiles of a block. Causal ones of a section are numbered from the longest to the shortest: a block that has one
// of the longest of a round has one of the shortest of the next.
struct Rounds {
  int section = 0, round = -1, number;
  bool back = true;
  // Moves to the next one; returns whether there is one.
  __device__ __forceinline__ bool next() {
    const int blocks = gridDim.x, block = blockIdx.x;
    do {
      ++round, back = CAUSAL && !back;
      if (round * blocks >= SECTION * TILES) ++section, round = 0;
      number = round * blocks + (back ? blocks - 1 - block : block);
    } while (number >= SECTION * TILES && section < SECTIONS);
    number += section * (SECTION * TILES);
    return number < BLOCKS;
  }
};

// Shared memory: queries, stages of keys and of values, and mbarriers, of 8 bytes each.
struct Storage {
  char* queries;
  unsigned barriers;
  __device__ __forceinline__ char* keys(int stage) const { return queries + Q_BYTES + stage * STAGE_BYTES; }
  __device__ __forceinline__ char* values(int stage) const { return keys(stage) + HALF_BYTES; }
  __device__ __forceinline__ unsigned queries_full() const { return barriers; }
  // Of keys, KIND 0, or values, 1.
  __device__ __forceinline__ unsigned full(int kind, int stage) const { return barriers + 8 + (2 * stage + kind) * 8; }
  __device__ __forceinline__ unsigned empty(int kind, int stage) const {
    return barriers + 8 + (2 * STAGES + 2 * stage + kind) * 8;
  }
  // Orders the products of consumer warpgroups (ping-pong).
  __device__ __forceinline__ unsigned turn(int group) const { return barriers + 8 + (4 * STAGES + group) * 8; }
  // Arrived at when all warps have read the queries.
  __device__ __forceinline__ unsigned queries_empty() const { return turn(GROUPS); }
};

// Copies the queries of each work tile into panels of TILE_Q rows, rows beyond the last as zeros; `tid` is one of
// COPIERS.
__device__ __forceinline__ void copy_queries(const Storage& storage, const half_bits* __restrict__ q, int tid) {
  const int row = tid / 8, vector = tid % 8;
  char* const to = storage.queries + row * 128 + (vector ^ row % 8) * 16;
  unsigned parity = 1;
#pragma unroll 1
  for (Rounds rounds; rounds.next();) {
    const Work work = work_of(rounds.number);
    if (PERSISTENT) barrier_wait(storage.queries_empty(), parity);
    parity ^= 1;
#pragma unroll (PANELS > 1 ? 1 : 2)
    for (int i = 0; i < TILE_Q; i += COPIERS / 8) {
      const int own = work.row0 + row + i;
      const half_bits* const source = q + query_offset(work.matrix, own) + vector * 8;
#pragma unroll
      for (int panel = 0; panel < PANELS; ++panel)
        copy_async<4>(reinterpret_cast<float*>(to + (panel * TILE_Q + i) * 128),
                      reinterpret_cast<const float*>(source + panel * PANEL),
                      own < ROWS && (D == WIDE || panel * PANEL + vector * 8 < D));
    }
    copy_arrive(storage.queries_full());
    if (!PERSISTENT) break;
  }
  copy_commit();
  copy_wait<0>();
}

// Loads the keys and the values of each work tile by TMA; one warp.
__device__ __forceinline__ void load_keys(
    const Storage& storage, const half_bits* __restrict__ k, const half_bits* __restrict__ v) {
  PipelineState state = {0, 1};
#pragma unroll 1
  for (Rounds rounds; rounds.next();) {
    const Work work = work_of(rounds.number);
    const size_t matrix = keys_offset(work.matrix);
#pragma unroll 1
    for (int tile = work.begin; tile < work.end; ++tile) {
#pragma unroll
      for (int kind = 0; kind < 2; ++kind) {
        const unsigned full = storage.full(kind, state.stage);
        const unsigned to = shared_address(kind ? storage.values(state.stage) : storage.keys(state.stage));
        barrier_wait(storage.empty(kind, state.stage), state.parity);
        if (elect_one()) {
          barrier_arrive_expect_tx(full, HALF_BYTES);
#pragma unroll
          for (int panel = 0; panel < PANELS; ++panel)
            tma_load<1>(
                to + panel * TILE_K * 128, row_map, (kind ? v : k) + matrix, panel * PANEL, tile * TILE_K, full);
        }
        __syncwarp();
      }
      state.next();
    }
    if (!PERSISTENT) break;
  }
}

// Products take sums as one array.
template <int WORDS>
__device__ __forceinline__ float (&flat(float (&sum)[WORDS][4]))[WORDS * 4] {
  return reinterpret_cast<float(&)[WORDS * 4]>(sum);
}

// The queries of a warpgroup as the left operand: in shared memory, or in registers, by which its products are faster
// and which the next ones may replace in shared memory at once.
struct Queries {
#if QUERIES_IN_REGISTERS
  unsigned word[DEEP / 16][4];
  __device__ __forceinline__ void load(const Storage& storage, int group) {
    const int lane = threadIdx.x % 32;
    const char* const from = storage.queries + (group * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4) * 128 + lane % 4 * 4;
#pragma unroll
    for (int d = 0; d < DEEP / 8; ++d) {
      const char* const at = from + d / 8 * TILE_Q * 128 + (d % 8 ^ lane / 4) * 16;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        word[d / 2][d % 2 * 2 + half] = *reinterpret_cast<const unsigned*>(at + half * 8 * 128);
    }
  }
  __device__ __forceinline__ const unsigned (&at(int d) const)[4] { return word[d / 16]; }
#else
  descriptor first;
  __device__ __forceinline__ void load(const Storage& storage, int group) {
    fence_proxy_async();
    first = make_descriptor(shared_address(storage.queries) + group * 64 * 128, 0);
  }
  __device__ __forceinline__ descriptor at(int d) const {
    return first + descriptor_offset(d / PANEL * TILE_Q * 128 + d % PANEL * 2);
  }
#endif
};

// Issues the product of queries and the keys of a stage.
__device__ __forceinline__ void multiply_keys(
    float (&score)[TILE_K / 8][4], const Storage& storage, const Queries& queries, PipelineState state) {
  barrier_wait(storage.full(0, state.stage), state.parity);
  const descriptor keys = make_descriptor(shared_address(storage.keys(state.stage)), 0);
  wgmma_fence();
#pragma unroll
  for (int d = 0; d < DEEP; d += 16)
    issue_scores(
        flat(score), queries.at(d), keys + descriptor_offset(d / PANEL * TILE_K * 128 + d % PANEL * 2), d > 0);
  wgmma_commit();
}

// Issues the product of exponentials and the values of a stage.
__device__ __forceinline__ void multiply_values(
    float (&out)[DEEP / 8][4], const unsigned (&weights)[TILE_K / 16][4], const Storage& storage, PipelineState state) {
  barrier_wait(storage.full(1, state.stage), state.parity);
  const descriptor values = make_descriptor(shared_address(storage.values(state.stage)), TILE_K * 128);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < TILE_K / 16; ++k)
    issue_values(flat(out), weights[k], values + descriptor_offset(k * 16 * 128), true);
  wgmma_commit();
}

__device__ __forceinline__ void pack_all(
    unsigned (&weights)[TILE_K / 16][4], const float (&score)[TILE_K / 8][4]) {
#pragma unroll
  for (int k = 0; k < TILE_K / 16; ++k) pack_left(weights[k], score, k);
}

// Keeps ptxas from moving the wait for products before the exponentials that overlap with them: it moves no wait past
// a possible sleep, and does not know that a sum of exponentials is never negative.
__device__ __forceinline__ void compute_before_waiting(float number) {
  if (number < 0.0f) __nanosleep(1);
}

// Main loop of a consumer warpgroup's 64 rows; `first` is the first of this warp's 16. Keys start at stage `state`.
__device__ __forceinline__ void consume(
    Sums& sums, const Storage& storage, const Queries& queries, const Work& work, int first, PipelineState& state,
    OrderedBarrier<PING_PONG>& order, const BIAS_ELEMENT* __restrict__ bias_of_all) {
  const int lane = threadIdx.x % 32;
  float score[TILE_K / 8][4], factor[2];
  unsigned weights[TILE_K / 16][4];
  Bias more;
  more.load(bias_of_all, work.matrix, work.begin * TILE_K, first + lane / 4, lane);
  PipelineState before = state;
  order.acquire();
  multiply_keys(score, storage, queries, state);
  order.release();
  wgmma_wait<0>();
  fence_accumulators(flat(score));
  if (lane == 0) barrier_arrive(storage.empty(0, state.stage));
  more.add(score);
  mask_tile(score, work.begin * TILE_K, first, lane);
  exponentials(score, sums.most, sums.total, factor);
  pack_all(weights, score);
#pragma unroll 1
  for (int tile = work.begin + 1; tile < work.end; ++tile) {
    state.next();
    more.load(bias_of_all, work.matrix, tile * TILE_K, first + lane / 4, lane);
    order.acquire();
    multiply_keys(score, storage, queries, state);
    multiply_values(sums.out, weights, storage, before);
    order.release();
    // Scores are complete; values are still being added.
    wgmma_wait<1>();
    fence_accumulators(flat(score));
    if (lane == 0) barrier_arrive(storage.empty(0, state.stage));
    more.add(score);
    mask_tile(score, tile * TILE_K, first, lane);
    exponentials(score, sums.most, sums.total, factor);
    compute_before_waiting(sums.total[0] + sums.total[1]);
    wgmma_wait<0>();
    fence_accumulators(flat(sums.out));
    if (lane == 0) barrier_arrive(storage.empty(1, before.stage));
    rescale(sums.out, factor);
    pack_all(weights, score);
    before = state;
  }
  if (PERSISTENT && !QUERIES_IN_REGISTERS && lane == 0) barrier_arrive(storage.queries_empty());
  multiply_values(sums.out, weights, storage, before);
  state.next();
  wgmma_wait<0>();
  fence_accumulators(flat(sums.out));
  if (PERSISTENT && lane == 0) barrier_arrive(storage.empty(1, before.stage));
}

#if SPLIT == 1
// Writes a warp's rows. Four threads hold 32 columns of a row in pairs; they transpose them by warp shuffles and write
// 16 bytes each, the remainder in pairs.
__device__ __forceinline__ void write_vectors(RESULT* __restrict__ to, const Sums& sums, int matrix, int row0, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + lane / 4 + half * 8;
    const float sum = sum_of_four(sums.total[half]), factor = sum > 0.0f ? 1.0f / sum : 0.0f;
    half_bits* const first = to + result_offset(matrix, row) + lane % 4 * 8;
#pragma unroll
    for (int d = 0; d + 4 <= D / 8; d += 4) {
      unsigned word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        word[i] = pack_pair(sums.out[d + i][half * 2] * factor, sums.out[d + i][half * 2 + 1] * factor);
      transpose_four(word, lane);
      if (row < ROWS) *reinterpret_cast<uint4*>(first + d * 8) = make_uint4(word[0], word[1], word[2], word[3]);
    }
#pragma unroll
    for (int d = D / 32 * 4; d < D / 8; ++d)
      if (row < ROWS)
        *reinterpret_cast<unsigned*>(first + d * 8 - lane % 4 * 6) =
            pack_pair(sums.out[d][half * 2] * factor, sums.out[d][half * 2 + 1] * factor);
  }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) attention_wgmma(
    const half_bits* __restrict__ q, const half_bits* __restrict__ k,
    const half_bits* __restrict__ v, BIAS_PARAMETER RESULT* __restrict__ to) {
  extern __shared__ float4 shared_memory[];
  const unsigned unaligned = shared_address(shared_memory) % 1024;
  Storage storage;
  storage.queries = reinterpret_cast<char*>(shared_memory) + (unaligned ? 1024 - unaligned : 0);
  storage.barriers = shared_address(storage.queries) + Q_BYTES + STAGES * STAGE_BYTES;
  if (threadIdx.x == 0) {
    prefetch_tensor_map(row_map);
    barrier_init(storage.queries_full(), COPIERS);
    barrier_init(storage.queries_empty(), WARPS);
    for (int group = 0; group < GROUPS; ++group) barrier_init(storage.turn(group), 4);
    for (int stage = 0; stage < STAGES; ++stage)
      for (int kind = 0; kind < 2; ++kind) {
        barrier_init(storage.full(kind, stage), 1);
        barrier_init(storage.empty(kind, stage), WARPS);
      }
    fence_mbarrier_init();
  }
  __syncthreads();

  const int group = threadIdx.x / 128;
  if (group == 0) {
    if (MOVE_REGISTERS) warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
    const int warp = threadIdx.x / 32;
    if (warp == 0) load_keys(storage, k + K_FIRST, v + V_FIRST);
    if (warp >= 2) copy_queries(storage, q, threadIdx.x - 64);
    return;
  }
  if (MOVE_REGISTERS) warpgroup_reg_alloc<CONSUMER_REGISTERS>();
  PipelineState state = {0, 0};
  OrderedBarrier<PING_PONG> order = {storage.turn(group - 1), storage.turn(group % GROUPS), group == 1};
  unsigned parity = 0;
#pragma unroll 1
  for (Rounds rounds; rounds.next();) {
    const Work work = work_of(rounds.number);
    const int first = work.row0 + (threadIdx.x / 32 - 4) * 16;
    Sums sums;
    sums.clear();
    barrier_wait(storage.queries_full(), parity);
    parity ^= 1;
    Queries queries;
    queries.load(storage, group - 1);
    if (PERSISTENT && QUERIES_IN_REGISTERS) {
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(storage.queries_empty());
    }
    if (work.begin < work.end)
      consume(sums, storage, queries, work, first, state, order, bias);
    else if (CAUSAL && QUERIES > KEYS && PERSISTENT && !QUERIES_IN_REGISTERS && threadIdx.x % 32 == 0)
      barrier_arrive(storage.queries_empty());  // rows that attend to no key
#if SPLIT > 1
    write_rows(to, sums, work.matrix, first, threadIdx.x % 32);
#else
    write_vectors(to, sums, work.matrix, first, threadIdx.x % 32);
#endif
    if (!PERSISTENT) break;
  }
}
