// Maps of few long rows (`row_maps.h`), in two passes. A block has one of SPLIT ranges of a row, of PER_SPLIT elements:
// `row_states` writes the state of a range to `partial`; `rows` combines the states of its row, in every warp, and
// writes its range.
constexpr int WARPS = THREADS / 32;
constexpr int SWEEP = THREADS * VEC;
constexpr int ITEMS = 4;
constexpr int TILE = ITEMS * SWEEP;
#define RAGGED (DEPTH % VEC > 0)

// The column of the first aligned vector of a row: 0, or up to VEC - 1 before the row.
__device__ __forceinline__ int first_column(int row) {
  return RAGGED ? -static_cast<int>(static_cast<long long>(row) * DEPTH % VEC) : 0;
}

// Loads a thread's vectors of the columns from `begin` on; returns their number. Where vectors do not divide rows, those
// of a whole tile are loaded without conditions, so that all loads are in flight together; the first one may begin with
// the end of the row before.
__device__ __forceinline__ int load_items(
    float (&v)[ITEMS][VEC], const Element* __restrict__ from, int begin, int end) {
  const int own = begin + static_cast<int>(threadIdx.x) * VEC, remaining = end - own;
  const int items = remaining > 0 ? (remaining + SWEEP - 1) / SWEEP : 0;
  if (RAGGED && begin + TILE <= end) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) load_elements<VEC>(v[i], from + own + i * SWEEP);
  } else {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int column = own + i * SWEEP;
      if (i < items && (!RAGGED || column + VEC <= DEPTH)) {
        load_elements<VEC>(v[i], from + column);
      } else if (RAGGED && i < items) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
          float one[1] = {MAP::padding()};
          if (column + j < DEPTH) load_elements<1>(one, from + column + j);
          v[i][j] = one[0];
        }
      }
    }
  }
#pragma unroll
  for (int j = 0; j < VEC - 1; ++j)
    if (RAGGED && own + j < 0) v[0][j] = MAP::padding();
  return items;
}

// Adds a thread's vectors of the columns from `begin` on.
__device__ __forceinline__ void absorb_items(
    MAP::State& state, const float (&v)[ITEMS][VEC], int begin, int items) {
  const int own = begin + static_cast<int>(threadIdx.x) * VEC;
  if (RAGGED && (begin < 0 || begin + TILE > DEPTH))
    MAP::absorb_inside(state, v, items, [&](int i, int j) {
      return own + i * SWEEP + j >= 0 && own + i * SWEEP + j < DEPTH;
    });
  else
    MAP::absorb(state, v, items);
}

// Scales, shifts and stores the new values of a vector, one by one where vectors do not divide rows, as far as scales and
// offsets are concerned, and where some are outside of the row.
__device__ __forceinline__ void store_item(
    Element* to, float (&v)[VEC], const Element* gain, const Element* shift, int row, int column) {
  if (!RAGGED) {
    gain_and_shift(v, gain, shift, row, column);
    store_elements<VEC>(to + column, v);
    return;
  }
#pragma unroll
  for (int j = 0; j < VEC && (GAIN || SHIFT); ++j) {
    const int own = column + j < 0 ? 0 : column + j < DEPTH ? column + j : DEPTH - 1;
    const int channel = row % GROUPS * CHANNELS + own / SPATIAL;
    float factor[1] = {1.0f}, summand[1] = {0.0f};
    if (GAIN) load_elements<1>(factor, gain + channel);
    if (SHIFT) load_elements<1>(summand, shift + channel);
    if (GAIN) v[j] *= factor[0];
    if (SHIFT) v[j] += summand[0];
  }
  if (column >= 0 && column + VEC <= DEPTH) {
    store_elements<VEC>(to + column, v);
    return;
  }
#pragma unroll
  for (int j = 0; j < VEC; ++j) {
    const float one[1] = {v[j]};
    if (column + j >= 0 && column + j < DEPTH) store_elements<1>(to + column + j, one);
  }
}

// Ranges begin at aligned vectors, and the last one ends with the row.
__device__ __forceinline__ int end_of(int begin) {
  return blockIdx.x + 1 < SPLIT && begin + PER_SPLIT < DEPTH ? begin + PER_SPLIT : DEPTH;
}

extern "C" __global__ void __launch_bounds__(THREADS) row_states(
    const Element* __restrict__ data, float* __restrict__ partial) {
  __shared__ MAP::State warp_states[WARPS];
  const int row = blockIdx.y;
  const int first = first_column(row) + static_cast<int>(blockIdx.x) * PER_SPLIT, end = end_of(first);
  const Element* const from = data + static_cast<size_t>(row) * DEPTH;
  float v[ITEMS][VEC];
  MAP::State state = MAP::identity();
  launch_dependent_grids();
  // Backwards, since `rows` reads first what was read last and is still in the cache.
#pragma unroll 1
  for (int begin = first + (end - first - 1) / TILE * TILE; begin >= first; begin -= TILE) {
    const int items = load_items(v, from, begin, end);
    absorb_items(state, v, begin, items);
  }
  state = reduce_warps<MAP, WARPS>(state, warp_states);
  if (threadIdx.x > 0) return;
#pragma unroll
  for (int w = 0; w < Words<MAP::State>::EACH; ++w)
    partial[(row * SPLIT + blockIdx.x) * Words<MAP::State>::EACH + w] =
        reinterpret_cast<const float*>(&state)[w];
}

extern "C" __global__ void __launch_bounds__(THREADS) rows(
    const Element* __restrict__ data, const Element* __restrict__ gain,
    const Element* __restrict__ shift, const float* __restrict__ partial,
    Element* __restrict__ out) {
  const int row = blockIdx.y;
  const int first = first_column(row) + static_cast<int>(blockIdx.x) * PER_SPLIT, end = end_of(first);
  const Element* const from = data + static_cast<size_t>(row) * DEPTH;
  Element* const to = out + static_cast<size_t>(row) * DEPTH;
  MAP::State state = MAP::identity();
  wait_on_dependent_grids();
#pragma unroll
  for (int part = threadIdx.x % 32; part < SPLIT; part += 32) {
    MAP::State other;
#pragma unroll
    for (int w = 0; w < Words<MAP::State>::EACH; ++w)
      reinterpret_cast<float*>(&other)[w] =
          partial[(row * SPLIT + part) * Words<MAP::State>::EACH + w];
    state = MAP::combine(state, other);
  }
  const MAP::Final final = MAP::final(reduce_lanes<MAP, 32>(state));
#pragma unroll 1
  for (int begin = first; begin < end; begin += TILE) {
    float v[ITEMS][VEC];
    const int items = load_items(v, from, begin, end);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (i < items) {
        const int column = begin + i * SWEEP + static_cast<int>(threadIdx.x) * VEC;
#pragma unroll
        for (int j = 0; j < VEC; ++j) v[i][j] = MAP::map(v[i][j], final);
        store_item(to, v[i], gain, shift, row, column);
      }
  }
}
