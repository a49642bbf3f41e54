// Direct convolution, NCHW, float32.
//
// A block owns TILE_CO output channels x ROWS x (COLUMNS * PIXELS) output pixels of one image, and
// one of SPLIT ranges of the input channels. Its threads are COLUMNS x ROWS x GROUPS x SLICES: a
// thread keeps CHANNELS x PIXELS sums in registers, and the SLICES split each staged K tile of
// CHUNK = SLICES * STEP input channels. Filters keep their memory order in shared memory, so they
// are copied 16 bytes at a time and loaded VEC taps at a time. With LINES each filter row is aligned
// to 16 bytes there and loaded at once; rows are unrolled one after another, and the threads of a
// warp are up to 8 groups, which load 128 bytes of filters together, times a few pixels. In a grouped
// convolution each group of each image is an image here, and CI and CO are the channels of a group.
constexpr int TAPS = KH * KW, LINE = LINES ? (KW + 3) / 4 * 4 : KW;
constexpr int TILE_CO = GROUPS * CHANNELS;
constexpr int TILE_OX = COLUMNS * PIXELS;
constexpr int TILE = TILE_CO * ROWS * TILE_OX;
constexpr int CHUNK = SLICES * STEP;
constexpr int CHUNKS = (CI_PER_SPLIT + CHUNK - 1) / CHUNK;
constexpr int CELLS = COLUMNS * ROWS;
// A 1-wide filter reads only every SX-th column: the others are not staged.
constexpr int X_SKIP = KW == 1 ? SX : 1, X_STEP = KW == 1 ? 1 : SX;
constexpr int Y_SKIP = KH == 1 ? SY : 1, Y_STEP = KH == 1 ? 1 : SY;
constexpr int IN_H = (ROWS - 1) * Y_STEP + (KH - 1) * DY + 1;
constexpr int IN_W = (TILE_OX - 1) * X_STEP + (KW - 1) * DX + 1;
constexpr int WINDOW = (PIXELS - 1) * X_STEP + (KW - 1) * DX + 1;
constexpr int X_FLOATS = CHUNK * IN_H * IN_PITCH;
constexpr int W_FLOATS = TILE_CO * W_PITCH;
constexpr int TILES_X = (OW + TILE_OX - 1) / TILE_OX;
constexpr int TILES_Y = (OH + ROWS - 1) / ROWS;

// Where the extents divide, bounds checks are constant and vanish.
constexpr bool WHOLE_CO = CO % TILE_CO == 0;
constexpr bool WHOLE_CI = CI_PER_SPLIT * SPLIT == CI && CI_PER_SPLIT % CHUNK == 0;

__device__ __forceinline__ void stage_filters(
    float* dst, const float* __restrict__ weight, int co0, int ci0, int ci_end, int tid) {
  const float* const from = weight + (co0 * CI + ci0) * TAPS;
  const auto copy = [&](int row, int vector) {
    const int tap = vector * W_COPY, to = LINES ? tap / KW * LINE + tap % KW : tap;
    const bool valid =
        (WHOLE_CO || co0 + row < CO) && (WHOLE_CI || ci0 * TAPS + tap < ci_end * TAPS);
    copy_async<W_COPY>(dst + row * W_PITCH + to, from + row * (CI * TAPS) + tap, valid);
  };
  constexpr int VECTORS = CHUNK * TAPS / W_COPY, SWEEP = THREADS / VECTORS;
  if (LINES && SWEEP > 0) {  // a thread has one tap, whose offset is computed once
    const int vector = tid % VECTORS;
    if (tid < SWEEP * VECTORS)
#pragma unroll 16
      for (int row = tid / VECTORS; row < TILE_CO; row += SWEEP > 0 ? SWEEP : 1) copy(row, vector);
  } else {
    each_vector<TILE_CO, VECTORS>(tid, copy);
  }
}

