// A convolution of NHWC images on tensor cores, of rows of pixels as they lie in memory: 16-bit floats, or floats as TF32.
//
// A block owns TILE_H x TILE_W output pixels and TILE_N filters, of TURNS tiles in turn. The pixels of a row under a tile are
// one run of memory, whatever the number of channels: runs are copied in vectors of 16 bytes to places in shared memory
// with the same alignment. The window of a pixel is KH runs there, whose elements a thread gathers, UNIT at a time, to
// left operands: each has EACH neighbours along K, so that columns of an mma are permuted along K, in the filters too.
// Filters are stored in fragment order. Sums pass through shared memory, so that neighbouring threads write neighbouring
// results; pixels of all filters are runs of memory, too.
enum : int { EACH = 8 / sizeof(Item), STEPS = (K + DEPTH - 1) / DEPTH, FRAGS_N = (TILE_N + 7) / 8 };
// Rows that are copied: of every row, or of filters of one row those with pixels.
enum : int {
  ROW_STEP = KH == 1 ? SY : 1,
  TILE_STEP = KH == 1 ? 1 : SY,
  ROWS = (TILE_H - 1) * TILE_STEP + (KH - 1) * DY + 1,
  WINDOW = ((TILE_W - 1) * SX + (KW - 1) * DX + 1) * CI,  // elements of a row
  ROW_ITEMS = IW * CI,
  VECTORS = (WINDOW + 2 * VECTOR - 2) / VECTOR,
  // Rows are as far apart as they are in memory, modulo 16 bytes.
  LEAST_PITCH = WINDOW + 2 * VECTOR - 2,
  PITCH = LEAST_PITCH + (ROW_STEP * (ROW_ITEMS % VECTOR) - LEAST_PITCH % VECTOR + VECTOR * VECTOR * SY) % VECTOR,
  STAGE = (ROWS * PITCH + 2 * VECTOR + DEPTH) / VECTOR * VECTOR
};
constexpr bool ONE_RUN = KH == 1 && (KW == 1 || DX == 1);
enum : int {
  UNIT = CI % EACH == 0 ? EACH : CI % 2 == 0 ? 2 : 1,
  UNITS = EACH / UNIT,
  TABLE = ONE_RUN ? 0 : STEPS * 4 * UNITS,
  PIXELS = TILE_H * TILE_W,
  FRAGS = (PIXELS + 15) / 16,
  GROUPS = (FRAGS + TOGETHER - 1) / TOGETHER,
  PASS = FRAGS_N < 16 / TOGETHER ? FRAGS_N : 16 / TOGETHER,  // fragments of columns that are multiplied together
  PASSES = (FRAGS_N + PASS - 1) / PASS,
  SUM_PITCH = 8 * (FRAGS_N | 1),
  ACROSS = TILE_N / VEC,  // vectors of results of a pixel
  AT_ONCE = 4,  // of these that a thread writes together where they are many
  TILES_X = (OW + TILE_W - 1) / TILE_W,
  TILES_Y = (OH + TILE_H - 1) / TILE_H,
  TILES = IMAGES * TILES_X * TILES_Y
};
constexpr long long ITEMS = static_cast<long long>(IMAGES) * IH * ROW_ITEMS;

struct Place {
  int image, y, x;  // first output pixel of a tile
};

__device__ __forceinline__ Place place_of(int tile) {
  return {tile / (TILES_X * TILES_Y), tile / TILES_X % TILES_Y * TILE_H, tile % TILES_X * TILE_W};
}

// The index in memory of the first element of a tile's rows, which may be outside of the image.
__device__ __forceinline__ long long first_item(const Place& at) {
  return (static_cast<long long>(at.image) * IH + at.y * SY - PY) * ROW_ITEMS + (at.x * SX - PX) * CI;
}

// The same modulo the elements of 16 bytes: where the first row of a tile begins in shared memory.
__device__ __forceinline__ int shift_of(const Place& at) {
  return ROW_ITEMS % VECTOR == 0 && CI % VECTOR == 0 ? 0 : static_cast<int>((first_item(at) + (1ll << 40)) % VECTOR);
}

__device__ __forceinline__ void stage_rows(Item* stage, const Item* __restrict__ data, const Place& at, int tid) {
  const long long first = first_item(at);
  const int shift = shift_of(at), left = (at.x * SX - PX) * CI;
#pragma unroll 4
  for (int i = tid; i < ROWS * VECTORS; i += THREADS) {
    const int row = i / VECTORS, begin = shift + row * PITCH, lead = begin % VECTOR;
    const int e = i % VECTORS * VECTOR - lead, y = at.y * SY - PY + row * ROW_STEP;
    if (e >= WINDOW) continue;
    Item* const to = stage + begin + e;
    const long long item = first + static_cast<long long>(row) * (ROW_STEP * ROW_ITEMS) + e;
    const int low = e < 0 ? 0 : e, high = e + VECTOR < WINDOW ? e + VECTOR : WINDOW;
    const bool inside = y >= 0 && y < IH;
    const bool whole = inside && left + low >= 0 && left + high <= ROW_ITEMS && item >= 0 && item + VECTOR <= ITEMS;
    const bool none = !inside || left + high <= 0 || left + low >= ROW_ITEMS;
    if (whole || none) {
      copy_async<4>(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(whole ? data + item : data), whole);
      continue;
    }
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) {
      const bool exists = e + j >= low && e + j < high && left + e + j >= 0 && left + e + j < ROW_ITEMS;
      to[j] = exists ? data[item + j] : Item(0);
    }
  }
}

