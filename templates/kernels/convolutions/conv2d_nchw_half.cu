// Convolution of NCHW images of 16-bit floats on Hopper (sm_90a), without copies of the images. `pack_filters` writes the
// filters in the layout that wgmma reads, `conv2d_nchw_half` multiplies.
//
// A block computes GROUPS times 64 filters for ROWS rows of SQUARES_ACROSS times 8 pixels of an image, and one of SPLIT ranges of
// the channels. Filters are the left operand: those of a K tile, CHUNK channels of all taps, are one run of memory, which
// a bulk copy brings. The input tile with its halo is the right operand, in core matrices of 8 channels: threads load
// each of its elements once for all taps, while the products of the K tile before are in flight, and store 8 channels of
// a pixel at a time, a cell. Eight pixels of a row at a tap are eight neighbouring cells, and the next tap is an offset;
// with a stride, cells are dealt out to planes of PLANE_H x PLANE_W.
constexpr int TAPS = KH * KW, CELLS = PLANES_Y * PLANES_X * PLANE_H * PLANE_W, EIGHTS = CHUNK / 8;
constexpr int WORDS = ROWS * 4, UNITS = SQUARES_ACROSS * ROWS;
constexpr int FILTER_BYTES = TAPS * CHUNK * 128, STAGE_BYTES = GROUPS * FILTER_BYTES, INPUT_BYTES = EIGHTS * CELLS * 16;
constexpr int INPUT_STAGES = CHUNKS > 1 ? 2 : 1, ITEMS = EIGHTS * CELLS, OWN_ITEMS = (ITEMS + THREADS - 1) / THREADS;
constexpr int TILES_X = (OW + SQUARES_ACROSS * 8 - 1) / (SQUARES_ACROSS * 8), TILES_Y = (OH + ROWS - 1) / ROWS;
// K tiles of all ranges, and filters in tiles of 64, of a group of channels.
constexpr int K_TILES = CHUNKS * SPLIT, FILTER_TILES = (CO + GROUPS * 64 - 1) / (GROUPS * 64) * GROUPS;
constexpr int IN_PLANE = IH * IW, OUT_PLANE = OH * OW;
constexpr bool UNROLLED_TAPS = TAPS <= 9;
constexpr bool WHOLE_CI = K_TILES * CHUNK == CI;
// Partial sums, four of a thread a row, that a block of a cluster adds up. They lie over filters and input, but not over
// the barriers behind these: the state of an mbarrier that was not invalidated may be written back over other data.
constexpr int SHARE = (UNITS + SPLIT - 1) / SPLIT, PART_BYTES = SPLIT > 1 ? 16 * SPLIT * SHARE * THREADS : 0;
constexpr int STAGED_BYTES = STAGES * STAGE_BYTES + INPUT_STAGES * INPUT_BYTES;
constexpr int BARRIERS_AT = STAGED_BYTES > PART_BYTES ? STAGED_BYTES : PART_BYTES;