__device__ __forceinline__ void stage_input_cell(
    float* dst, const float* __restrict__ image, int cell, int c, int c_step, int y0, int x0,
    int ci0, int channels, int plane) {
  const int r = cell / (IN_W / X_COPY), q = cell % (IN_W / X_COPY) * X_COPY;
  const int y = y0 + r * Y_SKIP, x = x0 + q * X_SKIP;
  const bool inside = y >= 0 && y < IH && x >= 0 && x < IW;
  const float* from = image + (inside ? y * IW + x : 0);
  float* to = dst + r * IN_PITCH + q;
#pragma unroll 4
  for (; c < CHUNK; c += c_step) {
    const bool valid = inside && (WHOLE_CI || c < channels) && plane_exists(plane, ci0 + c);
    const float* const at = from + plane_of<IH * IW>(PLANE_TAPS > 1 ? ci0 + c : c);
    copy_async<X_COPY>(to + c * (IN_H * IN_PITCH), PLANES_PADDED && !valid ? image : at, valid);
  }
}

// A thread has the same cells, of X_COPY pixels, in all channels, so that index arithmetic and bounds checks are done
// once.
__device__ __forceinline__ void stage_input(
    float* dst, const float* __restrict__ image, int y0, int x0, int ci0, int channels, int plane,
    int tid) {
  if (PLANE_TAPS == 1) image += plane_of<IH * IW>(ci0);
  constexpr int WINDOW_CELLS = IN_H * IN_W / X_COPY;
  constexpr int PARALLEL = THREADS / WINDOW_CELLS;
  if (PARALLEL > 0) {
    constexpr int STRIDE = PARALLEL > 0 ? PARALLEL : 1;
    if (tid < STRIDE * WINDOW_CELLS)
      stage_input_cell(
          dst, image, tid % WINDOW_CELLS, tid / WINDOW_CELLS, STRIDE, y0, x0, ci0, channels, plane);
  } else {
    for (int cell = tid; cell < WINDOW_CELLS; cell += THREADS)
      stage_input_cell(dst, image, cell, 0, 1, y0, x0, ci0, channels, plane);
  }
}

__device__ __forceinline__ void load_window(float (&window)[WINDOW], const float* row) {
#pragma unroll
  for (int i = 0; i < WINDOW / X_VEC; ++i) load_vector<X_VEC>(window + i * X_VEC, row + i * X_VEC);
#pragma unroll
  for (int i = WINDOW / X_VEC * X_VEC; i < WINDOW; ++i) window[i] = row[i];
}

__device__ __forceinline__ void accumulate_tap(
    float (&sum)[CHANNELS][PIXELS], const float (&window)[WINDOW], int kx, int j, float w) {
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) sum[j][p] = fmaf(w, window[p * X_STEP + kx * DX], sum[j][p]);
}

#if UNROLL
__device__ __forceinline__ void accumulate_straight(
    float (&sum)[CHANNELS][PIXELS], const float* w, const float* x) {
  float window[WINDOW];
#pragma unroll
  for (int t = 0; t < STRAIGHT * TAPS; t += VEC) {
    float taps[CHANNELS][VEC];
#pragma unroll
    for (int j = 0; j < CHANNELS; ++j) load_vector<VEC>(taps[j], w + j * GROUPS * W_PITCH + t);
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      const int line = (t + v) / KW, kx = (t + v) % KW;
      if (kx == 0) load_window(window, x + (line / KH * IN_H + line % KH * DY) * IN_PITCH);
#pragma unroll
      for (int j = 0; j < CHANNELS; ++j) accumulate_tap(sum, window, kx, j, taps[j][v]);
    }
  }
}

