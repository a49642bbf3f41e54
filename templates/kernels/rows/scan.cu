// Inclusive prefix sums of the rows of a matrix. A block has ROWS rows, with THREADS threads each, and loops over tiles
// of ITEMS vectors a thread.
extern "C" __global__ void __launch_bounds__(THREADS * ROWS) scan(
    const Element* __restrict__ data, Element* __restrict__ out) {
  __shared__ Value all_totals[ROWS][TOTALS + 1];
  const int row = blockIdx.x * ROWS + threadIdx.y;
  const bool active = row < BATCH;
  const Element* const from = data + static_cast<size_t>(active ? row : 0) * DEPTH;
  Element* const to = out + static_cast<size_t>(active ? row : 0) * DEPTH;
  Value* const totals = all_totals[threadIdx.y];
  Value carried = 0;
#pragma unroll 1
  for (int begin = first_column(active ? row : 0); begin < DEPTH; begin += TILE) {
    Value v[ITEMS][VEC], before[ITEMS];
    load_tile(v, from, begin, DEPTH);
    scan_tile(v, before, totals);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int column = begin + i * SWEEP + static_cast<int>(threadIdx.x) * VEC;
      const Value base = carried + sum_before(totals, i) + before[i];
#pragma unroll
      for (int j = 0; j < VEC; ++j) v[i][j] += base;
      if (active) store_columns(to, v[i], column, DEPTH);
    }
    carried += totals[TOTALS - 1];
    if (begin + TILE < DEPTH) __syncthreads();
  }
}