// Packs 8 channels of 64 filters: in a K tile each tap has its channels, eight by eight, each with all filters.
extern "C" __global__ void __launch_bounds__(256) pack_filters(
    const Item* __restrict__ weight, Item* __restrict__ packed) {
  constexpr int RUN = 8 * TAPS, PITCH = RUN + 2, VECTORS = CI % 8 == 0 ? 8 : 1;
  __shared__ unsigned rows[64 * PITCH / 2];
  Item* const tile = reinterpret_cast<Item*>(rows);
  launch_dependent_grids();
  const int eight = blockIdx.x, co0 = blockIdx.y % FILTER_TILES * 64, group = blockIdx.y / FILTER_TILES;
#pragma unroll 8
  for (int i = threadIdx.x * VECTORS; i < 64 * RUN; i += 256 * VECTORS) {
    const int row = i / RUN, inside = i % RUN;
    const bool exists = co0 + row < CO && eight * RUN + inside < CI * TAPS;
    const Item* const from = weight + (static_cast<size_t>(group) * CO + co0 + row) * (CI * TAPS) + eight * RUN + inside;
    if (VECTORS == 8) {
      const uint4 v = exists ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
      unsigned* const to = rows + (row * PITCH + inside) / 2;
      to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else {
      tile[row * PITCH + inside] = exists ? *from : Item(0);
    }
  }
  __syncthreads();
  const size_t block = static_cast<size_t>(group * FILTER_TILES + co0 / 64) * K_TILES + eight / EIGHTS;
  uint4* const to = reinterpret_cast<uint4*>(packed) + block * (FILTER_BYTES / 16) + eight % EIGHTS * 64;
  for (int i = threadIdx.x; i < TAPS * 64; i += 256) {
    const int tap = i / 64, row = i % 64;
    const Item* const from = tile + row * PITCH + tap;
    unsigned word[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      word[j] = from[2 * j * TAPS] | static_cast<unsigned>(from[(2 * j + 1) * TAPS]) << 16;
    to[tap * (EIGHTS * 64) + row] = make_uint4(word[0], word[1], word[2], word[3]);
  }
}

#ifdef AUTOTUNE_EMULATE
static inline void multiply_cells(float (&sum)[WORDS], descriptor left, descriptor right, bool add) {
  issue_packed_wgmma(sum, left, right, add);
}
#else
DEFINE_WGMMA(multiply_cells, ", 0, 0", OWN_COLUMNS, WORDS, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)
#endif

// The first of a thread's elements of each cell that it loads, or -1 where that is outside of the image.
struct Input {
  const Item* image;
  int ci, offset[OWN_ITEMS];

  __device__ __forceinline__ void locate(int oy0, int ox0) {
#pragma unroll
    for (int i = 0; i < OWN_ITEMS; ++i) {
      const int item = i * THREADS + threadIdx.x, cell = item % CELLS, plane = cell / (PLANE_W * PLANE_H);
      const int y = oy0 * SY - PY + cell / PLANE_W % PLANE_H * SY + plane / PLANES_X;
      const int x = ox0 * SX - PX + cell % PLANE_W * SX + plane % PLANES_X;
      const bool inside = item < ITEMS && y >= 0 && y < IH && x >= 0 && x < IW;
      offset[i] = inside ? item / CELLS * 8 * IN_PLANE + y * IW + x : -1;
    }
  }

  __device__ __forceinline__ void load(unsigned (&words)[4], int i, int k_tile) const {
    const int first = ci + k_tile * CHUNK, eight = (i * THREADS + static_cast<int>(threadIdx.x)) / CELLS * 8;
    const Item* const from = image + static_cast<size_t>(first) * IN_PLANE + offset[i];
    Item item[8];
#pragma unroll
    for (int j = 0; j < 8; ++j)
      item[j] = offset[i] >= 0 && (WHOLE_CI || first + eight + j < CI) ? from[j * IN_PLANE] : Item(0);
#pragma unroll
    for (int j = 0; j < 4; ++j) words[j] = item[2 * j] | static_cast<unsigned>(item[2 * j + 1]) << 16;
  }

  // Loads the input tile of a K tile, some cells of a thread at a time.
  __device__ __forceinline__ void copy(uint4* to, int k_tile) const {
    constexpr int TOGETHER = 4;
#pragma unroll
    for (int first = 0; first < OWN_ITEMS; first += TOGETHER) {
      unsigned words[TOGETHER][4];
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i)
        if (first + i < OWN_ITEMS) load(words[i], first + i < OWN_ITEMS ? first + i : 0, k_tile);
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i) {
        const int item = (first + i) * THREADS + threadIdx.x;
        if (first + i < OWN_ITEMS && item < ITEMS)
          to[item] = make_uint4(words[i][0], words[i][1], words[i][2], words[i][3]);
      }
    }
    fence_proxy_async();
  }
};

