// Layouts of the operands of C[M, N] = A[M, K] B[K, N], and parameters of the epilogue.
//
// A is stored as [M, K], or with TRANSPOSE_A as [K, M]. With CONV the kernel is an implicit GEMM: A is the im2col
// matrix of NHWC images, whose row m is the window of output pixel m, in the order filter row, filter column, channel.
// B is stored as [K, N], or with TRANSPOSE_B as [N, K]. Matrices of a batch have strides of A_STRIDE and B_STRIDE
// elements, 0 for an operand that all share. With GROUPED the batch consists of the groups of a grouped convolution:
// rows of B and of C have the channels of all groups, ALL_N in all, and so have bias, scale and shift.
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
// Returns the offset in the images of element k of row m; clears `exists` where it is outside of the image.
__device__ __forceinline__ long long window_element(int m, int k, bool& exists) {
  const int tap = k / GROUP_CI, y = m / OW % OH * SY - PY + tap / KW * DY;
  const int x = m % OW * SX - PX + tap % KW * DX;
  exists = exists && y >= 0 && y < IH && x >= 0 && x < IW;
  return ((static_cast<long long>(m / (OH * OW)) * IH + y) * IW + x) * CI + k % GROUP_CI;
}
#endif

#if FOLLOWS && defined(GROUPED)
// Returns the epilogue arguments of a group.
__device__ __forceinline__ EpilogueArgs of_group(const EpilogueArgs& all, int group) {
  const int first = group * N;
  return {all.bias + first, all.residual + first, all.scale + first, all.shift + first};
}
#endif
