// Reductions (`reducers.h`) of an array [OUTER, DEPTH, INNER] along its middle axis, which is split into SPLIT ranges,
// one a block. With more than one their states are written to `partial`, and `reduce_join`, by programmatic dependent
// launch, combines them with JOINERS threads an output. Where further axes lie between those that are reduced, OUTER
// and DEPTH are products of extents that alternate in the array, and the first element of plane `outer`, and element
// `at` of a column, have offsets that are not multiples (PLANE_AT, ROW_AT; made by reduce_cuda.py).
#define OUTPUTS (OUTER * INNER)

// Offset of the first element of a plane.
__device__ __forceinline__ size_t plane_at(int outer) {
#ifdef PLANE_AT
  return PLANE_AT;
#else
  return static_cast<size_t>(outer) * DEPTH * INNER;
#endif
}

// Element `begin + further` of a column.
__device__ __forceinline__ const Element* row_at(const Element* column, int begin, int further) {
#ifdef ROW_AT
  const int at = begin + further;
  return column + ROW_AT;
#elif INNER == 1
  return column + begin + further;
#else
  return column + static_cast<size_t>(begin + further) * INNER;
#endif
}

// Writes the result of an output, or its partial state.
__device__ __forceinline__ void write_state(Result* out, float* partial, int output, State state) {
#if SPLIT > 1
#pragma unroll
  for (int w = 0; w < Words<State>::EACH; ++w)
    partial[(w * SPLIT + blockIdx.y) * OUTPUTS + output] = reinterpret_cast<const float*>(&state)[w];
#else
  put(out + output, state);
#endif
}

#if INNER == 1
// A block has ROWS rows, with THREADS threads each: whole warps, or a power of two of a warp's lanes. Where VEC does not
// divide rows, vectors begin at the first aligned element of a row, and those before and behind them are loaded one by
// one.
constexpr bool RAGGED = DEPTH % VEC > 0;
extern "C" __global__ void __launch_bounds__(THREADS * ROWS) reduce(
    const Element* __restrict__ data, Result* __restrict__ out, float* __restrict__ partial) {
  constexpr int WARPS = (THREADS + 31) / 32, SWEEP = THREADS * VEC;
  __shared__ State warp_states[ROWS][WARPS];
  const int row = blockIdx.x * ROWS + threadIdx.y;
  if (SPLIT > 1) launch_dependent_grids();
  const bool active = row < OUTER;
  const Element* const from = data + plane_at(active ? row : 0);
  const int begin = blockIdx.y * PER_SPLIT;
  const int end = begin + PER_SPLIT < DEPTH ? begin + PER_SPLIT : DEPTH;
  State states[UNROLL];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) states[i] = REDUCER::identity();
  int first = begin, last = end;
  if (RAGGED) {
    const int before = static_cast<int>((static_cast<long long>(active ? row : 0) * DEPTH + begin) % VEC);
    first = begin + (VEC - before) % VEC;
    first = first < end ? first : end;
    last = end - (end - first) % VEC;
    for (int each = begin + threadIdx.x; each < first; each += THREADS) {
      Value v[1];
      load_elements<1>(v, from + each);
      REDUCER::add(states[0], v[0], each);
    }
  }
  int at = first + threadIdx.x * VEC;
#pragma unroll 1
  for (; at + (UNROLL - 1) * SWEEP < last; at += UNROLL * SWEEP) {
    Value v[UNROLL][VEC];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) load_elements<VEC>(v[i], row_at(from, at, i * SWEEP));
#pragma unroll
    for (int i = 0; i < UNROLL; ++i)
#pragma unroll
      for (int j = 0; j < VEC; ++j) REDUCER::add(states[i], v[i][j], at + i * SWEEP + j);
  }
