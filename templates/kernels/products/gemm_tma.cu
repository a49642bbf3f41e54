// C[M, N] = A[M, K] B[K, N] of 16-bit floats, or floats as TF32, on Hopper's tensor cores, sums in float32; operands.h
// says how A and B are stored. With INT8 two integers of 8 bits stand in each 16-bit place, K counts those, and C and the sums are of
// 32 bits. Of the rows and columns of C those before C_M and C_N exist.
//
// A block owns a tile of TILE_M x TILE_N of C and one of SPLIT ranges of K, or, with TEAMS, walks over tiles. One
// thread of its first warpgroup has chunks of A and B copied into a ring of STAGES slots of shared memory, of one
// tile after another; the others multiply, each FRAGS_M * 64 rows of a tile by all its columns. A slot goes
// around by two barriers: `full` when the copies into it have arrived, `empty` when all multiplying warps are
// done with it. With several teams of GROUPS warpgroups each has every other tile, and writes one while another
// multiplies the next. SHARE blocks of a cluster have tiles of the same columns, and copy a part of B each for all
// of them; BESIDE blocks have tiles of the same rows, and do so with A. The blocks of a split write their sums as they
// hold them; gemm_tma_reduce.cu adds them up. With SWAPPED A and B have changed places, and rows of tiles, of which
// there are M, are columns of C; C_M and C_N are as ever.
//
// Blocks of a cluster write to each other's shared memory, which is there until a block ends, but none waits for the
// others at the end. They have as many tiles and chunks as one another, and what comes from another block is a part of
// a chunk or says that a slot is free. Products wait for all parts of all chunks. That a slot is free is told only
// where another chunk is copied into it, and that copy waits until all have told. So a block waits for whatever comes,
// and nothing is under way to one that has ended.

// How many bytes behind its begin an operand of TILE rows or columns has those from `across` on, and of
// these what is `k` further along K.
template <bool ALONG_K, int TILE>
__device__ __forceinline__ constexpr int bytes_to(int across, int k) {
  return ALONG_K ? k / PANEL * TILE * 128 + k % PANEL * static_cast<int>(sizeof(Item)) + across * 128
                 : across / PANEL * CHUNK * 128 + k * 128;
}

#if LOADED
// Where a thread reads its words of the left operand, of which a panel has a row for each k. Products take those of k
// and k + 4 of eight; threads of every other four rows read the latter first, so that none meets a bank twice.
typedef unsigned LeftPlace;

__device__ __forceinline__ unsigned load_shared(unsigned at) {
#ifdef AUTOTUNE_EMULATE
  return *static_cast<const unsigned*>(__cvta_shared_to_generic(at));
#else
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
#endif
}

__device__ __forceinline__ LeftPlace left_place(unsigned slots, int group) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, k = lane % 4 + lane / 16 * 4;
  const int column = warp % 2 * 16 + lane / 4;
  return slots + bytes_to<A_ALONG_K, TILE_M>(group * FRAGS_M * 64 + warp / 2 * 32, k) + (column * 4 ^ k * 16);
}

// Begins the products of a chunk from one item along K to another, when those that read these registers are done.
template <int FROM, int TO>
__device__ __forceinline__ void begin_products(
    Sum (&sum)[FRAGS_M][WORDS], LeftPlace left, descriptor right, bool add) {
  constexpr int STEPS = (TO - FROM) / DEPTH;
  unsigned words[STEPS][FRAGS_M][4];
  const bool later_first = threadIdx.x % 32 >= 16;
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i) {
      const unsigned at = bytes_to<A_ALONG_K, TILE_M>(i * 64, FROM + step * DEPTH);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned first = load_shared((left ^ half * 32) + at);
        const unsigned second = load_shared((left ^ half * 32 ^ (4 * 128 + 4 * 16)) + at);
        words[step][i][half] = later_first ? second : first, words[step][i][2 + half] = later_first ? first : second;
      }
    }
  products_fence();
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      begin_product(sum[i], words[step][i], right + further(bytes_to<B_ALONG_K, TILE_N>(0, FROM + step * DEPTH)),
                    add || FROM + step > 0);
}
#else
typedef descriptor LeftPlace;