// Issues the products of a K tile, of which some are in flight then.
__device__ __forceinline__ void multiply_k_tile(float (&sum)[SQUARES_ACROSS][WORDS], unsigned filters, unsigned input, bool first) {
  const descriptor left = make_block_descriptor(filters, 1024);
  const descriptor right = describe_cells(input, PLANE_W * 16) + along(CELLS);
  // Of few taps all are in flight together. A loop has to wait, or nvcc makes it wait for each.
  wgmma_fence();
#pragma unroll (UNROLLED_TAPS ? TAPS : 1)
  for (int tap = 0; tap < TAPS; ++tap) {
    if (!UNROLLED_TAPS) wgmma_fence();
    const int y = tap / KW * DY, x = tap % KW * DX;
    const int cell = ((y % SY * PLANES_X + x % SX) * PLANE_H + y / SY) * PLANE_W + x / SX;
#pragma unroll
    for (int step = 0; step < CHUNK / 16; ++step)
#pragma unroll
      for (int i = 0; i < SQUARES_ACROSS; ++i)
        multiply_cells(sum[i], left + (tap * EIGHTS + step * 2) * 64, right + (step * 2 * CELLS + cell + i * 8),
                       !first || tap > 0 || step > 0);
    if (!UNROLLED_TAPS) {
      wgmma_commit();
      wgmma_wait<1>();
    }
  }
  if (UNROLLED_TAPS) wgmma_commit();
}

// Writes a row of 8 pixels of 8 filters from `co0` on, of which a lane has two neighbours of one filter. In odd rows lanes
// exchange them, so that each store has whole rows of 16 bytes. All threads of a warp call this.
__device__ __forceinline__ void write_rows(
    Item* __restrict__ out, float low, float high, int co0, int y, int x0) {
  const int lane = threadIdx.x % 32;
  const unsigned pair = pack_pair(low, high);
  constexpr bool WHOLE_CO = CO % (GROUPS * 64) == 0;
  if (OW % 2 == 0) {
    const int co = co0 + lane / 4, x = x0 + lane % 4 * 2;
    if ((WHOLE_CO || co < CO) && y < OH && x < OW)
      *reinterpret_cast<unsigned*>(out + static_cast<size_t>(co) * OUT_PLANE + y * OW + x) = pair;
    return;
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int filter = half * 4 + lane / 8, co = co0 + filter, x = x0 + lane % 8;
    const unsigned got = __shfl_sync(0xffffffffu, pair, filter * 4 + lane % 8 / 2);
    if ((WHOLE_CO || co < CO) && y < OH && x < OW)
      out[static_cast<size_t>(co) * OUT_PLANE + y * OW + x] = static_cast<Item>(lane % 2 ? got >> 16 : got);
  }
}

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS, RESIDENT) conv2d_nchw_half(
    const Item* __restrict__ data, const Item* __restrict__ packed, Item* __restrict__ out) {
  extern __shared__ uint4 shared_memory[];
  char* const filters = reinterpret_cast<char*>(shared_memory);
  uint4* const input = shared_memory + STAGES * STAGE_BYTES / 16;
  const unsigned barriers = shared_address(shared_memory) + BARRIERS_AT;
  const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  const int image = blockIdx.x / (TILES_X * TILES_Y), rank = blockIdx.z;
  const int oy0 = blockIdx.x / TILES_X % TILES_Y * ROWS, ox0 = blockIdx.x % TILES_X * (SQUARES_ACROSS * 8);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < STAGES; ++i) barrier_init(barriers + i * 8, 1);
    fence_mbarrier_init();
  }
  Input source;
  source.image = data + static_cast<size_t>(image) * CI * IN_PLANE, source.ci = rank * (CHUNKS * CHUNK);
  source.locate(oy0, ox0);
  source.copy(input, 0);
  __syncthreads();
  wait_on_dependent_grids();  // for the filters; what was queued before had ended when they began to be packed
  const Item* const own = packed + (static_cast<size_t>(image % CONV_GROUPS * FILTER_TILES + blockIdx.y * GROUPS) * K_TILES +
                                    rank * CHUNKS) * (FILTER_BYTES / 2);
  auto copy_filters = [&](int k_tile) {
    const unsigned full = barriers + k_tile % STAGES * 8;
    barrier_arrive_expect_tx(full, STAGE_BYTES);
#pragma unroll
    for (int i = 0; i < GROUPS; ++i)
      copy_bytes(shared_address(filters) + k_tile % STAGES * STAGE_BYTES + i * FILTER_BYTES,
                 own + (static_cast<size_t>(i) * K_TILES + k_tile) * (FILTER_BYTES / 2), FILTER_BYTES, full);
  };
  if (threadIdx.x == 0)
    for (int k_tile = 0; k_tile < STAGES && k_tile < CHUNKS; ++k_tile) copy_filters(k_tile);

  float sum[SQUARES_ACROSS][WORDS];
