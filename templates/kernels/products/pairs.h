// Epilogue and stores of two neighbours of a row of C; columns from C_N on do not exist.
template <class Number>
__device__ __forceinline__ void write_two(Number* out, size_t at, int n, Number low, Number high) {
  out[at] = low;
  if (n + 1 < C_N) out[at + 1] = high;
}

__device__ __forceinline__ void write_pair(float* out, size_t at, int n, float low, float high) {
  if (C_N % 2 == 0) *reinterpret_cast<float2*>(out + at) = make_float2(low, high);
  else write_two(out, at, n, low, high);
}

__device__ __forceinline__ void write_pair(int* out, size_t at, int n, int low, int high) {
  if (C_N % 2 == 0) *reinterpret_cast<int2*>(out + at) = make_int2(low, high);
  else write_two(out, at, n, low, high);
}

__device__ __forceinline__ void write_pair(
    unsigned short* out, size_t at, int n, float low, float high) {
  const unsigned pair = pack_pair(low, high);
  if (C_N % 2 == 0) *reinterpret_cast<unsigned*>(out + at) = pair;
  else write_two(out, at, n, static_cast<unsigned short>(pair), static_cast<unsigned short>(pair >> 16));
}

#if FOLLOWS
__device__ __forceinline__ void finish_pair(float& low, float& high, const EpilogueArgs& epilogue, int n, size_t at) {
#if C_N % 2 == 0
  float pair[2] = {low, high};
  finish<1>(pair, epilogue, n, at);
  low = pair[0], high = pair[1];
#else
  float one[1] = {low}, other[1] = {high};
  const int next = n + 1 < C_N ? 1 : 0;
  finish<1>(one, epilogue, n, at);
  finish<1>(other, epilogue, n + next, at + next);
  low = one[0], high = other[0];
#endif
}
#endif
