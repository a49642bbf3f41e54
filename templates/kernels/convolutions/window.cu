// Depthwise convolution, max and average pooling. Elements are those of elements.h, or of int8_elements.h, arithmetic is in
// float32. A row is loaded as words (raw_elements.h), and converted when it is whole.
//
// A thread computes LINES x PIXELS neighbouring outputs, of one channel in NCHW and of C_VEC neighbouring channels in
// NHWC. It loads each of their input rows once, in vectors of X_VEC columns or C_VEC channels, and uses it for all
// windows that contain the row; the halo shared with other threads comes from the cache.
//
// With SHUFFLED a warp holds whole rows: each thread loads only the PIXELS * SX columns that are its own, and gets the
// halo to their left and right from the neighbouring lanes by warp shuffles.
//
// With AHEAD the blocks of the next kernel may start while these store results.
#if ELEMENT < 3
typedef Element Result;
#define store_results store_elements
#endif
constexpr int CO = CI * MULTIPLIER;
constexpr int WINDOW = (PIXELS - 1) * SX + (KW - 1) * DX + 1;
constexpr int IN_LINES = (LINES - 1) * SY + (KH - 1) * DY + 1;
// The first column of a window is LEAD columns after a multiple of X_VEC.
constexpr int LEAD = (X_VEC - PX % X_VEC) % X_VEC;
constexpr int READ = (LEAD + WINDOW + X_VEC - 1) / X_VEC * X_VEC;
// Input columns per thread: those by which windows of neighbouring threads differ.
constexpr int OWN = PIXELS * SX;
constexpr int TILE_C = CHANNELS * C_VEC, TILE_X = COLUMNS * PIXELS, TILE_Y = ROWS * LINES;
constexpr int TILES_X = (OW + TILE_X - 1) / TILE_X;
constexpr int TILES_Y = (OH + TILE_Y - 1) / TILE_Y;
constexpr int BLOCKS_C = (CO + TILE_C - 1) / TILE_C;
constexpr int OUT_VEC = NHWC ? C_VEC : O_VEC;

#if OPERATION == 1  // maximum; NaNs propagate
#define IDENTITY __int_as_float(0xff800000)
#define IDENTITY_WORD \
  __int_as_float(ELEMENT == 0 ? 0xff800000 : ELEMENT == 1 ? 0xfc00fc00 : ELEMENT == 2 ? 0xff80ff80 : ELEMENT == 3 ? 0x80808080 : 0)
__device__ __forceinline__ float maximum(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(AUTOTUNE_EMULATE)
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
#else
  return b > a || b != b ? b : a;
#endif
}
#else
#define IDENTITY 0.0f
#define IDENTITY_WORD 0.0f
#endif

// The last coordinates at which the windows of a thread with outputs in bounds may start. Rows and columns that are
// inside the image even for these are loaded without bounds checks.
constexpr int LAST_Y = (OH - 1) / LINES * LINES * SY - PY;
constexpr int LAST_X = (OW - 1) / PIXELS * PIXELS * SX - PX - LEAD;

// A row of a thread: with SHUFFLED its own columns between as many of each neighbour, otherwise the columns that it loads.
// They lie in cells, which are loaded at once: X_VEC columns, or the input channels of C_VEC output channels. These are
// neighbours, or APART with a cell for each, where the filters of a channel are shared unevenly by threads.
constexpr bool APART = NHWC && C_VEC % MULTIPLIER != 0 && MULTIPLIER % C_VEC != 0;
constexpr int C_IN = !NHWC || MULTIPLIER % C_VEC == 0 ? 1 : APART ? C_VEC : C_VEC / MULTIPLIER;
constexpr int CELL = APART ? 1 : NHWC ? C_IN : X_VEC, CELL_WORDS = WORDS(CELL);
constexpr int ROW = SHUFFLED ? 3 * OWN : READ, CELLS = ROW * C_IN / CELL;
constexpr int FIRST = SHUFFLED ? OWN - PX : LEAD;  // the first column of the first window
typedef float Row[CELLS][CELL_WORDS];

// Returns whether any window of a thread has a tap at column `at` relative to the first window.
__device__ constexpr bool is_read(int at) {
  for (int p = 0; p < PIXELS; ++p)
    for (int k = 0; k < KW; ++k)
      if (p * SX + k * DX == at) return true;
  return false;
}

// Loads a cell, or IDENTITY.
__device__ __forceinline__ void load_cell(float (&to)[CELL_WORDS], const Element* __restrict__ from, bool valid) {
#pragma unroll
  for (int w = 0; w < CELL_WORDS; ++w) to[w] = IDENTITY_WORD;
  if (valid) load_words<CELL>(to, from);
}

#if SHUFFLED
// Returns whether any window of a thread has a tap in a word of its row.
__device__ constexpr bool is_word_read(int word) {
  for (int v = 0; v < CELL / CELL_WORDS; ++v)
    if (is_read(word * (CELL / CELL_WORDS) + v - FIRST)) return true;
  return false;
}