#pragma unroll 1
  for (int k_tile = 0; k_tile < CHUNKS; ++k_tile) {
    if (k_tile > 0) {
      __syncthreads();  // the input is there, and the filters of the K tile before are no longer read
      if (threadIdx.x == 0 && k_tile - 1 + STAGES < CHUNKS) copy_filters(k_tile - 1 + STAGES);
    }
    barrier_wait(barriers + k_tile % STAGES * 8, k_tile / STAGES % 2);
    multiply_k_tile(sum, shared_address(filters) + k_tile % STAGES * STAGE_BYTES + group * FILTER_BYTES,
                    shared_address(input) + k_tile % INPUT_STAGES * INPUT_BYTES, k_tile == 0);
    if (k_tile + 1 < CHUNKS) source.copy(input + (k_tile + 1) % INPUT_STAGES * (INPUT_BYTES / 16), k_tile + 1);
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < SQUARES_ACROSS; ++i) fence_accumulators(sum[i]);
  }

  const int co0 = (blockIdx.y * GROUPS + group) * 64 + threadIdx.x / 32 % 4 * 16;
  Item* const result = out + static_cast<size_t>(image) * CO * OUT_PLANE;
  auto write = [&](int unit, const float4& sums) {
    const int y = oy0 + unit % ROWS, x0 = ox0 + unit / ROWS * 8;
    write_rows(result, sums.x, sums.y, co0, y, x0);
    write_rows(result, sums.z, sums.w, co0 + 8, y, x0);
  };
  auto of_unit = [&](int unit) {
    const float* const four = sum[unit / ROWS] + unit % ROWS * 4;
    return make_float4(four[0], four[1], four[2], four[3]);
  };
#if CLUSTER
  float4* const parts = reinterpret_cast<float4*>(shared_memory);
  cluster_sync();  // no block reads filters any more
#pragma unroll
  for (int unit = 0; unit < UNITS; ++unit) {
    const float4 sums = of_unit(unit);
    const unsigned to = remote_address(shared_address(parts + (rank * SHARE + unit % SHARE) * THREADS + threadIdx.x), unit / SHARE);
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(sums.x), "f"(sums.y), "f"(sums.z),
                 "f"(sums.w)
                 : "memory");
  }
  cluster_sync();
#pragma unroll 1
  for (int i = 0; i < SHARE && rank * SHARE + i < UNITS; ++i) {
    float4 sums = parts[i * THREADS + threadIdx.x];
#pragma unroll
    for (int part = 1; part < SPLIT; ++part) {
      const float4 more = parts[(part * SHARE + i) * THREADS + threadIdx.x];
      sums.x += more.x, sums.y += more.y, sums.z += more.z, sums.w += more.w;
    }
    write(rank * SHARE + i, sums);
  }
#else
#pragma unroll
  for (int unit = 0; unit < UNITS; ++unit) write(unit, of_unit(unit));
#endif
}
