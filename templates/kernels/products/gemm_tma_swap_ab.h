// Initial accumulators and epilogue of gemm_tma.cu with swapped operands: rows of a tile are columns of C.
#if SWAP_AB
#if SMEM_EPILOGUE && C_N % 8 == 0
__constant__ __align__(128) TensorMap c_map = {{C_MAP}};
#endif

// Initialises accumulators with the bias of their rows.
__device__ __forceinline__ void init_accumulators_swapped(float (&sum)[FRAGS_M][WORDS], const EpilogueElement* bias, int m0) {
#if BIAS_FIRST
#pragma unroll
  for (int i = 0; i < FRAGS_M * 2; ++i) {
    const int m = m0 + i / 2 * 64 + i % 2 * 8;
    const float first = m < C_N && (SPLIT == 1 || blockIdx.z == 0) ? load_epilogue(bias + m) : 0.0f;
#pragma unroll
    for (int j = 0; j < WORDS / 4; ++j) sum[i / 2][j * 4 + i % 2 * 2] = sum[i / 2][j * 4 + i % 2 * 2 + 1] = first;
  }
#endif
}

// Staging buffers of a warpgroup, used in turn, and its barrier.
struct EpilogueBuffers {
  unsigned at, barrier;
  int group, next;
  unsigned parity;

  __device__ __forceinline__ void sync() {
#ifdef AUTOTUNE_EMULATE
    named_barrier_sync(barrier, parity);
    parity ^= 1;
#else
    asm volatile("bar.sync %0, 128;" ::"r"(group + 2) : "memory");
#endif
  }
};

// Stores 16 x 8 accumulators transposed to a box: 8 rows of 16 columns, the warp's part of 64.
__device__ __forceinline__ void store_swapped(unsigned box, const float* quad, int row, int lane) {
  const int warp = threadIdx.x / 32 % 4;
#ifdef AUTOTUNE_EMULATE
  for (int v = 0; v < 4; ++v) {
    const int n = row + lane % 4 * 2 + v % 2, m = warp * 16 + v / 2 * 8 + lane / 4;
    char* const to = static_cast<char*>(__cvta_shared_to_generic(box)) + n * 128 + ((m / 8 ^ n % 8) * 16) + m % 8 * 2;
    *reinterpret_cast<unsigned short*>(to) = bits_of(quad[v]);
  }
#else
  const unsigned to = box + (row + lane % 8) * 128 + ((warp * 2 + lane / 8 % 2) ^ lane % 8) * 16;
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to),
               "r"(pack_pair(quad[0], quad[1])), "r"(pack_pair(quad[2], quad[3]))
               : "memory");
#endif
}

#if SMEM_EPILOGUE && C_N % 8 == 0
__device__ __forceinline__ void write_swapped(
    Finished* __restrict__ out, float (&sum)[FRAGS_M][WRITTEN_N / 2], int m0, int n0, int lane, EpilogueBuffers& buffers) {
  const bool leads = threadIdx.x % 128 < 32;
#pragma unroll
  for (int part = 0; part < FRAGS_M * WRITTEN_N / BOX_ROWS; ++part) {
    const int i = part / (WRITTEN_N / BOX_ROWS), first = part % (WRITTEN_N / BOX_ROWS) * BOX_ROWS;
    const unsigned box = buffers.at + buffers.next * BOX_BYTES;
    if (PERSISTENT) {
      if (leads && elect_one()) tma_store_wait<1>();
      buffers.sync();
    }
#pragma unroll
    for (int j = 0; j < BOX_ROWS / 8; ++j) {
      float* const quad = sum[i] + (first / 8 + j) * 4;
#pragma unroll
      for (int v = 0; v < 4; ++v) quad[v] = scale_and_activate(quad[v]);
      store_swapped(box, quad, j * 8, lane);
    }
    fence_proxy_async();
    buffers.sync();
    if (leads && elect_one()) {
      if (m0 + i * 64 < C_N && n0 + first < C_M) tma_store(out, c_map, m0 + i * 64, n0 + first, box);
      tma_store_commit();
    }
    buffers.next = (buffers.next + 1) % BOXES_EACH;
  }
}
#elif SMEM_EPILOGUE
// Stores 16 x 8 accumulators transposed to staged rows of C: 8 of them, the warp's 16 columns of 64.
__device__ __forceinline__ void stage_swapped(unsigned rows, const float* quad, int row, int lane) {
  const int warp = threadIdx.x / 32 % 4;
#ifdef AUTOTUNE_EMULATE
  for (int v = 0; v < 4; ++v) {
    const int n = row + lane % 4 * 2 + v % 2, m = warp * 16 + v / 2 * 8 + lane / 4;
    char* const to = static_cast<char*>(__cvta_shared_to_generic(rows)) + n * STRIP_PITCH + m * 2;
    *reinterpret_cast<unsigned short*>(to) = bits_of(last_step(quad[v]));
  }
#else
  const unsigned to = rows + (row + lane % 8) * STRIP_PITCH + (warp * 2 + lane / 8 % 2) * 16;
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to),
               "r"(pack_pair(last_step(quad[0]), last_step(quad[1]))),
               "r"(pack_pair(last_step(quad[2]), last_step(quad[3])))
               : "memory");
