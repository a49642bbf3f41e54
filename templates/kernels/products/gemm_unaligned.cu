// C[M, N] = A[M, K] B[K, N] of 16-bit floats on Hopper's tensor cores, sums in float32, where rows of B, and with BY_CLASS
// those of A, begin anywhere in memory.
//
// A block owns tiles of TILE_M x TILE_N of C. What it multiplies is turned: rows of products are columns of C. Their
// left operand, B turned, comes from registers, which threads load from shared memory two bytes at a time, so that
// its rows may begin anywhere there too: each begins as far behind a multiple of 16 bytes as it does in memory, and
// was copied 16 bytes at a time. The right operand is A, by boxes of the bulk copy engine, which begin at multiples
// of 16 bytes. Rows that are a multiple of 8 apart begin as far behind one as one another, so with BY_CLASS they are
// matrices of their own, and tiles have rows of one. What stands before them in a first box is set to 0.
//
// The first warpgroup copies chunks of A and B into a ring of STAGES slots; the others multiply, each 64 columns of C.
// A slot goes around by two barriers: `full` when all copies into it have arrived, `empty` when all warps are done.
// SHARE blocks of a cluster have tiles of the same rows of C, and copy a part of A each for both. They have as many
// chunks as one another, and a block waits for whatever another sends: for the parts of all chunks, and that a slot is
// free, which is told only where another chunk is copied into it. So each may end when it is done.
#define DEFINE_OWN_PRODUCT(NAME, TURN) \
  DEFINE_LEFT_PRODUCT(NAME, TURN, OWN_COLUMNS, TILE_M / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)
DEFINE_OWN_PRODUCT(begin_product, ", 0")

__constant__ __align__(128) TensorMap a_maps[CLASSES] = {A_MAPS};

// Vectors of a chunk are copied in rounds: one by each thread, or of a last round by the first threads.
constexpr int COPIERS = 128, ROUNDS = (LINES * VECTORS + COPIERS - 1) / COPIERS;
constexpr int ALL_ROUNDS = LINES * VECTORS / COPIERS, LAST_ROUND = LINES * VECTORS % COPIERS;

// Copies 16 bytes, or the first `bytes` of them, of which the others become 0.
__device__ __forceinline__ void copy_vector(unsigned to, const Item* from) {
#ifdef AUTOTUNE_EMULATE
  __pipeline_memcpy_async(__cvta_shared_to_generic(to), from, 16);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#endif
}

__device__ __forceinline__ void copy_part(unsigned to, const Item* from, int bytes) {
#ifdef AUTOTUNE_EMULATE
  __pipeline_memcpy_async(__cvta_shared_to_generic(to), from, 16, 16 - bytes);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
#endif
}

// What a thread of the first warpgroup copies of B: of each chunk the vectors that are COPIERS from one another.
struct RowsAsTheyAre {
  const Item* __restrict__ b;
  int offset[ROUNDS];

  static __device__ __forceinline__ int offset_of(const Tile& tile, int vector) {
    const int line = vector / VECTORS;
    return line * LINE - tile.shift_of_line(line) + vector % VECTORS * 8;
  }