__device__ __forceinline__ LeftPlace left_place(unsigned slots, int group) {
  return describe(slots + group * bytes_to<A_ALONG_K, TILE_M>(FRAGS_M * 64, 0), A_ALONG_K ? 0 : CHUNK * 128);
}

// Begins the products of a chunk from one item along K to another.
template <int FROM, int TO>
__device__ __forceinline__ void begin_products(
    Sum (&sum)[FRAGS_M][WORDS], LeftPlace left, descriptor right, bool add) {
#pragma unroll
  for (int k = FROM; k < TO; k += DEPTH) {
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      begin_product(sum[i], left + further(bytes_to<A_ALONG_K, TILE_M>(i * 64, k)),
                    right + further(bytes_to<B_ALONG_K, TILE_N>(0, k)), add || k > 0);
  }
}
#endif

// Returns how much further a left operand is in a slot.
__device__ __forceinline__ LeftPlace in_slot(int slot) {
  return (LOADED ? SLOT_BYTES : further(SLOT_BYTES)) * static_cast<LeftPlace>(slot);
}

// Returns how many chunks of a tile leave slots that are filled again: all but the last STAGES of a block's walk.
__device__ __forceinline__ int refilled(unsigned at, int chunks) {
  const unsigned tiles = WALKS ? (TILES - 1 - at) / gridDim.x : 0;
  return chunks - STAGES + static_cast<int>(tiles < STAGES ? tiles : STAGES) * chunks;
}

// Returns the rank of one of those in its cluster that copy what a block multiplies: of its columns, then of its rows.
__device__ __forceinline__ unsigned neighbour(unsigned number) {
  const unsigned down = down_in_cluster(blockIdx.x), across = across_in_cluster(blockIdx.x);
  if (BESIDE == 1 || number < SHARE) return across * SHARE + number;
  return (number - SHARE + (number - SHARE >= across)) * SHARE + down;
}

// Tells those who copy into a slot that a warp is done with a chunk, of which there is none before the first. If the
// slot is not filled again, none but a group of this block may wait for its room.
__device__ __forceinline__ void leave_slot(const Room& room, int slot, int chunk, int again) {
  const unsigned lane = threadIdx.x % 32, to = chunk < again ? neighbour(lane) : blockIdx.x % CLUSTER_BLOCKS;
  const bool awaited = CLUSTER_BLOCKS == 1 || chunk < again || (ORDERED > 0 && !WALKS);
  arrive_at<NEIGHBOURS>(room.empty + slot * 8, to, lane < NEIGHBOURS && chunk >= 0 && awaited);
}

// Multiplies the chunks of one tile. Barriers tell a phase only from the one before, so a team waits for its first
// chunk when the team before has got its last. The first `again` chunks leave slots that are filled again. That the
// products of the chunk before are done, and its slot free, is asked in the middle of a chunk, so that some are always
// in line. Groups take the last ORDERED chunks in order.
__device__ __forceinline__ void multiply_tile(
    Sum (&sum)[FRAGS_M][WORDS], const Room& room, Place& place, Turn<(EACH > 1)>& turn, Turn<(ORDERED > 0)>& order,
    LeftPlace left, descriptor right, int chunks, int again) {
  turn.take();
  int before = place.slot;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (ORDERED > 0 && chunk == chunks - ORDERED) order.take();
    barrier_wait(room.full + place.slot * 8, place.parity);
    if (LOADED) products_wait<1>();
    else products_fence();
    const LeftPlace here = left + in_slot(place.slot);
    const descriptor slot = further(SLOT_BYTES) * static_cast<descriptor>(place.slot);
    begin_products<0, CHUNK / 2>(sum, here, right + slot, BIAS_FIRST || chunk > 0);
    products_commit();
    products_wait<1>();
    leave_slot(room, before, chunk - 1, again);
    before = place.slot;
    place.next();
    begin_products<CHUNK / 2, CHUNK>(sum, here, right + slot, true);
    products_commit();
    if (chunk == chunks - 1) turn.pass_on(), order.pass_on();
  }
  products_wait<0>();
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) sums_are_new(sum[i]);
  leave_slot(room, before, chunks - 1, again);
}