// Loads row `i` as the one below does, but each column once in a warp: `from` and x0 are the thread's own first column.
// All threads of a warp call this.
__device__ __forceinline__ void load_row(
    Row& to, const Element* __restrict__ from, int i, int y0, int x0, int column, bool within_rows) {
  const bool inside = within_rows && (i >= PY || y0 + i >= 0) && (LAST_Y + i < IH || y0 + i < IH);
  constexpr int OWN_CELLS = OWN / CELL;
#pragma unroll
  for (int cell = 0; cell < OWN_CELLS; ++cell) {
    const int j = cell * CELL;
    const bool valid = inside && (COLUMNS * OWN == IW || x0 + j < IW);
    load_cell(to[OWN_CELLS + cell], from + i * IW + j, valid);
  }
  // Shuffles wrap around: if the last thread of a row has no column inside the image, the first one gets its padding from
  // it. What the last thread gets from the first one is not used if it has no outputs; with wide padding it has.
  constexpr bool IDLE = (COLUMNS - 1) * OWN >= IW, UNUSED = (COLUMNS - 1) * PIXELS >= OW;
#pragma unroll
  for (int cell = 0; cell < OWN_CELLS; ++cell)
#pragma unroll
    for (int w = 0; w < CELL_WORDS; ++w) {
      const float own = to[OWN_CELLS + cell][w];
      if (is_word_read(cell * CELL_WORDS + w)) {
        const float left = __shfl_sync(0xffffffffu, own, column - 1, COLUMNS);
        to[cell][w] = IDLE || column > 0 ? left : IDENTITY_WORD;
      }
      if (is_word_read((2 * OWN_CELLS + cell) * CELL_WORDS + w)) {
        const float right = __shfl_sync(0xffffffffu, own, column + 1, COLUMNS);
        to[2 * OWN_CELLS + cell][w] = UNUSED || column < COLUMNS - 1 ? right : IDENTITY_WORD;
      }
    }
}
#else
// Loads row `i` of a thread's windows; IDENTITY outside of the image. The windows start at row y0 and column x0 of the
// image, at address `from`; both coordinates may be negative.
__device__ __forceinline__ void load_row(
    Row& to, const Element* __restrict__ from, int i, int y0, int x0, int channel) {
  const bool inside = (i >= PY || y0 + i >= 0) && (LAST_Y + i < IH || y0 + i < IH);
#pragma unroll
  for (int cell = 0; cell < CELLS; ++cell) {
    const int j = cell * CELL / C_IN, c = APART ? (channel % MULTIPLIER + cell % C_IN) / MULTIPLIER : 0;
    const bool valid = inside && (j >= PX + LEAD || x0 + j >= 0) && (LAST_X + j < IW || x0 + j < IW);
    load_cell(to[cell], from + (NHWC ? (i * IW + j) * CI + c : i * IW + j), valid);
  }
}
#endif

// Converts the elements of column `j` of a row, one for each channel.
__device__ __forceinline__ void convert(float (&to)[C_VEC], const Row& row, int j) {
#pragma unroll
  for (int c = 0; c < C_VEC; ++c) {
    const int at = j * C_IN + c / (C_VEC / C_IN);
    to[c] = element_of_words<CELL>(row[at / CELL], at % CELL);
  }
}

// Number of the SIZE elements of a window starting at `first` that are inside an image of this extent.
template <int SIZE, int STEP>
__device__ __forceinline__ int within(int first, int extent) {
  int count = 0;
#pragma unroll
  for (int k = 0; k < SIZE; ++k) count += first + k * STEP >= 0 && first + k * STEP < extent;
  return count;
}

// Returns sum / count; `inverse` is about 1 / count. A step of Newton's method makes it as exact as a division, which takes
// ten times as many instructions; infinities stay what they are.
__device__ __forceinline__ float quotient(float sum, float count, float inverse) {
  const float about = sum * inverse, closer = fmaf(fmaf(-about, count, sum), inverse, about);
  return closer == closer ? closer : about;
}

__device__ __forceinline__ void multiply_add(
    float (&sum)[C_VEC], const float (&values)[C_VEC], const float (&weights)[C_VEC]) {
#pragma unroll
  for (int c = 0; c < C_VEC; ++c) sum[c] = fmaf(weights[c], values[c], sum[c]);
}

__device__ __forceinline__ void pool(float (&result)[C_VEC], const float (&values)[C_VEC]) {
#pragma unroll
  for (int c = 0; c < C_VEC; ++c)
#if OPERATION == 1
    result[c] = maximum(result[c], values[c]);
#else
    result[c] += values[c];
#endif
}

