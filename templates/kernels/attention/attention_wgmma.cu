// softmax(Q K^T * scale) V on Hopper's tensor cores: 16-bit floats, sums and exponentials in float32.
//
// The first warpgroup of a block copies the queries, and keys and values into a ring of STAGES slots; each of
// the others has 64 rows. While the exponentials of a chunk are computed, the values of the chunk before are
// multiplied, and the scores of other warpgroups. Keys and values of a slot go around by two barriers each:
// `full` when the copies into them have arrived, `empty` when all multiplying warps are done with them. Rows in
// shared memory are whole panels, of which what is beyond D is 0, and products have DEEP columns of them.
//
// With WALKS, where there are more rows than the blocks of a device have at a time, blocks walk over them, and copy the
// next queries and keys while the last results are made and written.
constexpr int BLOCKS = TILES * MATRICES, GROUPS = WARPS / 4, PANELS = (D + PANEL - 1) / PANEL, WIDE = PANELS * PANEL;
constexpr int Q_BYTES = TILE_Q * WIDE * 2, HALF_BYTES = TILE_K * WIDE * 2, SLOT_BYTES = 2 * HALF_BYTES;
constexpr int ENTRY_REGISTERS = 65536 / (THREADS * RESIDENT) / 8 * 8, COPY_REGISTERS = 40;
constexpr int LEFT_OVER = (ENTRY_REGISTERS * (GROUPS + 1) - COPY_REGISTERS) / GROUPS / 8 * 8;
constexpr int SUM_REGISTERS = LEFT_OVER < 240 ? LEFT_OVER : 240;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240;
// Two warpgroups begin products in turn, so that while those of one are at work the other computes exponentials
// ("ping-pong" in FlashAttention-3): else both wait for one chunk, and then for the same units. Of three, two are
// at work anyway, and turns would keep them waiting.
constexpr bool IN_TURNS = GROUPS == 2;
static_assert(TILE_K % 64 == 0, "panels are 64 wide");
DEFINE_PRODUCTS(begin_scores, ", 0, 0")
DEFINE_LEFT_PRODUCT(begin_values, ", 1", OWN_COLUMNS, DEEP / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)

// A place in the ring: slots are used in turn, and `parity` changes with every turn.
struct Place {
  int slot;
  unsigned parity;
  __device__ __forceinline__ void next() {
    if (++slot < STAGES) return;
    slot = 0;
    parity ^= 1;
  }
};

// Shared memory: queries, slots of keys and of values, and barriers, of 8 bytes each.
struct Ring {
  char* queries;
  unsigned barriers;
  __device__ __forceinline__ char* keys(int slot) const { return queries + Q_BYTES + slot * SLOT_BYTES; }
  __device__ __forceinline__ char* values(int slot) const { return keys(slot) + HALF_BYTES; }
  __device__ __forceinline__ unsigned queries_full() const { return barriers; }
  // Of keys, KIND 0, or values, 1.
  __device__ __forceinline__ unsigned full(int kind, int slot) const { return barriers + 8 + (2 * slot + kind) * 8; }
  __device__ __forceinline__ unsigned empty(int kind, int slot) const {
    return barriers + 8 + (2 * STAGES + 2 * slot + kind) * 8;
  }
  // By which a warpgroup gets its turn to begin products.
  __device__ __forceinline__ unsigned turn(int group) const { return barriers + 8 + (4 * STAGES + group) * 8; }
  // Where all warps are done with the queries.
  __device__ __forceinline__ unsigned queries_empty() const { return turn(GROUPS); }
};

// Copies rows of D elements into panels of COUNT rows; `from` tells where a row begins, `exists` whether there
// is one: else it becomes 0.
template <int COUNT, class From, class Exists>
__device__ __forceinline__ void copy_rows(char* to, int tid, From from, Exists exists) {
  const int row = tid / 8, vector = tid % 8;
  char* const at = to + row * 128 + (vector ^ row % 8) * 16;
#pragma unroll
  for (int i = 0; i < COUNT; i += 16) {
    const half_bits* const source = from(row + i) + vector * 8;
    const bool valid = exists(row + i);
#pragma unroll
    for (int panel = 0; panel < PANELS; ++panel)
      copy_async<4>(reinterpret_cast<float*>(at + (panel * COUNT + i) * 128),
                    reinterpret_cast<const float*>(source + panel * PANEL),
                    valid && (D == WIDE || panel * PANEL + vector * 8 < D));
  }
}