// STRAIGHT channels at a time are unrolled: more would take long to compile and gain nothing.
__device__ __forceinline__ void accumulate(
    float (&sum)[CHANNELS][PIXELS], const float* w, const float* x) {
#pragma unroll 1
  for (int c = 0; c < STEP; c += STRAIGHT)
    accumulate_straight(sum, w + c * TAPS, x + c * (IN_H * IN_PITCH));
}
#elif LINES
__device__ __forceinline__ void accumulate(
    float (&sum)[CHANNELS][PIXELS], const float* w, const float* x) {
#pragma unroll 1
  for (int c = 0; c < STEP; ++c) {
#pragma unroll
    for (int ky = 0; ky < KH; ++ky) {
      float window[WINDOW];
      load_window(window, x + (c * IN_H + ky * DY) * IN_PITCH);
#pragma unroll
      for (int j = 0; j < CHANNELS; ++j) {
        float taps[LINE];
#pragma unroll
        for (int i = 0; i < LINE; i += 4)
          load_vector<4>(taps + i, w + j * GROUPS * W_PITCH + (c * KH + ky) * LINE + i);
#pragma unroll
        for (int kx = 0; kx < KW; ++kx) accumulate_tap(sum, window, kx, j, taps[kx]);
      }
    }
  }
}
#else
__device__ __forceinline__ void accumulate(
    float (&sum)[CHANNELS][PIXELS], const float* w, const float* x) {
#pragma unroll 1
  for (int line = 0; line < STEP * KH; ++line) {
    float window[WINDOW];
    load_window(window, x + (line / KH * IN_H + line % KH * DY) * IN_PITCH);
#pragma unroll
    for (int kx = 0; kx < KW; ++kx) {
#pragma unroll
      for (int j = 0; j < CHANNELS; ++j)
        accumulate_tap(sum, window, kx, j, w[j * GROUPS * W_PITCH + line * KW + kx]);
    }
  }
}
#endif

// The pixels and channels of a thread: of the tile's COLUMNS x ROWS cells and GROUPS.
struct Part {
  int column, row, group, slice;
};

__device__ __forceinline__ Part part_of(int tid) {
  constexpr int TOGETHER = LINES && GROUPS % 8 == 0 ? 8 : 1;
  const int index = tid / TOGETHER % (CELLS * GROUPS / TOGETHER), cell = index % CELLS;
  return {cell % COLUMNS, cell / COLUMNS, index / CELLS * TOGETHER + tid % TOGETHER, tid / (CELLS * GROUPS)};
}

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS) conv2d_nchw(
    const float* __restrict__ data, const float* __restrict__ weight,
    const float* __restrict__ bias, const float* __restrict__ residual,
    const float* __restrict__ scale, const float* __restrict__ shift,
    KEPT_PARAMETER float* __restrict__ out) {
  const EpilogueArgs epilogue = {bias, residual, scale, shift KEPT_POINTER};
  extern __shared__ float4 shared_memory[];
  float* const xs = reinterpret_cast<float*>(shared_memory);
  float* const ws = xs + STAGES * X_FLOATS;

  const int tid = threadIdx.x;
  const Part own = part_of(tid);
  const int n = blockIdx.x / (TILES_X * TILES_Y);
  const int oy0 = blockIdx.x / TILES_X % TILES_Y * ROWS, ox0 = blockIdx.x % TILES_X * TILE_OX;
  const int co0 = blockIdx.y * TILE_CO;
  const int ci_begin = blockIdx.z * CI_PER_SPLIT;
  const int ci_end = ci_begin + CI_PER_SPLIT < CI ? ci_begin + CI_PER_SPLIT : CI;
  const int y0 = oy0 * SY - PY, x0 = ox0 * SX - PX;
  const float* const image = data + data_of_image<CI, IH * IW>(n);
  const int channels_before = n % CONV_GROUPS * CO;
  const float* const filters = weight + channels_before * CI * TAPS;

  auto stage = [&](int chunk, int to) {
    const int ci0 = ci_begin + chunk * CHUNK;
    if (chunk < CHUNKS) {
      stage_filters(ws + to * W_FLOATS, filters, co0, ci0, ci_end, tid);
      stage_input(xs + to * X_FLOATS, image, y0, x0, ci0, ci_end - ci0, first_plane(n), tid);
    }
    copy_commit();
  };

  float sum[CHANNELS][PIXELS];
#pragma unroll
  for (int j = 0; j < CHANNELS; ++j)
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) sum[j][p] = 0.0f;

  const float* const w = ws + own.group * W_PITCH + own.slice * STEP * KH * LINE;
  const float* const x =
      xs + (own.slice * STEP * IN_H + own.row * Y_STEP) * IN_PITCH + own.column * PIXELS * X_STEP;
  // The loop runs the prologue too, the first STAGES - 1 K tiles, since less code compiles faster.
  int stage_read = 0, stage_free = 0;