#if SPLIT > 1 && !JOINS
typedef FourSums Written;

// Writes the sums of this range of K, each warp 512 bytes at a time.
__device__ __forceinline__ void keep_part(
    FourSums* __restrict__ parts, const Sum (&sum)[FRAGS_M][WORDS], unsigned tile, int thread) {
  FourSums* const to = parts + (static_cast<size_t>(blockIdx.z) * TILES + tile) * (TILE_M * TILE_N / 4) + thread;
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
    for (int j = 0; j < WORDS / 4; ++j)
      to[(i * (WORDS / 4) + j) * (GROUPS * 128)] =
          {sum[i][j * 4], sum[i][j * 4 + 1], sum[i][j * 4 + 2], sum[i][j * 4 + 3]};
}
#else
typedef Finished Written;
#endif

#if SWAPPED && BIAS_FIRST
#define BEGIN(sum) begin_swapped(sum, bias, tile.m + row + lane / 4)
#elif BIAS_FIRST
#define BEGIN(sum) begin_sums(sum, bias, tile.n, lane)
#else
#define BEGIN(sum)
#endif

// What a multiplying warpgroup does.
__device__ __forceinline__ void multiply_tiles(
    const Room& room, EPILOGUE_PARAMETERS Written* __restrict__ out, int number) {
  const int team = number / GROUPS, group = number % GROUPS, lane = threadIdx.x % 32;
  const int row = group * FRAGS_M * 64 + threadIdx.x / 32 % 4 * 16, chunks = chunks_here();
  const LeftPlace left = left_place(room.slots, group);
  const descriptor right = describe(room.slots + A_BYTES, B_ALONG_K ? 0 : CHUNK * 128);
#if SWAPPED && BOXES
  Boxes boxes = {room.boxes + number * GROUP_BYTES, room.groups + number * 8, number, 0, 0};
#elif BOXES
  unsigned own_room = room.boxes + (threadIdx.x / 32 - 4) * RESULT_BYTES;
#if !STAGED && C_N % 8 == 0
  Boxes boxes = {own_room, 0};
#endif
#endif
  Place place = {0, 0};
  place.skip(team * CHUNKS);
  Turn<(EACH > 1)> turn = {room.turns + team * 8, room.turns + (team + 1) % EACH * 8, team == 0};
  const unsigned orders = room.orders + team * (GROUPS * 8);
  Turn<(ORDERED > 0)> order = {orders + group * 8, orders + (group + 1) % GROUPS * 8, group == 0};
#pragma unroll 1
  for (unsigned at = blockIdx.x + team * gridDim.x; at < TILES; at += EACH * gridDim.x) {
    const Tile tile = tile_of(at);
    Sum sum[FRAGS_M][WORDS];
    BEGIN(sum);
    multiply_tile(sum, room, place, turn, order, left, right, chunks, refilled(at, chunks));
#if SPLIT > 1 && !JOINS
    keep_part(out, sum, at, threadIdx.x - 128);
#else
    const size_t matrix = static_cast<size_t>(tile.matrix) * C_M * C_N;
#if FOLLOWS
    const EpilogueArgs epilogue = {bias, RESIDUAL ? residual + matrix : residual, scale, shift};
#else
    const EpilogueArgs epilogue = {};
#endif
#if JOINS
    Sum own[FRAGS_M][JOINED_WORDS];
    join_ranges(own, sum, room);
    const int first = tile.n + blockIdx.z * JOINED_N;
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#if BOXES
      write_boxes(out + matrix, own[i], tile.m + row + i * 64, first, lane, boxes);
#else
      write_pairs(out + matrix, own[i], tile.m + row + i * 64 + lane / 4, first + lane % 4 * 2, epilogue);
#endif
#else
#if BOXES
    // Where the ring serves as boxes, products must be done with it.
    if (!WALKS && ORDERED == 0) meet_team(room);
    if (!WALKS && ORDERED > 0) {
      const unsigned free_room = wait_for_room(room, place, group);
#if SWAPPED
      boxes.at = free_room;
#else
      own_room = free_room + threadIdx.x / 32 % 4 * RESULT_BYTES;
#if !STAGED && C_N % 8 == 0
      boxes.at = own_room;
#endif
#endif
    }
#endif
#if SWAPPED && BOXES
    write_swapped(out + matrix, sum, tile.m + group * FRAGS_M * 64, tile.n, lane, boxes);
#elif STAGED
    write_finished(out + matrix, sum, own_room, tile.m + row, tile.n, lane, epilogue);
#else
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#if BOXES && C_N % 8 > 0
      write_strips(out + matrix, sum[i], own_room, tile.m + row + i * 64, tile.n, lane);
#elif BOXES
      write_boxes(out + matrix, sum[i], tile.m + row + i * 64, tile.n, lane, boxes);
#elif SWAPPED
      write_across(out + matrix, sum[i], tile.m + row + i * 64 + lane / 4, tile.n + lane % 4 * 2, epilogue);
#else
      write_pairs(out + matrix, sum[i], tile.m + row + i * 64 + lane / 4, tile.n + lane % 4 * 2, epilogue);
#endif
#endif
#endif
#endif
    if (!WALKS) break;
    if (EACH > 1) place.skip((EACH - 1) * CHUNKS);
  }
#if BOXES && !STAGED && C_N % 8 == 0
  if (elected()) stores_wait<0>();
#endif
}