// One resident block suffices: for more the compiler would save registers and load rows one after another, each when
// the previous one has arrived.
extern "C" __global__ void __launch_bounds__(THREADS, 1) windows(
    const Element* __restrict__ data, const Element* __restrict__ weight,
    const Element* __restrict__ bias, const Element* __restrict__ residual,
    const Element* __restrict__ scale, const Element* __restrict__ shift,
    Result* __restrict__ out) {
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#if NHWC  // neighbouring threads have neighbouring channels
  const int lane = threadIdx.x, column = threadIdx.y, row = threadIdx.z;
#else  // neighbouring columns
  const int column = threadIdx.x, row = threadIdx.y, lane = threadIdx.z;
#endif
#if NHWC
  // Blocks side by side have the channels of the same pixels, which share cache lines.
  const int tile = blockIdx.x / BLOCKS_C, first_co = blockIdx.x % BLOCKS_C * TILE_C;
#else
  const int tile = blockIdx.x, first_co = blockIdx.y * TILE_C;
#endif
  const int tile_x = tile % TILES_X;
  const int tile_y = BATCH > 1 ? tile / TILES_X % TILES_Y : tile / TILES_X;
  const int n = BATCH > 1 ? tile / (TILES_X * TILES_Y) : 0;
  const int co = first_co + lane * C_VEC;
  const int ox = tile_x * TILE_X + column * PIXELS, oy = tile_y * TILE_Y + row * LINES;
  const bool within_rows = OH % TILE_Y == 0 || oy < OH;
  const bool valid = (CO % TILE_C == 0 || co < CO) && (OW % TILE_X == 0 || ox < OW) && within_rows;
  if (!SHUFFLED && !valid) return;
  // Threads beyond the last channel take part in shuffles; they load the last one.
  const int co_read = !SHUFFLED || CO % TILE_C == 0 || co < CO ? co : CO - 1;
  const int ci = co_read / MULTIPLIER, y0 = oy * SY - PY, x0 = ox * SX - (SHUFFLED ? 0 : PX + LEAD);
  const Element* const from =
      data + n * (CI * IH * IW) + (NHWC ? (y0 * IW + x0) * CI + ci : (ci * IH + y0) * IW + x0);

#if OPERATION == 0
  float taps[KH * KW][C_VEC];
#pragma unroll
  for (int t = 0; t < KH * KW; ++t)
    load_elements<C_VEC>(taps[t], weight + (NHWC ? t * CO + co_read : co_read * (KH * KW) + t));
#endif

  float sum[LINES][PIXELS][C_VEC];
#pragma unroll
  for (int l = 0; l < LINES; ++l)
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
#pragma unroll
      for (int c = 0; c < C_VEC; ++c) sum[l][p][c] = IDENTITY;

#pragma unroll
  for (int i = 0; i < IN_LINES; ++i) {
    Row row;
    float line[WINDOW][C_VEC];
#if SHUFFLED
    load_row(row, from, i, y0, x0, column, within_rows);
#else
    load_row(row, from, i, y0, x0, co);
#endif
#pragma unroll
    for (int j = 0; j < WINDOW; ++j)
      if (is_read(j)) convert(line[j], row, FIRST + j);
#if OPERATION != 0
    // Windows of several lines have what is pooled along a row in common.
    float across[PIXELS][C_VEC];
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
#pragma unroll
      for (int c = 0; c < C_VEC; ++c) across[p][c] = line[p * SX][c];
#pragma unroll
      for (int kx = 1; kx < KW; ++kx) pool(across[p], line[p * SX + kx * DX]);
    }
#endif
#pragma unroll
    for (int l = 0; l < LINES; ++l) {
      const int ky = (i - l * SY) / DY;
      if (i < l * SY || (i - l * SY) % DY != 0 || ky >= KH) continue;
#if OPERATION == 0
#pragma unroll
      for (int kx = 0; kx < KW; ++kx)
#pragma unroll
        for (int p = 0; p < PIXELS; ++p)
          multiply_add(sum[l][p], line[p * SX + kx * DX], taps[ky * KW + kx]);
#else
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) pool(sum[l][p], across[p]);
#endif
    }
  }

  if (AHEAD) launch_dependent_grids();
  if (SHUFFLED && !valid) return;
#pragma unroll
  for (int l = 0; l < LINES; ++l) {
    if (OH % LINES && oy + l >= OH) break;
#if OPERATION == 2
    const int high = COUNT_PADDING ? KH : within<KH, DY>(y0 + l * SY, IH);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
      const int wide = COUNT_PADDING ? KW : within<KW, DX>((ox + p) * SX - PX, IW);
      const float count = high * wide > 0 ? high * wide : 1, inverse = __fdividef(1.0f, count);
#pragma unroll
      for (int c = 0; c < C_VEC; ++c) sum[l][p][c] = quotient(sum[l][p][c], count, inverse);
    }
#endif
#pragma unroll
    for (int p = 0; p < PIXELS; p += OUT_VEC / C_VEC) {
      if (OW % PIXELS && ox + p >= OW) continue;
      float values[OUT_VEC];
#pragma unroll
      for (int v = 0; v < OUT_VEC; ++v) values[v] = sum[l][p + v / C_VEC][v % C_VEC];
      const int at = NHWC ? ((n * OH + oy + l) * OW + ox + p) * CO + co
                          : ((n * CO + co) * OH + oy + l) * OW + ox + p;
      finish<NHWC>(values, epilogue, co, at);
#pragma unroll
      for (int v = 0; v < OUT_VEC; ++v) values[v] = last_step(values[v]);
      store_results<OUT_VEC>(out + at, values);
    }
  }
}
