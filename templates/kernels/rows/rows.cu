// Maps of the rows of a matrix (`row_maps.h`). A block has ROWS rows, with THREADS threads each: whole warps, or a
// power of two of a warp's lanes. With KEEP a row stays in registers between its one read and its one write; without,
// a second pass reads it again.
//
// Where VEC does not divide rows, their first and last vectors may be partial: elements of these are loaded and stored
// one by one, and so are all scales and offsets.
#define RAGGED (DEPTH % VEC > 0)
constexpr int WARPS = (THREADS + 31) / 32;
constexpr int SWEEP = THREADS * VEC;
constexpr int REACH = DEPTH + (RAGGED ? VEC - 1 : 0);
constexpr int ITEMS = KEEP ? (REACH + SWEEP - 1) / SWEEP : 4;

// The column of the first aligned vector of a row: 0, or up to VEC - 1 before the row.
__device__ __forceinline__ int first_column(int row) {
  return RAGGED ? -static_cast<int>(static_cast<long long>(row) * DEPTH % VEC) : 0;
}

#if RAGGED
// Vectors of a thread that are inside a row for all threads, but for the first vector of all: those of the columns from
// `begin` on.
__device__ __forceinline__ int whole_items(int begin) {
  return KEEP ? DEPTH / SWEEP : begin + ITEMS * SWEEP <= DEPTH ? ITEMS : 0;
}

// Loads a thread's vectors of the columns from `begin` on; returns their number. Whole vectors are loaded without
// conditions, so that all loads are in flight together; the first one may begin with the end of the row before.
__device__ __forceinline__ int load_items(
    float (&v)[ITEMS][VEC], const Element* __restrict__ from, int begin) {
  const int remaining = DEPTH - begin - static_cast<int>(threadIdx.x) * VEC;
  const int items = remaining > 0 ? (remaining + SWEEP - 1) / SWEEP : 0, whole = whole_items(begin);
  const Element* const own = from + begin + static_cast<int>(threadIdx.x) * VEC;
  if (KEEP || whole == ITEMS) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (i < whole) load_elements<VEC>(v[i], own + i * SWEEP);
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
    if (i >= whole && i < items) {
      const int column = begin + i * SWEEP + threadIdx.x * VEC;
      if (column + VEC <= DEPTH) {
        load_elements<VEC>(v[i], own + i * SWEEP);
      } else {
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
          float one[1] = {MAP::padding()};
          if (column + j < DEPTH) load_elements<1>(one, own + i * SWEEP + j);
          v[i][j] = one[0];
        }
      }
    }
#pragma unroll
  for (int j = 0; j < VEC - 1; ++j)
    if (threadIdx.x == 0 && begin + j < 0) v[0][j] = MAP::padding();
  return items;
}

// Adds a thread's vectors of the columns from `begin` on.
__device__ __forceinline__ void absorb_items(MAP::State& state, const float (&v)[ITEMS][VEC], int begin, int items) {
  const int own = begin + static_cast<int>(threadIdx.x) * VEC, whole = whole_items(begin);
  MAP::absorb_inside(state, v, items, [&](int i, int j) {
    return (i > 0 || own + j >= 0) && (i < whole || own + i * SWEEP + j < DEPTH);
  });
}

// Scales and shifts neighbours from a column on, some of which may be outside of the row.
__device__ __forceinline__ void gain_and_shift_each(
    float (&v)[VEC], const Element* __restrict__ gain, const Element* __restrict__ shift, int row, int column) {
#pragma unroll
  for (int j = 0; j < VEC; ++j) {
    const int own = column + j < 0 ? 0 : column + j < DEPTH ? column + j : DEPTH - 1;
    const int channel = row % GROUPS * CHANNELS + own / SPATIAL;
    float factor[1] = {1.0f}, summand[1] = {0.0f};
    if (GAIN) load_elements<1>(factor, gain + channel);
    if (SHIFT) load_elements<1>(summand, shift + channel);
    if (GAIN) v[j] *= factor[0];
    if (SHIFT) v[j] += summand[0];
  }
}