  // Finds where vectors are, from the begin of the tile's part of a chunk on.
  __device__ __forceinline__ void find(const Tile& tile) {
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) offset[i] = offset_of(tile, static_cast<int>(threadIdx.x) + i * COPIERS);
  }

  // Returns whether all vectors of a chunk from k on are in the matrix, or in rows beyond the tile's.
  static __device__ __forceinline__ bool are_whole(const Tile& tile, int k, long long begin) {
    if (TRANSPOSE_B) return k >= 8 && k + CHUNK + 8 <= K && tile.n + TILE_N <= N;
    return k >= 0 && begin + (CHUNK - 1) * static_cast<long long>(N) + TILE_N + 8 <= static_cast<long long>(K) * N;
  }

  // Returns how many bytes of a vector are read; the others are beyond K, and become 0.
  static __device__ __forceinline__ int bytes_of(const Tile& tile, int k, long long begin, int vector, int offset) {
    const int line = vector / VECTORS;
    long long left;
    if (TRANSPOSE_B) {
      left = K - k - vector % VECTORS * 8 + tile.shift_of_line(line);
      if (tile.n + line >= N || (tile.matrix == 0 && begin + offset < 0)) return 0;
    } else {
      left = static_cast<long long>(K) * N - begin - offset;
      if (k + line < 0 || k + line >= K) return 0;
    }
    return left <= 0 ? 0 : left < 8 ? static_cast<int>(left) * 2 : 16;
  }

  // Copies the vectors of a chunk. Most chunks are whole, and each vector is few instructions.
  __device__ __forceinline__ void copy(const Tile& tile, int chunk, unsigned to) const {
    const int k = chunk * CHUNK - tile.shift;
    const long long begin = tile.begin_of_b(k);
    const Item* const from = b + static_cast<long long>(tile.matrix) * B_STRIDE + begin;
    to += threadIdx.x * 16;
    if (are_whole(tile, k, begin)) {
#pragma unroll
      for (int i = 0; i < ROUNDS; ++i)
        if (i < ALL_ROUNDS || threadIdx.x < LAST_ROUND) copy_vector(to + i * COPIERS * 16, from + offset[i]);
    } else {
#pragma unroll 1
      for (int vector = threadIdx.x; vector < LINES * VECTORS; vector += COPIERS) {
        const int at = offset_of(tile, vector), bytes = bytes_of(tile, k, begin, vector, at);
        copy_part(to, bytes > 0 ? from + at : b, bytes);
        to += COPIERS * 16;
      }
    }
  }
};

// What the first warpgroup does.
__device__ __forceinline__ void copy_tiles(const Room& room, const Item* a, const Item* b) {
  RowsAsTheyAre rows = {b, {}};
  Place place = {0, 1};
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
    const Tile tile = tile_of(number);
    if (!tile.exists()) continue;
    rows.find(tile);
    // Rows of a class are a matrix that begins at the multiple of 16 bytes before the first of them.
    const Item* const matrix = a + static_cast<size_t>(tile.matrix) * A_STRIDE +
                               static_cast<size_t>(tile.row_class) * (BY_CLASS ? K : 0) - tile.shift;
    const int chunks = tile.chunks();
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const unsigned full = room.full + place.slot * 8, to = room.slots + place.slot * SLOT_BYTES;
      barrier_wait(room.empty + place.slot * 8, place.parity);
      if (threadIdx.x < 32 && elected()) {
        const int part = SHARE > 1 ? blockIdx.x % SHARE * PART : 0;
        barrier_expect(full, SHARE == 1 || tile.row(PART) < M ? A_BYTES : PART * CHUNK * 2);
        if (part == 0 || tile.row(part) < M)
          copy_box<SHARE>(to + part * 128, a_maps[tile.row_class], matrix, chunk * CHUNK, tile.first + part, full);
      }
      __syncwarp();
      rows.copy(tile, chunk, to + A_BYTES);
      copy_arrive(full);
      place.next();
    }
  }
}

__device__ __forceinline__ unsigned number_at(unsigned address) {
  return *static_cast<const unsigned short*>(__cvta_shared_to_generic(address));
}

// What a thread holds of B turned: of a chunk's four steps along K, rows lane / 4 and lane / 4 + 8 of its warp's.
typedef unsigned Left[CHUNK / DEPTH][4];

// Loads it. `even` and `odd` are where the thread's first number is, and that behind it along K.
__device__ __forceinline__ void load_left(Left& left, unsigned even, unsigned odd) {
#pragma unroll
  for (int step = 0; step < CHUNK / DEPTH; ++step)
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const int at = (step * DEPTH + word / 2 * 8) * ALONG_K + word % 2 * 8 * ACROSS_K;
      left[step][word] = number_at(even + at) | number_at(odd + at) << 16;
    }
}

// Sets what stands before a row of B that runs along K to 0: fewer than eight numbers.
__device__ __forceinline__ void clear_left(Left& left, int count, int k) {
#pragma unroll
  for (int word = 0; word < 2; ++word)
    left[0][word] &= (k >= count ? 0xffffu : 0u) | (k + 1 >= count ? 0xffff0000u : 0u);
}

