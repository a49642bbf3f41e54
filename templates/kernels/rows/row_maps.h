// Maps of rows: reducers whose result determines the new value of each element of the row.
//
// Instead of `add` a map has `absorb`, which adds the elements that a thread holds; `Final`, what the map needs of a
// whole row; and `map`, the new value of an element. Where some of the elements that a thread holds are none of its row,
// they are `padding()`, and `absorb_inside` adds those for which inside(i, j) is true. GAIN and SHIFT tell whether a
// scale and an offset follow, one per column or per channel.
constexpr float LOG2E = 1.44269504088896341f;
constexpr float LN2 = 0.69314718055994531f;

struct Softmax {
  struct State {
    float top, sum;  // the maximum, and the sum of exp(v - top)
  };
  struct Final {
    float top, scale;
  };
  static __device__ __forceinline__ State identity() { return {-3.402823466e+38f, 0.0f}; }
  static __device__ __forceinline__ float power(float exponent) {
#if ELEMENT == 0 || defined(AUTOTUNE_EMULATE)
    return exp2f(exponent * LOG2E);
#else  // denormal powers, which this flushes to zero, are zero as 16-bit results and in their sum
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent * LOG2E));
    return result;
#endif
  }
  static __device__ __forceinline__ State combine(State a, State b) {
    const float top = fmaxf(a.top, b.top);
    return {top, a.sum * power(a.top - top) + b.sum * power(b.top - top)};
  }
  template <int ITEMS>
  static __device__ __forceinline__ void absorb(State& s, const float (&v)[ITEMS][VEC], int items) {
    float top = s.top;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
#pragma unroll
      for (int j = 0; j < VEC; ++j) top = fmaxf(top, i < items ? v[i][j] : top);
    float sum = s.sum * power(s.top - top);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (i < items) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) sum += power(v[i][j] - top);
      }
    s = {top, sum};
  }
  static __device__ __forceinline__ float padding() { return __int_as_float(0xff800000); }
  template <int ITEMS, class Inside>
  static __device__ __forceinline__ void absorb_inside(
      State& s, const float (&v)[ITEMS][VEC], int items, Inside) {
    absorb(s, v, items);
  }
  static __device__ __forceinline__ Final final(State s) { return {s.top, 1.0f / s.sum}; }
  static __device__ __forceinline__ float map(float v, Final f) {
    return power(v - f.top) * f.scale;
  }
};

struct LogSoftmax : Softmax {
  static __device__ __forceinline__ Final final(State s) { return {s.top, log2f(s.sum) * LN2}; }
  static __device__ __forceinline__ float map(float v, Final f) { return v - f.top - f.scale; }
};

// Mean and variance, by the parallel algorithm of Chan, Golub and LeVeque (1979).
struct LayerNorm {
  struct State {
    float count, mean, squares;  // the sum of squared deviations from the mean
  };
  struct Final {
    float mean, scale;
  };
  static __device__ __forceinline__ State identity() { return {0.0f, 0.0f, 0.0f}; }
  static __device__ __forceinline__ State combine(State a, State b) {
    const float count = a.count + b.count, apart = b.mean - a.mean;
    const float share = count > 0.0f ? __fdividef(b.count, count) : 0.0f;
    return {count, fmaf(apart, share, a.mean),
            a.squares + b.squares + apart * apart * a.count * share};
  }
  template <int ITEMS>
  static __device__ __forceinline__ void absorb(State& s, const float (&v)[ITEMS][VEC], int items) {
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (i < items) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) sum += v[i][j];
      }
    const float count = static_cast<float>((items < ITEMS ? items : ITEMS) * VEC);
    const float mean = count > 0.0f ? __fdividef(sum, count) : 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (i < items) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) squares = fmaf(v[i][j] - mean, v[i][j] - mean, squares);
      }
    s = combine(s, State{count, mean, squares});
  }
  static __device__ __forceinline__ float padding() { return 0.0f; }
  template <int ITEMS, class Inside>
  static __device__ __forceinline__ void absorb_inside(
      State& s, const float (&v)[ITEMS][VEC], int items, Inside inside) {
    float sum = 0.0f, squares = 0.0f, count = 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (i < items) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
          sum += v[i][j];
          count += inside(i, j) ? 1.0f : 0.0f;
        }
      }
    const float mean = count > 0.0f ? __fdividef(sum, count) : 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (i < items) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
          const float apart = inside(i, j) ? v[i][j] - mean : 0.0f;
          squares = fmaf(apart, apart, squares);
        }
      }
    s = combine(s, State{count, mean, squares});
  }
  static __device__ __forceinline__ Final final(State s) {
    return {s.mean, rsqrtf(s.squares * (1.0f / DEPTH) + static_cast<float>(EPSILON))};
  }
  static __device__ __forceinline__ float map(float v, Final f) { return (v - f.mean) * f.scale; }
};

struct RmsNorm {
  struct State {
    float squares;
  };
  struct Final {
    float scale;
  };
  static __device__ __forceinline__ State identity() { return {0.0f}; }
  static __device__ __forceinline__ State combine(State a, State b) {
    return {a.squares + b.squares};
  }
  template <int ITEMS>
  static __device__ __forceinline__ void absorb(State& s, const float (&v)[ITEMS][VEC], int items) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (i < items) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) s.squares = fmaf(v[i][j], v[i][j], s.squares);
      }
  }
  static __device__ __forceinline__ float padding() { return 0.0f; }
  template <int ITEMS, class Inside>
  static __device__ __forceinline__ void absorb_inside(
      State& s, const float (&v)[ITEMS][VEC], int items, Inside) {
    absorb(s, v, items);
  }
  static __device__ __forceinline__ Final final(State s) {
    return {rsqrtf(s.squares * (1.0f / DEPTH) + static_cast<float>(EPSILON))};
  }
  static __device__ __forceinline__ float map(float v, Final f) { return v * f.scale; }
};

// Scales and shifts VEC neighbours. Where channels have SPATIAL elements each, a row has CHANNELS channels, and every
// GROUPS-th row the same ones.
__device__ __forceinline__ void gain_and_shift(
    float (&v)[VEC], const Element* __restrict__ gain, const Element* __restrict__ shift, int row,
    int column) {
#if GAIN || SHIFT
  float factors[VEC], summands[VEC];
#if SPATIAL > 1
#pragma unroll
  for (int j = 0; j < VEC; ++j) {
    float one[1];
    const int channel = row % GROUPS * CHANNELS + (column + j) / SPATIAL;
    if (GAIN) load_elements<1>(one, gain + channel);
    factors[j] = one[0];
    if (SHIFT) load_elements<1>(one, shift + channel);
    summands[j] = one[0];
  }
#else
  const int channel = row % GROUPS * CHANNELS + column;
  if (GAIN) load_elements<VEC>(factors, gain + channel);
  if (SHIFT) load_elements<VEC>(summands, shift + channel);
#endif
#pragma unroll
  for (int j = 0; j < VEC; ++j) {
    if (GAIN) v[j] *= factors[j];
    if (SHIFT) v[j] += summands[j];
  }
#endif
}