__device__ __forceinline__ void copy_all(
    const Ring& ring, const half_bits* __restrict__ q, const half_bits* __restrict__ k,
    const half_bits* __restrict__ v) {
  const int tid = threadIdx.x;
  Place place = {0, 1};
  unsigned parity = 1;
#pragma unroll 1
  for (int block = blockIdx.x; block < BLOCKS; block += gridDim.x) {
    const Work work = work_of(block);
    const size_t matrix = keys_begin(work.matrix);
    if (WALKS) barrier_wait(ring.queries_empty(), parity);
    parity ^= 1;
    copy_rows<TILE_Q>(
        ring.queries, tid, [&](int row) { return q + query_begin(work.matrix, work.row0 + row); },
        [&](int row) { return work.row0 + row < ROWS; });
    copy_arrive(ring.queries_full());
#pragma unroll 1
    for (int chunk = work.begin; chunk < work.end; ++chunk) {
      const int key0 = chunk * TILE_K;
#pragma unroll
      for (int kind = 0; kind < 2; ++kind) {
        const half_bits* const from = (kind ? v : k) + matrix + static_cast<size_t>(key0) * K_ROW;
        barrier_wait(ring.empty(kind, place.slot), place.parity);
        copy_rows<TILE_K>(
            kind ? ring.values(place.slot) : ring.keys(place.slot), tid,
            [&](int row) { return from + row * K_ROW; },
            [&](int row) { return KEYS % TILE_K == 0 || key0 + row < KEYS; });
        copy_arrive(ring.full(kind, place.slot));
      }
      place.next();
    }
    if (!WALKS) break;
  }
  copy_commit();
  copy_wait<0>();
}

// Products take sums as one array.
template <int WORDS>
__device__ __forceinline__ float (&flat(float (&sum)[WORDS][4]))[WORDS * 4] {
  return reinterpret_cast<float(&)[WORDS * 4]>(sum);
}

// Begins the scores of the keys in a slot.
__device__ __forceinline__ void multiply_keys(
    float (&score)[TILE_K / 8][4], const Ring& ring, descriptor queries, Place place) {
  barrier_wait(ring.full(0, place.slot), place.parity);
  show_to_products();
  const descriptor keys = describe(shared_address(ring.keys(place.slot)), 0);
  products_fence();
#pragma unroll
  for (int d = 0; d < DEEP; d += 16) {
    const int inside = d % PANEL * 2;
    begin_scores(flat(score), queries + further(d / PANEL * TILE_Q * 128 + inside),
                 keys + further(d / PANEL * TILE_K * 128 + inside), d > 0);
  }
  products_commit();
}

// Begins to add the values in a slot, weighed by exponentials.
__device__ __forceinline__ void multiply_values(
    float (&out)[DEEP / 8][4], const unsigned (&weights)[TILE_K / 16][4], const Ring& ring, Place place) {
  barrier_wait(ring.full(1, place.slot), place.parity);
  show_to_products();
  const descriptor values = describe(shared_address(ring.values(place.slot)), TILE_K * 128);
  products_fence();
#pragma unroll
  for (int k = 0; k < TILE_K / 16; ++k)
    begin_values(flat(out), weights[k], values + further(k * 16 * 128), true);
  products_commit();
}

__device__ __forceinline__ void pack_all(
    unsigned (&weights)[TILE_K / 16][4], const float (&score)[TILE_K / 8][4]) {
#pragma unroll
  for (int k = 0; k < TILE_K / 16; ++k) pack_left(weights[k], score, k);
}

// Keeps the assembler from moving a wait for products, with which exponentials are to overlap, to before them:
// it moves none past what may sleep, and knows not that a sum of exponentials is never less than 0.
__device__ __forceinline__ void compute_before_waiting(float number) {
  if (number < 0.0f) __nanosleep(1);
}