// Stores filters, zeros beyond the last one and beyond K, as right operands: EACH neighbours along K of a column.
__device__ __forceinline__ void stage_filters(Item* filters, const Item* __restrict__ weight, int first, int tid) {
#pragma unroll 4
  for (int i = tid; i < STEPS * FRAGS_N * 32; i += THREADS) {
    const int lane = i % 32, n = i / 32 % FRAGS_N * 8 + lane / 4, k = i / (32 * FRAGS_N) * DEPTH + lane % 4 * EACH;
    const bool exists = n < TILE_N && first + n < CO;
    const Item* const from = weight + static_cast<size_t>(k) * CO + first + n;
    Item item[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) item[e] = exists && k + e < K ? from[e * CO] : Item(0);
#if TF32
    const uint2 both = make_uint2(rounded(__float_as_uint(item[0])), rounded(__float_as_uint(item[1])));
#else
    const uint2 both = make_uint2(item[0] | static_cast<unsigned>(item[1]) << 16,
                                  item[EACH / 2] | static_cast<unsigned>(item[EACH - 1]) << 16);
#endif
    reinterpret_cast<uint2*>(filters)[i] = both;
  }
}

// Stores where the units of a window are, relative to its first element.
__device__ __forceinline__ void stage_offsets(int* offsets, int tid) {
  for (int i = tid; i < TABLE; i += THREADS) {
    const int k = i * UNIT, tap = k / CI;
    offsets[i] = k < K ? tap / KW * DY * PITCH + tap % KW * DX * CI + k % CI : 0;
  }
}

// Loads EACH elements of a window as two words of a left operand; those from K on are 0.
__device__ __forceinline__ void load_window(
    unsigned& first, unsigned& second, const Item* window, const int (&offset)[UNITS], int there) {
  Item item[EACH];
#pragma unroll
  for (int u = 0; u < UNITS; ++u) {
    const Item* const from = window + offset[u];
    if (UNIT * sizeof(Item) == 8) {
      const uint2 both = *reinterpret_cast<const uint2*>(from);
      first = both.x, second = both.y;
    } else if (UNIT * sizeof(Item) == 4 && EACH == 4) {
      (u ? second : first) = *reinterpret_cast<const unsigned*>(from);
    } else {
      item[u] = *from;
    }
  }
#if TF32
  if (UNIT == 1) first = __float_as_uint(item[0]), second = __float_as_uint(item[1]);
  first = rounded(first), second = rounded(second);
  if (there < 2) second = 0;
  if (there < 1) first = 0;
#else
  if (UNIT == 1) {
    first = item[0] | static_cast<unsigned>(item[1]) << 16;
    second = item[EACH / 2] | static_cast<unsigned>(item[EACH - 1]) << 16;
  }
  if (there < 4) {
    first = there < 1 ? 0 : there < 2 ? first & 0xffffu : first;
    second = there < 3 ? 0 : second & 0xffffu;
  }
#endif
}

__device__ __forceinline__ int window_offset(int pixel) {
  if (pixel >= PIXELS) pixel = 0;
  return pixel / TILE_W * TILE_STEP * PITCH + pixel % TILE_W * SX * CI;
}

// Multiplies TOGETHER fragments of pixels by PASS fragments of filters, and stores their sums.
__device__ __forceinline__ void multiply(
    float* sums, const Item* rows, const Item* filters, const int* offsets, int group, int pass, int lane) {
  const Item* window[TOGETHER][2];
  float sum[TOGETHER][PASS][4];
#pragma unroll
  for (int i = 0; i < TOGETHER; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      window[i][half] = rows + window_offset((group * TOGETHER + i) * 16 + half * 8 + lane / 4);
#pragma unroll
    for (int j = 0; j < PASS * 4; ++j) sum[i][j / 4][j % 4] = 0.0f;
  }
  const uint2* const right = reinterpret_cast<const uint2*>(filters) + pass * PASS * 32 + lane;
#pragma unroll 4
  for (int step = 0; step < STEPS; ++step) {
    const int k = step * DEPTH + lane % 4 * EACH;
    int offset[UNITS];
#pragma unroll
    for (int u = 0; u < UNITS; ++u) offset[u] = ONE_RUN ? k + u * UNIT : offsets[(step * 4 + lane % 4) * UNITS + u];
    unsigned left[TOGETHER][4];
#pragma unroll
    for (int i = 0; i < TOGETHER * 2; ++i)
      load_window(left[i / 2][i % 2], left[i / 2][i % 2 + 2], window[i / 2][i % 2], offset, K % DEPTH ? K - k : EACH);
#pragma unroll
    for (int j = 0; j < PASS; ++j) {
      if (FRAGS_N % PASS && pass * PASS + j >= FRAGS_N) break;
      const uint2 by = right[(step * FRAGS_N + j) * 32];
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i) multiply_add(sum[i][j], left[i], by.x, by.y, lane);
    }
  }