#pragma unroll 1
  for (int chunk = 1 - STAGES; chunk < CHUNKS; ++chunk) {
    if (STAGES == 1) {
      __syncthreads();
      stage(chunk, 0);
      copy_wait<0>();
      __syncthreads();
    } else {
      if (chunk >= 0) {
        copy_wait<(STAGES > 1 ? STAGES - 2 : 0)>();
        __syncthreads();
      }
      stage(chunk + STAGES - 1, stage_free);
      stage_free = stage_free + 1 == STAGES ? 0 : stage_free + 1;
      if (chunk < 0) continue;
    }
    accumulate(sum, w + stage_read * W_FLOATS, x + stage_read * X_FLOATS);
    stage_read = stage_read + 1 == STAGES ? 0 : stage_read + 1;
  }
  copy_wait<0>();
  __syncthreads();

  float* const partial = reinterpret_cast<float*>(shared_memory);
#pragma unroll
  for (int j = 0; j < CHANNELS; ++j)
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
      partial[own.slice * TILE + ((j * GROUPS + own.group) * ROWS + own.row) * TILE_OX +
              own.column * PIXELS + p] = sum[j][p];
  __syncthreads();

#if CLUSTER
#pragma unroll 4
  for (int i = tid * O_VEC; i < TILE; i += THREADS * O_VEC) {
    float total[O_VEC];
    add_parts<SLICES>(total, partial + i, TILE);
    store_vector<O_VEC>(partial + i, total);
  }
  cluster_sync();
#pragma unroll 1
  for (int i = blockIdx.z * THREADS + tid; i < TILE; i += SPLIT * THREADS) {
    float total[1] = {cluster_sum<SPLIT>(partial + i)};
#else
#pragma unroll 4
  for (int i = tid * O_VEC; i < TILE; i += THREADS * O_VEC) {
    float total[O_VEC];
    add_parts<SLICES>(total, partial + i, TILE);
#endif
    const int co = co0 + i / (ROWS * TILE_OX);
    const int oy = oy0 + i / TILE_OX % ROWS, ox = ox0 + i % TILE_OX;
    if (co >= CO || oy >= OH || ox >= OW) continue;
    const int at = result_at<CO, OH * OW>(n, co, oy * OW + ox);
#if SPLIT > 1 && !CLUSTER
    store_vector<O_VEC>(out + blockIdx.z * (BATCH * CO * OH * OW) + at, total);
#else
    finish<0>(total, epilogue, channels_before + co, at);
    store_vector<CLUSTER ? 1 : O_VEC>(out + at, total);
#endif
  }
#if CLUSTER
  cluster_sync();  // no block may exit while another still reads its shared memory
#endif
}

#if SPLIT > 1 && !CLUSTER
// Reduces the partial sums of the split input channels.
extern "C" __global__ void __launch_bounds__(128) conv2d_nchw_reduce(
    const float* __restrict__ partial, const float* __restrict__ bias,
    const float* __restrict__ residual, const float* __restrict__ scale,
    const float* __restrict__ shift, KEPT_PARAMETER float* __restrict__ out) {
  const EpilogueArgs epilogue = {bias, residual, scale, shift KEPT_POINTER};
  constexpr int SIZE = BATCH * CO * OH * OW;
  const int i = (blockIdx.x * 128 + threadIdx.x) * R_VEC;
  if (i >= SIZE) return;
  float total[R_VEC];
  add_parts<SPLIT>(total, partial + i, SIZE);
#if CHANNEL_VEC == R_VEC  // all of one channel
  finish<0>(total, epilogue, i / (OH * OW) % (CO * CONV_GROUPS), i);
#else
#pragma unroll
  for (int v = 0; v < R_VEC; ++v) {
    float one[1] = {total[v]};
    finish<0>(one, epilogue, (i + v) / (OH * OW) % (CO * CONV_GROUPS), i + v);
    total[v] = one[0];
  }
#endif
  store_vector<R_VEC>(out + i, total);
}
#endif