// Keeps registers as they are until products that read them are done.
__device__ __forceinline__ void left_is_read(const Left& left) {
#ifndef AUTOTUNE_EMULATE
#pragma unroll
  for (int i = 0; i < CHUNK / DEPTH * 4; ++i) asm volatile("" ::"r"(left[i / 4][i % 4]) : "memory");
#endif
}

// Sets what stands before the rows of a class to 0.
__device__ __forceinline__ void clear_before(unsigned slot, int count, Meeting& meeting) {
  for (int row = static_cast<int>(threadIdx.x) - COPIERS; row < TILE_M; row += GROUPS * 128) {
    unsigned short* const to =
        static_cast<unsigned short*>(__cvta_shared_to_generic(slot + row * 128 + row % 8 * 16));
    for (int i = 0; i < count; ++i) to[i] = 0;
  }
  show_to_products();
  meeting.meet();
}

struct Multiplier {
  const Room& room;
  Place place, before;
  unsigned even, odd;  // in a slot
  descriptor right;
  int again;  // How many chunks from the next on leave slots that are filled again.

  __device__ __forceinline__ void load(Left& left) {
    barrier_wait(room.full + place.slot * 8, place.parity);
    const unsigned slot = room.slots + place.slot * SLOT_BYTES;
    load_left(left, slot + even, slot + odd);
  }

  // Begins the products of a chunk, or of its first DEPTHS along K, whose left operand is there, and waits for those of
  // the chunk before, which read `before_left`.
  template <int DEPTHS>
  __device__ __forceinline__ void begin(float (&sum)[WORDS], const Left& left, const Left& before_left, bool first) {
    products_fence();
    const descriptor slot = right + further(SLOT_BYTES) * static_cast<descriptor>(place.slot);
#pragma unroll
    for (int i = 0; i < DEPTHS; ++i) begin_product(sum, left[i], slot + further(i * DEPTH * 2), !first || i > 0);
    products_commit();
    if (!first) {
      products_wait<1>();
      left_is_read(before_left);
      leave();
    }
    before = place;
    place.next();
  }

  // Says that a warp is done with the chunk before.
  __device__ __forceinline__ void leave() {
    const unsigned lane = threadIdx.x % 32;
    arrive_at<SHARE>(room.empty + before.slot * 8, lane, lane < SHARE && (SHARE == 1 || again > 0));
    if (SHARE > 1) --again;
  }

  // Multiplies the chunks of a tile: while one is multiplied, the left operand of the next is loaded.
  __device__ __forceinline__ void multiply(float (&sum)[WORDS], int before_rows, bool rest) {
    Left left, other;
    load(left);
    if (TRANSPOSE_B && MOST_BEFORE > 0) clear_left(left, before_rows, threadIdx.x % 4 * 2);
#pragma unroll 1
    for (int chunk = 0; chunk < WHOLE_CHUNKS - 1; chunk += 2) {
      begin<CHUNK / DEPTH>(sum, left, other, chunk == 0);
      load(other);
      begin<CHUNK / DEPTH>(sum, other, left, false);
      if (chunk + 2 < WHOLE_CHUNKS || rest) load(left);
    }
    if (WHOLE_CHUNKS % 2 > 0) {
      begin<CHUNK / DEPTH>(sum, left, other, WHOLE_CHUNKS == 1);
      if (rest) load(other);
    }
    if (REST_DEPTHS > 0 && rest) {
      if (WHOLE_CHUNKS % 2 > 0) begin<REST_DEPTHS>(sum, other, left, false);
      else begin<REST_DEPTHS>(sum, left, other, WHOLE_CHUNKS == 0);
    }
    products_wait<0>();
    left_is_read(left);
    left_is_read(other);
    sums_are_new(sum);
    leave();
  }
};