#pragma unroll 1
  for (; at < last; at += SWEEP) {
    Value v[VEC];
    load_elements<VEC>(v, row_at(from, at, 0));
#pragma unroll
    for (int j = 0; j < VEC; ++j) REDUCER::add(states[0], v[j], at + j);
  }
  if (RAGGED) {
    for (int each = last + threadIdx.x; each < end; each += THREADS) {
      Value v[1];
      load_elements<1>(v, from + each);
      REDUCER::add(states[0], v[0], each);
    }
  }
#pragma unroll
  for (int i = 1; i < UNROLL; ++i) states[0] = REDUCER::combine(states[0], states[i]);
  const State state = reduce_warps<REDUCER, WARPS>(states[0], warp_states[threadIdx.y]);
  if (active && threadIdx.x == 0) write_state(out, partial, row, state);
}
#else
// A block has THREADS vectors of neighbouring columns, with ROWS threads each.
extern "C" __global__ void __launch_bounds__(THREADS * ROWS) reduce(
    const Element* __restrict__ data, Result* __restrict__ out, float* __restrict__ partial) {
  constexpr int TILES = (INNER + THREADS * VEC - 1) / (THREADS * VEC);
  __shared__ State others[ROWS > 1 ? ROWS : 1][THREADS * VEC];
  const int outer = blockIdx.x / TILES;
  if (SPLIT > 1) launch_dependent_grids();
  const int column = (blockIdx.x % TILES * THREADS + threadIdx.x) * VEC;
  const bool active = column < INNER;
  const Element* const from = data + plane_at(outer) + (active ? column : 0);
  const int begin = blockIdx.y * PER_SPLIT;
  const int end = begin + PER_SPLIT < DEPTH ? begin + PER_SPLIT : DEPTH;
  State states[VEC];
#pragma unroll
  for (int j = 0; j < VEC; ++j) states[j] = REDUCER::identity();
  int at = begin + threadIdx.y;
#pragma unroll 1
  for (; at + (UNROLL - 1) * ROWS < end; at += UNROLL * ROWS) {
    Value v[UNROLL][VEC];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) load_elements<VEC>(v[i], row_at(from, at, i * ROWS));
#pragma unroll
    for (int i = 0; i < UNROLL; ++i)
#pragma unroll
      for (int j = 0; j < VEC; ++j) REDUCER::add(states[j], v[i][j], at + i * ROWS);
  }
#pragma unroll 1
  for (; at < end; at += ROWS) {
    Value v[VEC];
    load_elements<VEC>(v, row_at(from, at, 0));
#pragma unroll
    for (int j = 0; j < VEC; ++j) REDUCER::add(states[j], v[j], at);
  }
#pragma unroll
  for (int j = 0; j < VEC; ++j) others[threadIdx.y][threadIdx.x * VEC + j] = states[j];
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.y * THREADS + threadIdx.x; i < THREADS * VEC; i += THREADS * ROWS) {
    const int own = blockIdx.x % TILES * (THREADS * VEC) + i;
    if (own >= INNER) break;
    State state = others[0][i];
#pragma unroll 4
    for (int r = 1; r < ROWS; ++r) state = REDUCER::combine(state, others[r][i]);
    write_state(out, partial, outer * INNER + own, state);
  }
}
#endif

#if SPLIT > 1
// Combines the states of the ranges of each output.
extern "C" __global__ void __launch_bounds__(128) reduce_join(
    const float* __restrict__ partial, Result* __restrict__ out) {
  const int output = (blockIdx.x * 128 + threadIdx.x) / JOINERS, first = threadIdx.x % JOINERS;
  State state = REDUCER::identity();
  wait_on_dependent_grids();
#pragma unroll 8
  for (int part = first; part < SPLIT; part += JOINERS) {
    if (output >= OUTPUTS) break;
    State other;
#pragma unroll
    for (int w = 0; w < Words<State>::EACH; ++w)
      reinterpret_cast<float*>(&other)[w] = partial[(w * SPLIT + part) * OUTPUTS + output];
    state = REDUCER::combine(state, other);
  }
  state = reduce_lanes<REDUCER, JOINERS>(state);
  if (output < OUTPUTS && first == 0) put(out + output, state);
}
#endif
