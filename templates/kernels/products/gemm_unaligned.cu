// C[M, N] = A[M, K] B[K, N] of 16-bit floats on Hopper's tensor cores, sums in float32, where rows of B, and with BY_CLASS
// those of A, begin anywhere in memory.
//
// Boxes of the bulk copy engine begin at multiples of 16 bytes. Rows that are a multiple of 8 apart begin as far behind
// one as one another, so every eighth row is a matrix that has boxes, and eight boxes bring a tile's part of B.
//
// A block owns tiles of TILE_M x TILE_N of C. What it multiplies is turned: rows of products are columns of C. Their
// left operand, B turned, comes from registers, which threads load from shared memory two or four bytes at a time,
// wherever boxes have put it. The right operand is A, which products read themselves: with BY_CLASS tiles have rows of
// one class, and what stands before them in a first box is set to 0.
//
// COPIERS warps have chunks of A and B copied into a ring of STAGES slots. The others multiply: four 64 columns of C.
// A slot goes around by two barriers: `full` when all copies into it have arrived, `empty` when all warps are done.
// SHARE blocks of a cluster have tiles of the same rows of C, and copy a part of A each for both. They have as many
// chunks as one another, and a block waits for whatever another sends: for the parts of all chunks, and that a slot is
// free, which is told only where another chunk is copied into it. So each may end when it is done.
#define DEFINE_OWN_PRODUCT(NAME, TURN) \
  DEFINE_LEFT_PRODUCT(NAME, TURN, OWN_COLUMNS, TILE_M / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)
DEFINE_OWN_PRODUCT(begin_product, ", 0")

__constant__ __align__(128) TensorMap a_maps[CLASSES] = {A_MAPS};
// What a copying warp does, the first of which copies A too.
__device__ __forceinline__ void copy_tiles(const Room& room, const Item* a, const Item* b, int warp) {
  Place place = {0, 1};
  const bool chosen = elected(), both = warp == 0;
  Boxes boxes = {{}, warp};
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
    const Tile tile = tile_of(number);
    if (!tile.exists()) continue;
    boxes.find(tile, b);
    // Rows of a class are a matrix that begins at the multiple of 16 bytes before the first of them.
    const Item* const matrix = a + static_cast<size_t>(tile.matrix) * A_STRIDE +
                               static_cast<size_t>(tile.row_class) * (BY_CLASS ? K : 0) - tile.shift;
    const int chunks = tile.chunks(), part = SHARE > 1 ? blockIdx.x % SHARE * PART : 0;
    int of_a = 0;
#pragma unroll
    for (int i = 0; i < TILE_M; i += PART) of_a += both && (i == 0 || tile.row(i) < M) ? PART * CHUNK * 2 : 0;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const unsigned full = room.full + place.slot * 8, to = room.slots + place.slot * SLOT_BYTES;
      barrier_wait(room.empty + place.slot * 8, place.parity);
      if (chosen) {
        barrier_expect(full, of_a + boxes.bytes(tile, chunk));
        if (both && (part == 0 || tile.row(part) < M))
          copy_box<SHARE>(to + part * 128, a_maps[tile.row_class], matrix, chunk * CHUNK, tile.first + part, full);
        boxes.copy(tile, chunk, to + A_BYTES, full);
      }
      __syncwarp();
      place.next();
    }
  }
}

