// Where the operands of products C[M, N] = A[M, K] B[K, N] stand, and what a kernel takes beside them.
//
// A is stored as [M, K], or with TRANSPOSE_A as [K, M]; with CONV it is no matrix: row m is what the window
// of output pixel m of NHWC images covers, in the order filter row, filter column, channel. B is stored as
// [K, N], or with TRANSPOSE_B as [N, K]. Matrices of a batch are A_STRIDE and B_STRIDE elements apart, 0
// where one serves all. With GROUPED the batch are the groups of channels of images: rows of B and of C have the
// channels of all groups one after another, ALL_N of them, and those of bias, scale and shift do too.
#ifdef GROUPED
#define IN_GROUPS 1
#define ALL_N (BATCH * N)
#else
#define IN_GROUPS 0
#define ALL_N N
#endif
#if FOLLOWS
#define EPILOGUE_PARAMETERS                                                                 \
  const EpilogueElement *__restrict__ bias, const EpilogueElement *__restrict__ residual,                 \
      const EpilogueElement *__restrict__ scale, const EpilogueElement *__restrict__ shift,
#else
#define EPILOGUE_PARAMETERS
#endif

#if CONV
// Returns where element k of row m stands in the images; outside of them there is none.
__device__ __forceinline__ long long window_element(int m, int k, bool& exists) {
  const int tap = k / GROUP_CI, y = m / OW % OH * SY - PY + tap / KW * DY;
  const int x = m % OW * SX - PX + tap % KW * DX;
  exists = exists && y >= 0 && y < IH && x >= 0 && x < IW;
  return ((static_cast<long long>(m / (OH * OW)) * IH + y) * IW + x) * CI + k % GROUP_CI;
}
#endif

#if FOLLOWS && defined(GROUPED)
// Returns what follows the sums of a group.
__device__ __forceinline__ EpilogueArgs of_group(const EpilogueArgs& all, int group) {
  const int first = group * N;
  return {all.bias + first, all.residual + first, all.scale + first, all.shift + first};
}
#endif