// Finishes four sums of 8 rows of C, and puts them into a room: `even` and `odd` are where the first two go.
__device__ __forceinline__ void fill_room(const float* quad, unsigned even, unsigned odd) {
  const unsigned first = pack_pair(quad[0], quad[1]), second = pack_pair(quad[2], quad[3]);
  unsigned short* const to = static_cast<unsigned short*>(__cvta_shared_to_generic(even));
  unsigned short* const next = static_cast<unsigned short*>(__cvta_shared_to_generic(odd));
  to[0] = static_cast<unsigned short>(first), next[0] = static_cast<unsigned short>(first >> 16);
  to[8] = static_cast<unsigned short>(second), next[8] = static_cast<unsigned short>(second >> 16);
}

// What a thread writes of rows of C: one vector of each of some rows, where it is whole, and one number before or
// behind the whole vectors of each of others. Rows of a tile that are a multiple of 8 apart begin alike.
struct Writer {
  static constexpr int AT_ONCE = 16, EDGES = 16, EDGES_AT_ONCE = GROUPS * 128 / EDGES;
  half_bits *vectors, *edges;
  int vector_row, edge_row, vector_from, edge_from;
  bool whole, edge;

  __device__ __forceinline__ Writer(half_bits* out, const Tile& tile) {
    const int thread = static_cast<int>(threadIdx.x) - COPIERS, columns = N - tile.n < TILE_N ? N - tile.n : TILE_N;
    const int vector = thread % (TILE_N / 8), number = thread % EDGES;
    vector_row = thread / (TILE_N / 8), edge_row = thread / EDGES;
    const int shift = tile.shift_of_result(tile.row(vector_row)), column = vector * 8 - shift;
    whole = column >= 0 && column + 8 <= columns;
    vectors = out + static_cast<size_t>(tile.row(vector_row)) * N + tile.n + column;
    vector_from = vector_row * PITCH + vector * 16;
    const int edge_shift = tile.shift_of_result(tile.row(edge_row)), end = edge_shift + columns;
    const int place = number < 8 ? number : end / 8 * 8 + number - 8;
    edge = number < 8 ? edge_shift > 0 && place >= edge_shift && place < end
                      : place < end && (end >= 8 || edge_shift == 0);
    edges = out + static_cast<size_t>(tile.row(edge_row)) * N + tile.n + place - edge_shift;
    edge_from = edge_row * PITCH + place * 2;
  }

  // Writes those rows of a room that exist, the first of which is at `place` of the tile.
  __device__ __forceinline__ void write(const Tile& tile, unsigned room, int place) const {
    const int rows = TILE_M - place < BATCH_ROWS ? TILE_M - place : BATCH_ROWS;
#pragma unroll
    for (int i = 0; i < BATCH_ROWS; i += AT_ONCE)
      if (whole && vector_row + i < rows && tile.row(place + vector_row + i) < M)
        *reinterpret_cast<uint4*>(vectors + static_cast<size_t>(place + i) * CLASSES * N) =
            *static_cast<const uint4*>(__cvta_shared_to_generic(room + vector_from + i * PITCH));
#pragma unroll
    for (int i = 0; i < BATCH_ROWS; i += EDGES_AT_ONCE)
      if (edge && edge_row + i < rows && tile.row(place + edge_row + i) < M)
        edges[static_cast<size_t>(place + i) * CLASSES * N] =
            *static_cast<const half_bits*>(__cvta_shared_to_generic(room + edge_from + i * PITCH));
  }
};

// Returns how many chunks follow a tile in a block's walk, or at least STAGES.
__device__ __forceinline__ int chunks_behind(unsigned number) {
  int chunks = 0;
#pragma unroll 1
  for (number += gridDim.x; number < TILES && chunks < STAGES; number += gridDim.x) {
    const Tile tile = tile_of(number);
    if (tile.exists()) chunks += tile.chunks();
  }
  return chunks;
}

