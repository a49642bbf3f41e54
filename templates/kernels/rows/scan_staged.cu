// Inclusive prefix sums of many short rows. The BLOCK * TIMES rows of a block are one run of memory: it is copied to
// shared memory, a thread sums up each row there in vectors of VEC elements, and it is copied back.
extern "C" __global__ void __launch_bounds__(BLOCK) scan(
    const Element* __restrict__ data, Element* __restrict__ out) {
  __shared__ __align__(16) Element run[RUN];
  const int first_row = blockIdx.x * (BLOCK * TIMES);
  const size_t begin = static_cast<size_t>(first_row) * DEPTH;
  const int count = BATCH - first_row < BLOCK * TIMES ? (BATCH - first_row) * DEPTH : RUN;
  load_run(run, data + begin, count, threadIdx.x);
  __syncthreads();
#pragma unroll
  for (int t = 0; t < TIMES; ++t) {
    Element* const own = run + (t * BLOCK + threadIdx.x) * DEPTH;
    Value sum = 0;
#pragma unroll 8
    for (int at = 0; at < DEPTH; at += VEC) {
      Value v[VEC];
      load_elements<VEC>(v, own + at);
#pragma unroll
      for (int j = 0; j < VEC; ++j) v[j] = sum += v[j];
      store_elements<VEC>(own + at, v);
    }
  }
  __syncthreads();
  store_run(out + begin, run, count, threadIdx.x);
}
