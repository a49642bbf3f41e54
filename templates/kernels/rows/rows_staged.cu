// Maps of many short rows (`row_maps.h`). The ROWS * TIMES rows of a block are one run of memory, whatever their length:
// it is copied to shared memory, THREADS lanes map each row there in vectors of VEC elements, and it is copied back.
constexpr int SWEEP = THREADS * VEC, ITEMS = (DEPTH + SWEEP - 1) / SWEEP;

extern "C" __global__ void __launch_bounds__(BLOCK) rows(
    const Element* __restrict__ data, const Element* __restrict__ gain,
    const Element* __restrict__ shift, Element* __restrict__ out) {
  __shared__ __align__(16) Element run[RUN];
  const int tid = threadIdx.y * THREADS + threadIdx.x, first_row = blockIdx.x * (ROWS * TIMES);
  const size_t begin = static_cast<size_t>(first_row) * DEPTH;
  const int count = BATCH - first_row < ROWS * TIMES ? (BATCH - first_row) * DEPTH : RUN;
  load_run(run, data + begin, count, tid);
  __syncthreads();
  const int column = threadIdx.x * VEC;
  const int items = (DEPTH - column + SWEEP - 1) / SWEEP;
#pragma unroll
  for (int e = 0; e < TIMES; ++e) {
    const int row = e * ROWS + threadIdx.y;
    Element* const own = run + row * DEPTH + column;
    float v[ITEMS][VEC];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (DEPTH % SWEEP == 0 || i < items) load_elements<VEC>(v[i], own + i * SWEEP);
    MAP::State state = MAP::identity();
    MAP::absorb(state, v, DEPTH % SWEEP == 0 ? ITEMS : items);
    const MAP::Final final = MAP::final(reduce_lanes<MAP, THREADS>(state));
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (DEPTH % SWEEP == 0 || i < items) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) v[i][j] = MAP::map(v[i][j], final);
        gain_and_shift(v[i], gain, shift, first_row + row, column + i * SWEEP);
        store_elements<VEC>(own + i * SWEEP, v[i]);
      }
  }
  __syncthreads();
  store_run(out + begin, run, count, tid);
}