// Sets all numbers but those from `first` up to `end` along K of a first step to 0.
__device__ __forceinline__ void keep_between(Left& left, int first, int end) {
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    const int k = threadIdx.x % 4 * 2 + word / 2 * 8;
    left[0][word] &= (k >= first && k < end ? 0xffffu : 0u) | (k + 1 >= first && k + 1 < end ? 0xffff0000u : 0u);
  }
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
  for (int row = static_cast<int>(threadIdx.x); row < TILE_M; row += MULTIPLIERS) {
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
  Lines lines;
  descriptor right;
  int again;  // How many chunks from the next on leave slots that are filled again.

  __device__ __forceinline__ void load(Left& left) {
    barrier_wait(room.full + place.slot * 8, place.parity);
    lines.load(left, room.slots + place.slot * SLOT_BYTES);
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
  __device__ __forceinline__ void multiply(float (&sum)[WORDS], const Tile& tile) {
    const bool epilogue = tile.chunks() > WHOLE_CHUNKS;
    Left left, other;
    lines.find(tile, true);
    load(left);
    if (MOST_BEFORE > 0) {
      keep_between(left, tile.shift, DEPTH);
      lines.find(tile, false);
    }
#pragma unroll 1
    for (int chunk = 0; chunk < WHOLE_CHUNKS - 1; chunk += 2) {
      begin<CHUNK / DEPTH>(sum, left, other, chunk == 0);
      load(other);
      begin<CHUNK / DEPTH>(sum, other, left, false);
      if (chunk + 2 < WHOLE_CHUNKS || epilogue) load(left);
    }
    if (WHOLE_CHUNKS % 2 > 0) {
      begin<CHUNK / DEPTH>(sum, left, other, WHOLE_CHUNKS == 1);
      if (epilogue) load(other);
    }
    if (REST_DEPTHS > 0 && epilogue) {
      if (!TRANSPOSE_B) {
        // The compiler has products wait for one another where operands change before those begun are done.
        products_wait<0>();
        keep_between(WHOLE_CHUNKS % 2 > 0 ? other : left, 0, K + tile.shift - WHOLE_CHUNKS * CHUNK);
      }
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

// Where a room has a number of a row. Where rows begin alike, the four words of a vector are turned from every second
// row to the next, so that lanes, whose columns are a vector apart, do not meet in a bank.
constexpr bool TURNED = BY_CLASS || N % 2 == 0;

__device__ __forceinline__ int place_in_room(int row, int column) {
  return row * PITCH + column / 8 * 16 + (column / 2 + TURNED * (row / 2)) % 4 * 4 + column % 2 * 2;
}

// Where a thread puts its two columns of a row: as a pair if the first begins at a multiple of 4 bytes.
struct Target {
  unsigned first, second;
  bool pair;

  __device__ __forceinline__ Target(const Tile& tile, int row) {
    const int column = Lines::column() + tile.shift_of_result(tile.row(row));
    first = place_in_room(row, column), second = place_in_room(row, column + 1), pair = column % 2 == 0;
  }

  __device__ __forceinline__ void put(unsigned room, unsigned numbers) const {
    if (pair) {
      *static_cast<unsigned*>(__cvta_shared_to_generic(room + first)) = numbers;
    } else {
      *static_cast<unsigned short*>(__cvta_shared_to_generic(room + first)) = static_cast<unsigned short>(numbers);
      *static_cast<unsigned short*>(__cvta_shared_to_generic(room + second)) = static_cast<unsigned short>(numbers >> 16);
    }
  }
};

// What a thread writes of rows of C: one vector of each of some rows, where it is whole, and one number before or
// behind the whole vectors of each of others. Rows of a tile that are a multiple of 8 apart begin alike.
struct Writer {
  static constexpr int AT_ONCE = 16, EDGES = 16, EDGES_AT_ONCE = MULTIPLIERS / EDGES;
  half_bits *vectors, *edges;
  int vector_row, edge_row, vector_from, edge_from;
  bool whole, edge;

  __device__ __forceinline__ Writer(half_bits* out, const Tile& tile) {
    const int thread = threadIdx.x, columns = N - tile.n < TILE_N ? N - tile.n : TILE_N;
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
    edge_from = place_in_room(edge_row, place);
  }

  // Returns a vector of one of the thread's rows, which all have turned words alike.
  __device__ __forceinline__ uint4 turned_back(uint4 x) const {
    if (TURNED && vector_row / 2 % 2) x = make_uint4(x.y, x.z, x.w, x.x);
    if (TURNED && vector_row / 4 % 2) x = make_uint4(x.z, x.w, x.x, x.y);
    return x;
  }

  // Writes those rows of a room that exist, the first of which is at `place` of the tile.
  __device__ __forceinline__ void write(const Tile& tile, unsigned room, int place) const {
    const int rows = TILE_M - place < BATCH_ROWS ? TILE_M - place : BATCH_ROWS;
#pragma unroll
    for (int i = 0; i < BATCH_ROWS; i += AT_ONCE)
      if (whole && vector_row + i < rows && tile.row(place + vector_row + i) < M)
        *reinterpret_cast<uint4*>(vectors + static_cast<size_t>(place + i) * CLASSES * N) =
            turned_back(*static_cast<const uint4*>(__cvta_shared_to_generic(room + vector_from + i * PITCH)));
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
__device__ __forceinline__ void multiply_tiles(const Room& room, EPILOGUE_PARAMETERS half_bits* __restrict__ out) {
  const int pair = threadIdx.x % 4 * 2;
  Multiplier multiplier = {room, {0, 0}, {0, 0}, {}, describe(room.slots, 0), 0};
  Meeting meeting = {room.meeting, 0};
  unsigned next_room = room.results;
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
    const Tile tile = tile_of(number);
    if (!tile.exists()) continue;
    if (tile.shift > 0) {
      barrier_wait(room.full + multiplier.place.slot * 8, multiplier.place.parity);
      clear_before(room.slots + multiplier.place.slot * SLOT_BYTES, tile.shift, meeting);
    }
    if (SHARE > 1) multiplier.again = tile.chunks() + chunks_behind(number) - STAGES;
    float sum[WORDS];
    multiplier.multiply(sum, tile);
    const size_t matrix = static_cast<size_t>(tile.matrix) * M * N;
#if FOLLOWS
    const EpilogueArgs epilogue = {bias, RESIDUAL ? residual + matrix : residual, scale, shift};
#endif
    const Writer writer(out + matrix, tile);
    // Of the first row of a thread and the second; those that are a multiple of 8 apart in a tile begin alike.
    const Target targets[2] = {{tile, pair}, {tile, pair + 1}};
    const int swapped = Lines::swapped(tile);
#pragma unroll
    for (int place = 0; place < TILE_M; place += BATCH_ROWS) {
#pragma unroll
      for (int j = 0; j < BATCH_ROWS; j += 8) {
        if (place + j >= TILE_M) break;
        float* const quad = sum + (place + j) / 2;
#pragma unroll
        for (int v = 0; v < 4; ++v) {
#if FOLLOWS
          const int m = tile.row(place + j + pair + v % 2), n = tile.n + Lines::column() + (v / 2 ^ swapped);
          if (m < M && n < N) {
            float one[1] = {quad[v]};
            finish<1>(one, epilogue, n, static_cast<size_t>(m) * N + n);
            quad[v] = one[0];
          }
#endif
          quad[v] = last_step(quad[v]);
        }
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const unsigned numbers = pack_pair(quad[row], quad[row + 2]);
          targets[row].put(next_room + j * PITCH, swapped ? numbers << 16 | numbers >> 16 : numbers);
        }
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
    const Item* __restrict__ a, const Item* __restrict__ b, EPILOGUE_PARAMETERS half_bits* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  const Room room = room_of(shared_memory);
  if (threadIdx.x / 32 == MULTIPLIERS / 32) {
    const int lane = threadIdx.x % 32;
    if (lane < LINE_CLASSES && PLACES == 1) fetch_map(b_maps[lane]);
    if (lane < CLASSES) fetch_map(a_maps[lane]);
  }
  if (threadIdx.x == 0) {
#pragma unroll
    for (int slot = 0; slot < STAGES; ++slot) {
      barrier_init(room.full + slot * 8, COPIERS);
      barrier_init(room.empty + slot * 8, SHARE * GROUPS * 4);
    }
    barrier_init(room.meeting, GROUPS * 4);
    barriers_are_ready();
  }
  __syncthreads();
#if SHARE > 1
  cluster_meet();
#endif
  if (threadIdx.x < MULTIPLIERS) {
    if (MOVE_REGISTERS) take_registers<SUM_REGISTERS>();
    multiply_tiles(room, REST_ARGUMENTS out);
  } else {
    if (MOVE_REGISTERS) give_registers<COPY_REGISTERS>();
    const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x - MULTIPLIERS) / 32, 0);
    if (warp < COPIERS) {
      // The kernel before, if any, copies A, which the first of these warps has brought: the others need not wait.
      if (warp == 0) wait_for_kernel_before();
      copy_tiles(room, a, b, warp);
    }
  }
}