// Sums up a warpgroup's 64 rows; `first` is the first of this warp's 16. Keys stand from `place` on.
__device__ __forceinline__ void sum_up(
    Sums& sums, const Ring& ring, const Work& work, int group, int first, Place& place, Turn<IN_TURNS>& turn) {
  const int lane = threadIdx.x % 32;
  const descriptor queries = describe(shared_address(ring.queries) + group * 64 * 128, 0);
  float score[TILE_K / 8][4], factor[2];
  unsigned weights[TILE_K / 16][4];
  Place before = place;
  turn.take();
  multiply_keys(score, ring, queries, place);
  turn.pass_on();
  products_wait<0>();
  sums_are_new(flat(score));
  if (lane == 0) barrier_arrive(ring.empty(0, place.slot));
  mask_border(score, work.begin * TILE_K, first, lane);
  exponentials(score, sums.most, sums.total, factor);
  pack_all(weights, score);
#pragma unroll 1
  for (int chunk = work.begin + 1; chunk < work.end; ++chunk) {
    place.next();
    turn.take();
    multiply_keys(score, ring, queries, place);
    multiply_values(sums.out, weights, ring, before);
    turn.pass_on();
    // Scores are complete; values are still being added.
    products_wait<1>();
    sums_are_new(flat(score));
    if (lane == 0) barrier_arrive(ring.empty(0, place.slot));
    mask_border(score, chunk * TILE_K, first, lane);
    exponentials(score, sums.most, sums.total, factor);
    compute_before_waiting(sums.total[0] + sums.total[1]);
    products_wait<0>();
    sums_are_new(flat(sums.out));
    if (lane == 0) barrier_arrive(ring.empty(1, before.slot));
    rescale(sums.out, factor);
    pack_all(weights, score);
    before = place;
  }
  if (WALKS && lane == 0) barrier_arrive(ring.queries_empty());
  multiply_values(sums.out, weights, ring, before);
  place.next();
  products_wait<0>();
  sums_are_new(flat(sums.out));
  if (WALKS && lane == 0) barrier_arrive(ring.empty(1, before.slot));
}

// Writes a warp's rows. Four threads hold 32 columns of a row in pairs; they exchange them and write 16 bytes each,
// and what is left over in pairs.
__device__ __forceinline__ void write_vectors(RESULT* __restrict__ to, const Sums& sums, int matrix, int row0, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + lane / 4 + half * 8;
    const float sum = sum_of_four(sums.total[half]), factor = sum > 0.0f ? 1.0f / sum : 0.0f;
    half_bits* const begin = to + result_begin(matrix, row) + lane % 4 * 8;
#pragma unroll
    for (int d = 0; d + 4 <= D / 8; d += 4) {
      unsigned word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        word[i] = pack_pair(sums.out[d + i][half * 2] * factor, sums.out[d + i][half * 2 + 1] * factor);
      transpose_four(word, lane);
      if (row < ROWS) *reinterpret_cast<uint4*>(begin + d * 8) = make_uint4(word[0], word[1], word[2], word[3]);
    }
#pragma unroll
    for (int d = D / 32 * 4; d < D / 8; ++d)
      if (row < ROWS)
        *reinterpret_cast<unsigned*>(begin + d * 8 - lane % 4 * 6) =
            pack_pair(sums.out[d][half * 2] * factor, sums.out[d][half * 2 + 1] * factor);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) attention_wgmma(
    const half_bits* __restrict__ q, const half_bits* __restrict__ k,
    const half_bits* __restrict__ v, RESULT* __restrict__ to) {
  extern __shared__ float4 shared_memory[];
  const unsigned unaligned = shared_address(shared_memory) % 1024;
  Ring ring;
  ring.queries = reinterpret_cast<char*>(shared_memory) + (unaligned ? 1024 - unaligned : 0);
  ring.barriers = shared_address(ring.queries) + Q_BYTES + STAGES * SLOT_BYTES;
  if (threadIdx.x == 0) {
    barrier_init(ring.queries_full(), 128);
    barrier_init(ring.queries_empty(), WARPS);
    for (int group = 0; group < GROUPS; ++group) barrier_init(ring.turn(group), 4);
    for (int slot = 0; slot < STAGES; ++slot)
      for (int kind = 0; kind < 2; ++kind) {
        barrier_init(ring.full(kind, slot), 128);
        barrier_init(ring.empty(kind, slot), WARPS);
      }
  }
  __syncthreads();

  const int group = threadIdx.x / 128;
  if (group == 0) {
    if (MOVE_REGISTERS) give_registers<COPY_REGISTERS>();
    copy_all(ring, q, k + K_FIRST, v + V_FIRST);
    return;
  }
  if (MOVE_REGISTERS) take_registers<SUM_REGISTERS>();
  Place place = {0, 0};
  Turn<IN_TURNS> turn = {ring.turn(group - 1), ring.turn(group % GROUPS), group == 1};
  unsigned parity = 0;
#pragma unroll 1
  for (int block = blockIdx.x; block < BLOCKS; block += gridDim.x) {
    const Work work = work_of(block);
    const int first = work.row0 + (threadIdx.x / 32 - 4) * 16;
    Sums sums;
    sums.clear();
    barrier_wait(ring.queries_full(), parity);
    parity ^= 1;
    if (work.begin < work.end) sum_up(sums, ring, work, group - 1, first, place, turn);
    write_vectors(to, sums, work.matrix, first, threadIdx.x % 32);
    if (!WALKS) break;
  }
}
