"""Kernels whose threads are ordered by single accesses in PTX; see synchronised.py."""

import numpy as np

from tests.emulator.synchronised import Synchronised, _histogram

KERNELS = {
    "last-block-by-instructions": Synchronised(
        """__shared__ unsigned last;
  __device__ static unsigned arrived;
  b[128 + i] = a[i];  // @part
  __syncthreads();  //- part sum
  if (t == 0) {
    unsigned old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(old) : "l"(&arrived) : "memory");
    last = old % 2;  // @last
  }
  __syncthreads();  //- last test
  if (last)  // @test
    b[t] = b[128 + t] + b[192 + t];  // @sum""",
        lambda a: a[:64] + a[64:128],
        (("atom.acq_rel", "atom.relaxed", "part sum"),),
    ),
    "message-by-instructions": Synchronised(
        """__shared__ float s[32];
  __shared__ unsigned flag;
  if (t == 0) flag = 0;  // @zero
  __syncthreads();  //- zero wait write read
  const unsigned at = (unsigned)__cvta_generic_to_shared(&flag);
  if (t < 32) {
    s[t] = a[i];  // @write
    __syncwarp();  //- write read
    if (t == 0)
      asm volatile("st.release.cta.shared.u32 [%0], 1;" :: "r"(at) : "memory");  // @wait
  } else {
    unsigned seen = 0;
    while (!seen)
      asm volatile("ld.acquire.cta.shared.u32 %0, [%1];"  // @wait
                   : "=r"(seen) : "r"(at) : "memory");
    b[i - 32] = s[t - 32];  // @read
  }""",
        lambda a: np.stack([a[:128].reshape(2, 64)[:, :32], np.zeros((2, 32))], 1).ravel(),
        (("st.release.cta", "st.relaxed.cta", "write read"),),
    ),
    "histogram-by-instructions": Synchronised(
        """__shared__ unsigned bins[8];
  if (t < 8) bins[t] = 0;  // @zero
  __syncthreads();  //- zero count
  const unsigned at = (unsigned)__cvta_generic_to_shared(&bins[(int)(a[i] * 8) & 7]);
  asm volatile("red.relaxed.cta.shared.add.u32 [%0], 1;" :: "r"(at) : "memory");  // @count
  __syncthreads();  //- count sum
  if (t < 8) {
    const float own = bins[t];  // @sum
    asm volatile("red.global.add.f32 [%0], %1;" :: "l"(&b[t]), "f"(own) : "memory");  // @sum
  }""",
        _histogram,
    ),
}