#if JOINS
#define SHARED_SHAPE __cluster_dims__(1, 1, SPLIT)
#elif SHARE * BESIDE > 1
#define SHARED_SHAPE __cluster_dims__(SHARE * BESIDE, 1, 1)
#else
#define SHARED_SHAPE
#endif
#if CONV
#define MAPS_PARAMETER , TensorMap *__restrict__ maps
#define MAPS_ARGUMENT , maps
#else
#define MAPS_PARAMETER
#define MAPS_ARGUMENT
#endif
#if FOLLOWS
#define REST_ARGUMENTS bias, residual, scale, shift,
#else
#define REST_ARGUMENTS
#endif

extern "C" __global__ void SHARED_SHAPE __launch_bounds__(THREADS, RESIDENT) gemm_tma(
    const Item* __restrict__ a, const Item* __restrict__ b,
    EPILOGUE_PARAMETERS Written* __restrict__ out MAPS_PARAMETER) {
  extern __shared__ float4 shared_memory[];
  const Room room = room_of(shared_memory);
  const Sources from = sources(a, b MAPS_ARGUMENT);
  if (threadIdx.x < 32 && elected()) begin_copies(room, from);
  if (threadIdx.x / 32 == 1 && elected()) make_other_barriers(room);
  __syncthreads();
#if SHARE * BESIDE > 1 || JOINS
  cluster_meet();
#endif
  if (threadIdx.x < 128) {
    if (MOVE_REGISTERS) give_registers<COPY_REGISTERS>();
    if (threadIdx.x < 32) copy_tiles(room, from);
  } else {
    if (MOVE_REGISTERS) take_registers<SUM_REGISTERS>();
    multiply_tiles(room, REST_ARGUMENTS out, threadIdx.x / 128 - 1);
  }
}