#endif
}

// Rows of C that are not aligned to 16 bytes are staged as in gemm_tma_epilogue.h: all rows of a tile, of which a warp
// then writes 16 at a time.
__device__ __forceinline__ void write_swapped(
    Finished* __restrict__ out, const float (&sum)[FRAGS_M][WORDS], int m0, int n0, int lane, EpilogueBuffers& buffers) {
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) {
    if (i > 0) buffers.sync();
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) stage_swapped(buffers.at, sum[i] + j * 4, j * 8, lane);
    buffers.sync();
#pragma unroll 1
    for (int row = threadIdx.x / 32 % 4 * 16; row < TILE_N; row += 64)
      write_strip<64>(out, buffers.at + row * STRIP_PITCH, n0 + row, m0 + i * 64, lane,
                      TILE_N - row < 16 ? TILE_N - row : 16);
  }
}
#else
__device__ __forceinline__ Finished finished(float x) {
#if TF32
  return x;
#else
  return static_cast<half_bits>(pack_pair(x, x));
#endif
}

#if INT8
// Writes a thread's accumulators, the first at row m and column n of its tile: two rows of it are neighbours in C.
template <int COUNT>
__device__ __forceinline__ void write_across(
    Finished* __restrict__ out, const Sum (&sum)[COUNT], int m, int n0, const EpilogueArgs&) {
#pragma unroll
  for (int i = 0; i < COUNT; i += 4)
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int n = n0 + i / 4 * 8 + v;
      if (m < C_N && n < C_M) write_pair(out, static_cast<size_t>(n) * C_N + m, m, sum[i + v], sum[i + 2 + v]);
    }
}
#else
// Writes a thread's accumulators, the first at row m and column n of its tile; neighbours in C are held by lanes 4
// apart. What the epilogue of some of them needs is loaded before any of these is stored.
template <int COUNT>
__device__ __forceinline__ void write_across(
    Finished* __restrict__ out, Sum (&sum)[COUNT], int m0, int n0, const EpilogueArgs& epilogue) {
  constexpr int AT_ONCE = 16;
  auto each = [&](int first, auto body) {
#pragma unroll
    for (int i = first; i < first + AT_ONCE; ++i) {
      const int m = m0 + i / 2 % 2 * 8, n = n0 + i / 4 * 8 + i % 2;
      if (i < COUNT && m < C_N && n < C_M) body(m, static_cast<size_t>(n) * C_N + m, sum[i]);
    }
  };
#pragma unroll
  for (int first = 0; first < COUNT; first += AT_ONCE) {
    each(first, [&](int m, size_t at, Sum& result) {
      float one[1] = {result};
#if FOLLOWS
      finish<1>(one, epilogue, m, at);
#endif
      result = last_step(one[0]);
    });
    each(first, [&](int, size_t at, Sum result) { out[at] = finished(result); });
  }
}
#endif
#endif
#endif
