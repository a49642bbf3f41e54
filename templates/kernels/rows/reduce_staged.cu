// Reductions (`reducers.h`) of many small planes [DEPTH, INNER] of an array [OUTER, DEPTH, INNER]. The OUTERS planes of
// a block are one run of memory, which is copied to shared memory, with PAD vectors between planes against bank
// conflicts. THREADS neighbouring lanes reduce a column there, where INNER is 1 in vectors of VEC elements.
constexpr int OUTPUTS = OUTERS * INNER;
constexpr int AT_ONCE = 8, SWEEP = THREADS * VEC, STEPS = (DEPTH + SWEEP - 1) / SWEEP;

extern "C" __global__ void __launch_bounds__(BLOCK) reduce(
    const Element* __restrict__ data, Result* __restrict__ out) {
  constexpr int PITCH = PLANE + PAD * WIDE;
  __shared__ __align__(16) Element run[OUTERS * PITCH];
  const int first = blockIdx.x * OUTERS, planes = OUTER - first < OUTERS ? OUTER - first : OUTERS;
  load_run(run, data + static_cast<size_t>(first) * PLANE, planes * PLANE, threadIdx.x);
  __syncthreads();
  const int lane = threadIdx.x % THREADS;
#pragma unroll 1
  for (int begin = 0; begin < OUTPUTS; begin += BLOCK / THREADS) {
    const int output = begin + threadIdx.x / THREADS;
    const bool active = output < planes * INNER;
    const int plane = active ? output / INNER : 0;
    const Element* const own = run + plane * PITCH + output % INNER;
    State state = REDUCER::identity();
#pragma unroll AT_ONCE
    for (int step = 0; step < STEPS; ++step) {
      const int at = (step * THREADS + lane) * VEC;
      Value v[VEC];
      if (DEPTH % SWEEP > 0 && at >= DEPTH) break;
      load_elements<VEC>(v, own + at * INNER);
#pragma unroll
      for (int j = 0; j < VEC; ++j) REDUCER::add(state, v[j], at + j);
    }
    state = reduce_lanes<REDUCER, THREADS>(state);
    if (active && lane == 0) put(out + static_cast<size_t>(first) * INNER + output, state);
  }
}
