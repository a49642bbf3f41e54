// Reducers: the state of a partial reduction, and how two are combined. DEPTH is the number of elements of a row.
//
// A reducer has `identity()`, the state of no elements; `add`, of one more element; `combine`, of two states; and
// `value`, the result. `index` is the index of an element in its row. Values are floats, or of the type VALUE.
#ifdef VALUE
typedef VALUE Value;
#else
typedef float Value;
#define LOWEST __int_as_float(0xff800000)
#define HIGHEST __int_as_float(0x7f800000)
#endif

struct Sum {
  struct State {
    Value sum;
  };
  static __device__ __forceinline__ State identity() { return {0}; }
  static __device__ __forceinline__ void add(State& s, Value v, int) { s.sum += v; }
  static __device__ __forceinline__ State combine(State a, State b) { return {a.sum + b.sum}; }
  static __device__ __forceinline__ Value value(State s) { return s.sum; }
};

struct Mean : Sum {
  static __device__ __forceinline__ Value value(State s) { return s.sum * (static_cast<Value>(1) / DEPTH); }
};

struct Product {
  struct State {
    Value product;
  };
  static __device__ __forceinline__ State identity() { return {1}; }
  static __device__ __forceinline__ void add(State& s, Value v, int) { s.product *= v; }
  static __device__ __forceinline__ State combine(State a, State b) {
    return {a.product * b.product};
  }
  static __device__ __forceinline__ Value value(State s) { return s.product; }
};

// Minimum or maximum; NaNs propagate, as in numpy.
template <bool LARGEST>
struct Extreme {
  struct State {
    Value best;
  };
  static __device__ __forceinline__ bool better(Value a, Value b) {
    return (LARGEST ? a > b : a < b) || a != a;
  }
  static __device__ __forceinline__ State identity() { return {LARGEST ? LOWEST : HIGHEST}; }
  static __device__ __forceinline__ void add(State& s, Value v, int) {
    s.best = better(v, s.best) ? v : s.best;
  }
  static __device__ __forceinline__ State combine(State a, State b) {
    return {better(b.best, a.best) ? b.best : a.best};
  }
  static __device__ __forceinline__ Value value(State s) { return s.best; }
};

// Index of the minimum or maximum; of several, the first. A thread adds elements of ascending indices, so that only a
// better one takes the place of another; the first element stands for none, which is right if all are as bad as can be.
template <bool LARGEST>
struct ExtremeIndex {
  struct State {
    Value best;
    int index;
  };
  static __device__ __forceinline__ State identity() {
    return {LARGEST ? LOWEST : HIGHEST, 0};
  }
  static __device__ __forceinline__ State combine(State a, State b) {
    const bool a_nan = a.best != a.best, b_nan = b.best != b.best;
    const bool equal = a.best == b.best || (a_nan && b_nan);
    const bool better = !a_nan && (b_nan || (LARGEST ? b.best > a.best : b.best < a.best));
    return (equal ? b.index < a.index : better) ? b : a;
  }
  static __device__ __forceinline__ void add(State& s, Value v, int index) {
    const bool better = LARGEST ? !(v <= s.best) : !(v >= s.best);
    if (better && s.best == s.best) s = State{v, index};
  }
  static __device__ __forceinline__ int value(State s) { return s.index; }
};

typedef Extreme<true> Maximum;
typedef Extreme<false> Minimum;
typedef ExtremeIndex<true> Argmax;
typedef ExtremeIndex<false> Argmin;

// States as words, for shuffles and arrays.
template <class State>
struct Words {
  enum { EACH = sizeof(State) / sizeof(float) };
};

template <class State>
__device__ __forceinline__ State shuffle_xor(State state, int mask) {
  State other;
#pragma unroll
  for (int w = 0; w < Words<State>::EACH; ++w)
    reinterpret_cast<float*>(&other)[w] =
        __shfl_xor_sync(0xffffffffu, reinterpret_cast<const float*>(&state)[w], mask);
  return other;
}

// Combines the states of LANES neighbouring threads, a power of two; all of them get the result.
template <class Reducer, int LANES>
__device__ __forceinline__ typename Reducer::State reduce_lanes(typename Reducer::State state) {
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2)
    state = Reducer::combine(state, shuffle_xor(state, mask));
  return state;
}

// Combines the states of the THREADS threads of a row, which are WARPS warps or a part of one; every thread gets the
// result. `warp_states` is a buffer in shared memory, one state a warp.
template <class Reducer, int WARPS>
__device__ __forceinline__ typename Reducer::State reduce_warps(
    typename Reducer::State state, typename Reducer::State* warp_states) {
  state = reduce_lanes<Reducer, (THREADS < 32 ? THREADS : 32)>(state);
  if (WARPS > 1) {
    if (threadIdx.x % 32 == 0) warp_states[threadIdx.x / 32] = state;
    __syncthreads();
    state = reduce_lanes<Reducer, WARPS>(warp_states[threadIdx.x % WARPS]);
  }
  return state;
}