#pragma unroll
  for (int i = 0; i < TOGETHER * 2; ++i) {
    const int pixel = (group * TOGETHER + i / 2) * 16 + i % 2 * 8 + lane / 4;
    if (pixel >= PIXELS) continue;
#pragma unroll
    for (int j = 0; j < PASS; ++j) {
      if (FRAGS_N % PASS && pass * PASS + j >= FRAGS_N) break;
      *reinterpret_cast<float2*>(sums + pixel * SUM_PITCH + (pass * PASS + j) * 8 + lane % 4 * 2) =
          make_float2(sum[i / 2][j][i % 2 * 2], sum[i / 2][j][i % 2 * 2 + 1]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) conv2d_rows(
    const Item* __restrict__ data, const Item* __restrict__ weight, EPILOGUE_PARAMETERS Item* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  Item* const stages = reinterpret_cast<Item*>(shared_memory);
  Item* const filters = stages + (TURNS > 1 ? 2 : 1) * STAGE;
  float* const sums = reinterpret_cast<float*>(filters + STEPS * DEPTH * FRAGS_N * 8);
  int* const offsets = reinterpret_cast<int*>(sums + PIXELS * SUM_PITCH);
  const int tid = threadIdx.x, lane = tid % 32, n0 = blockIdx.y * TILE_N;
  const int begin = blockIdx.x * TURNS, end = begin + TURNS < TILES ? begin + TURNS : TILES;
  stage_rows(stages, data, place_of(begin), tid);
  copy_commit();
  stage_filters(filters, weight, n0, tid);
  stage_offsets(offsets, tid);
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif
#pragma unroll 1
  for (int tile = begin; tile < end; ++tile) {
    const Place at = place_of(tile);
    const Item* const rows = stages + (tile - begin) % 2 * (TURNS > 1 ? STAGE : 0) + shift_of(at);
    if (TURNS > 1 && tile + 1 < end) stage_rows(stages + (tile + 1 - begin) % 2 * STAGE, data, place_of(tile + 1), tid);
    copy_commit();
    copy_wait<1>();
    __syncthreads();
#pragma unroll 1
    for (int item = tid / 32; item < GROUPS * PASSES; item += THREADS / 32)
      multiply(sums, rows, filters, offsets, item / PASSES, item % PASSES, lane);
    __syncthreads();
    // Results of many filters have a warp for each pixel, others a thread for each few of them.
    auto write = [&](int pixel, int n, int y, int x) {
      const size_t to = ((static_cast<size_t>(at.image) * OH + y) * OW + x) * CO + n0 + n;
      float value[VEC];
      load_vector<VEC>(value, sums + pixel * SUM_PITCH + n);
#if FOLLOWS
      finish<1>(value, epilogue, n0 + n, to);
#endif
      store_elements<VEC>(out + to, value);
    };
    if (ACROSS >= 24) {
      // What the epilogue of a few pixels needs is loaded before any is stored: the compiler cannot know that stores do
      // not alias.
#pragma unroll 1
      for (int first = tid / 32; first < PIXELS; first += THREADS / 32 * AT_ONCE)
#pragma unroll 1
        for (int n = lane * VEC; n < ACROSS * VEC; n += 32 * VEC) {
          float value[AT_ONCE][VEC];
          size_t to[AT_ONCE];
          bool exists[AT_ONCE];
#pragma unroll
          for (int i = 0; i < AT_ONCE; ++i) {
            const int pixel = first + i * (THREADS / 32), y = at.y + pixel / TILE_W, x = at.x + pixel % TILE_W;
            const bool inside = (OH % TILE_H == 0 || y < OH) && (OW % TILE_W == 0 || x < OW);
            exists[i] = pixel < PIXELS && inside && (CO % TILE_N == 0 || n0 + n < CO);
            if (!exists[i]) continue;
            to[i] = ((static_cast<size_t>(at.image) * OH + y) * OW + x) * CO + n0 + n;
            load_vector<VEC>(value[i], sums + pixel * SUM_PITCH + n);
#if FOLLOWS
            finish<1>(value[i], epilogue, n0 + n, to[i]);
#endif
          }
#pragma unroll
          for (int i = 0; i < AT_ONCE; ++i)
            if (exists[i]) store_elements<VEC>(out + to[i], value[i]);
        }
    } else {
#pragma unroll 4
      for (int i = tid; i < PIXELS * ACROSS; i += THREADS) {
        const int pixel = i / ACROSS, n = i % ACROSS * VEC, y = at.y + pixel / TILE_W, x = at.x + pixel % TILE_W;
        const bool beyond = (OH % TILE_H && y >= OH) || (OW % TILE_W && x >= OW) || (CO % TILE_N && n0 + n >= CO);
        if (!beyond) write(pixel, n, y, x);
      }
    }
  }
}