__device__ __forceinline__ void store_partial(Element* to, const float (&v)[VEC], int column) {
#pragma unroll
  for (int j = 0; j < VEC; ++j) {
    const float one[1] = {v[j]};
    if (column + j >= 0 && column + j < DEPTH) store_elements<1>(to + column + j, one);
  }
}

__device__ __forceinline__ void store_items(
    Element* to, float (&v)[ITEMS][VEC], MAP::Final final, const Element* gain, const Element* shift,
    int row, int begin, int items) {
  const int whole = whole_items(begin), own = begin + static_cast<int>(threadIdx.x) * VEC;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (i >= items) continue;
    const int column = own + i * SWEEP;
#pragma unroll
    for (int j = 0; j < VEC; ++j) v[i][j] = MAP::map(v[i][j], final);
    if (GAIN || SHIFT) gain_and_shift_each(v[i], gain, shift, row, column);
    const bool inside = (i > 0 || column >= 0) && (i < whole || column + VEC <= DEPTH);
    if (inside) store_elements<VEC>(to + column, v[i]);
    else store_partial(to, v[i], column);
  }
}
#else
__device__ __forceinline__ void absorb_items(MAP::State& state, const float (&v)[ITEMS][VEC], int, int items) {
  MAP::absorb(state, v, items);
}

// Loads a thread's vectors of the columns from `begin` on; returns their number.
__device__ __forceinline__ int load_items(
    float (&v)[ITEMS][VEC], const Element* __restrict__ from, int begin) {
  const int remaining = DEPTH - begin - static_cast<int>(threadIdx.x) * VEC;
  const int items = remaining > 0 ? (remaining + SWEEP - 1) / SWEEP : 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
    if (i < items) {
      const int column = begin + i * SWEEP + threadIdx.x * VEC;
      load_elements<VEC>(v[i], from + column);
    }
  return items;
}

__device__ __forceinline__ void store_items(
    Element* to, float (&v)[ITEMS][VEC], MAP::Final final, const Element* gain, const Element* shift,
    int row, int begin, int items) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
    if (i < items) {
      const int column = begin + i * SWEEP + threadIdx.x * VEC;
#pragma unroll
      for (int j = 0; j < VEC; ++j) v[i][j] = MAP::map(v[i][j], final);
      gain_and_shift(v[i], gain, shift, row, column);
      store_elements<VEC>(to + column, v[i]);
    }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS * ROWS) rows(
    const Element* __restrict__ data, const Element* __restrict__ gain,
    const Element* __restrict__ shift, Element* __restrict__ out) {
  __shared__ MAP::State warp_states[ROWS][WARPS];
  const int row = blockIdx.x * ROWS + threadIdx.y;
  const bool active = row < BATCH;
  const Element* const from = data + static_cast<size_t>(active ? row : 0) * DEPTH;
  Element* const to = out + static_cast<size_t>(active ? row : 0) * DEPTH;
  const int first = first_column(active ? row : 0);
  float v[ITEMS][VEC];
  MAP::State state = MAP::identity();
#if KEEP
  const int items = load_items(v, from, first);
  absorb_items(state, v, first, items);
  const MAP::Final final = MAP::final(reduce_warps<MAP, WARPS>(state, warp_states[threadIdx.y]));
  if (active) store_items(to, v, final, gain, shift, row, first, items);
#else
#pragma unroll 1
  for (int begin = first; begin < DEPTH; begin += ITEMS * SWEEP) {
    const int items = load_items(v, from, begin);
    absorb_items(state, v, begin, items);
  }
  const MAP::Final final = MAP::final(reduce_warps<MAP, WARPS>(state, warp_states[threadIdx.y]));
  if (!active) return;
#pragma unroll 1
  for (int begin = first; begin < DEPTH; begin += ITEMS * SWEEP) {
    const int items = load_items(v, from, begin);
    store_items(to, v, final, gain, shift, row, begin, items);
  }
#endif
}