// What a multiplying warpgroup does.
__device__ __forceinline__ void multiply_tiles(
    const Room& room, REST_PARAMETERS half_bits* __restrict__ out, int group) {
  const int lane = threadIdx.x % 32, own = group * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4, pair = lane % 4 * 2;
  Multiplier multiplier = {room, {0, 0}, {0, 0}, 0, 0, describe(room.slots, 0), 0};
  Meeting meeting = {room.meeting, 0};
  unsigned next_room = room.results;
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
    const Tile tile = tile_of(number);
    if (!tile.exists()) continue;
    const unsigned first = A_BYTES + pair * ALONG_K + own * ACROSS_K;
    multiplier.even = first + tile.shift_of_line(TRANSPOSE_B ? own : pair) * 2;
    multiplier.odd = first + ALONG_K + tile.shift_of_line(TRANSPOSE_B ? own : pair + 1) * 2;
    if (tile.shift > 0) {
      barrier_wait(room.full + multiplier.place.slot * 8, multiplier.place.parity);
      clear_before(room.slots + multiplier.place.slot * SLOT_BYTES, tile.shift, meeting);
    }
    if (SHARE > 1) multiplier.again = tile.chunks() + chunks_behind(number) - STAGES;
    float sum[WORDS];
    multiplier.multiply(sum, tile.shift, tile.chunks() > WHOLE_CHUNKS);
    const size_t matrix = static_cast<size_t>(tile.matrix) * M * N;
#if FOLLOWS
    const Rest rest = {bias, RESIDUAL ? residual + matrix : residual, scale, shift};
#endif
    const Writer writer(out + matrix, tile);
    // Of the first row of a thread and the second; those that are a multiple of 8 apart in a tile begin alike.
    const unsigned even = pair * PITCH + (own + tile.shift_of_result(tile.row(pair))) * 2;
    const unsigned odd = (pair + 1) * PITCH + (own + tile.shift_of_result(tile.row(pair + 1))) * 2;
#pragma unroll
    for (int place = 0; place < TILE_M; place += BATCH_ROWS) {
#pragma unroll
      for (int j = 0; j < BATCH_ROWS; j += 8) {
        if (place + j >= TILE_M) break;
        float* const quad = sum + (place + j) / 2;
#pragma unroll
        for (int v = 0; v < 4; ++v) {
#if FOLLOWS
          const int m = tile.row(place + j + pair + v % 2), n = tile.n + own + v / 2 * 8;
          if (m < M && n < N) {
            float one[1] = {quad[v]};
            finish<1>(one, rest, n, static_cast<size_t>(m) * N + n);
            quad[v] = one[0];
          }
#endif
          quad[v] = last_step(quad[v]);
        }
        fill_room(quad, next_room + even + j * PITCH, next_room + odd + j * PITCH);
      }
      meeting.meet();
      writer.write(tile, next_room, place);
      next_room = next_room == room.results ? room.results + ROOM_BYTES : room.results;
    }
  }
}

#if FOLLOWS
#define REST_ARGUMENTS bias, residual, scale, shift,
#else
#define REST_ARGUMENTS
#endif

#if SHARE > 1
#define SHARED_SHAPE __cluster_dims__(SHARE, 1, 1)
#else
#define SHARED_SHAPE
#endif

extern "C" __global__ void SHARED_SHAPE __launch_bounds__(THREADS, RESIDENT) gemm_unaligned(
    const Item* __restrict__ a, const Item* __restrict__ b, REST_PARAMETERS half_bits* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  const Room room = room_of(shared_memory);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int slot = 0; slot < STAGES; ++slot) {
      barrier_init(room.full + slot * 8, COPIERS + 1);
      barrier_init(room.empty + slot * 8, SHARE * GROUPS * 4);
    }
    barrier_init(room.meeting, GROUPS * 4);
    barriers_are_ready();
  }
  __syncthreads();
#if SHARE > 1
  cluster_meet();
#endif
  if (threadIdx.x < COPIERS) {
    if (MOVE_REGISTERS) give_registers<COPY_REGISTERS>();
    wait_for_kernel_before();
    copy_tiles(room, a, b);
  } else {
    if (MOVE_REGISTERS) take_registers<SUM_REGISTERS>();
    multiply_tiles(room, REST_ARGUMENTS out, threadIdx.x / 128 - 1);
  }
}
