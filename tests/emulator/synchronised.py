"""Kernels that are right, with the synchronisation that each needs marked; see test_mutants.py.

Each is launched with two blocks of 64 threads, on 768 floats `a`, and 256 zeros `b`; `t` is the
thread, `i` its number in the grid. A line with `//-` is a synchronisation: without it, what is
reported must be of lines that have one of the names that follow, as in `// @load`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Synchronised:
    """The body of a kernel, what `b` begins with, and what else may go wrong with it.

    Attributes:
        changes: of the text, each with the names of lines that are then reported.
    """

    body: str
    expected: Callable[[np.ndarray], np.ndarray]
    changes: tuple[tuple[str, str, str], ...] = ()
    attributes: str = ""


def _blocks(a):
    return a[:128].reshape(2, 64)


def _product(a):
    return (a[:256].reshape(8, 32) @ a[256:].reshape(32, 16)).ravel()


def _steps(a):
    return np.tile(a[:256].reshape(4, 64)[:, ::-1].sum(0), 2)


def _histogram(a):
    return np.bincount((a[:128] * 8).astype(int) & 7, minlength=8)


_TILES = """const int x = t % 8, y = t / 8;
  const float* const p = a + y * 32 + x;
  const float* const q = a + 256 + y * 16 + blockIdx.x * 8 + x;
  float sum = 0;"""
_COPIES = """__shared__ float s[2][64];
  float sum = 0;
  {first}  // @copy
  {commit}  //- copy use
  for (int k = 0; k < 4; ++k) {{
    if (k < 3) {next}  // @copy
    {commit}  //- copy use
    {wait}  //- copy use
    __syncthreads();  //- copy use
    sum += s[k & 1][63 - t];  // @use
    __syncthreads();  //- copy use
  }}
  b[i] = sum;"""
_ASM_COPY = (
    'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: '
    '"r"((unsigned)__cvta_generic_to_shared({to})), "l"({of}) : "memory");'
)

KERNELS = {
    "reduction": Synchronised(
        """__shared__ float s[64];
  s[t] = a[i];  // @load
  __syncthreads();  //- load add
  for (int half = 32; half; half /= 2) {
    if (t < half) s[t] += s[t + half];  // @add
    __syncthreads();  //- add
  }
  if (t == 0) b[blockIdx.x] = s[0];""",
        lambda a: _blocks(a).sum(1),
    ),
    "reduction-by-one-warp": Synchronised(
        """__shared__ float s[64];
  s[t] = a[i];  // @load
  __syncthreads();  //- load read
  if (t < 32) {
    for (int half = 32; half; half /= 2) {
      const float other = s[t + half];  // @read
      __syncwarp();  //- read add
      s[t] += other;  // @add
      __syncwarp();  //- read add
    }
    if (t == 0) b[blockIdx.x] = s[0];
  }""",
        lambda a: _blocks(a).sum(1),
    ),
    "reduction-by-shuffles": Synchronised(
        """__shared__ float part[2];
  float sum = a[i];
  for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);  // @shuffle
  if (t % 32 == 0) part[t / 32] = sum;  // @part
  __syncthreads();  //- part sum
  if (t == 0) b[blockIdx.x] = part[0] + part[1];  // @sum""",
        lambda a: _blocks(a).sum(1),
        (("0xffffffffu", "0x0000ffffu", "shuffle"),),
    ),
    "exchange-in-a-warp": Synchronised(
        """__shared__ float s[64];
  for (int k = 0; k < 2; ++k) {
    s[t] = a[i + 128 * k];  // @write
    __syncwarp();  //- write read
    b[i] += s[t ^ 1];  // @read
    __syncwarp();  //- write read
  }""",
        lambda a: a[:256].reshape(2, 64, 2)[:, :, ::-1].sum(0).ravel(),
    ),
    "product-of-tiles": Synchronised(
        f"""__shared__ float as[8][8], bs[8][8];
  {_TILES}
  for (int k = 0; k < 32; k += 8) {{
    as[y][x] = p[k];  // @load
    bs[y][x] = q[k * 16];  // @load
    __syncthreads();  //- load use
    for (int j = 0; j < 8; ++j) sum += as[y][j] * bs[j][x];  // @use
    __syncthreads();  //- load use
  }}
  b[y * 16 + blockIdx.x * 8 + x] = sum;""",
        _product,
    ),
    "product-with-two-buffers": Synchronised(
        f"""__shared__ float as[2][8][8], bs[2][8][8];
  {_TILES}
  as[0][y][x] = p[0];  // @load
  bs[0][y][x] = q[0];  // @load
  for (int k = 0; k < 4; ++k) {{
    __syncthreads();  //- load use
    if (k < 3) as[k + 1 & 1][y][x] = p[8 * k + 8];  // @load
    if (k < 3) bs[k + 1 & 1][y][x] = q[128 * k + 128];  // @load
    for (int j = 0; j < 8; ++j) sum += as[k & 1][y][j] * bs[k & 1][j][x];  // @use
  }}
  b[y * 16 + blockIdx.x * 8 + x] = sum;""",
        _product,
    ),
    "copies-by-primitives": Synchronised(
        _COPIES.format(
            first="__pipeline_memcpy_async(&s[0][t], &a[t], 4);",
            next="__pipeline_memcpy_async(&s[k + 1 & 1][t], &a[64 * k + 64 + t], 4);",
            commit="__pipeline_commit();",
            wait="__pipeline_wait_prior(1);",
        ),
        _steps,
    ),
    "copies-by-instructions": Synchronised(
        _COPIES.format(
            first=_ASM_COPY.format(to="&s[0][t]", of="&a[t]"),
            next=_ASM_COPY.format(to="&s[k + 1 & 1][t]", of="&a[64 * k + 64 + t]"),
            commit='asm volatile("cp.async.commit_group;");',
            wait='asm volatile("cp.async.wait_group 1;" ::: "memory");',
        ),
        _steps,
    ),
    "histogram": Synchronised(
        """__shared__ int bins[8];
  if (t < 8) bins[t] = 0;  // @zero
  __syncthreads();  //- zero count
  atomicAdd(&bins[(int)(a[i] * 8) & 7], 1);  // @count
  __syncthreads();  //- count sum
  if (t < 8) atomicAdd(&b[t], bins[t]);  // @sum""",
        _histogram,
        (
            ("atomicAdd(&bins[(int)(a[i] * 8) & 7], 1)", "++bins[(int)(a[i] * 8) & 7]", "count"),
            ("atomicAdd(&b[t], bins[t])", "b[t] += bins[t]", "sum"),
        ),
    ),
    "scan": Synchronised(
        """__shared__ float s[64];
  s[t] = a[i];  // @load
  __syncthreads();  //- load read
  for (int d = 1; d < 64; d *= 2) {
    const float other = t < d ? 0 : s[t - d];  // @read
    __syncthreads();  //- read add
    s[t] += other;  // @add
    __syncthreads();  //- read add
  }
  b[i] = s[t];""",
        lambda a: _blocks(a).cumsum(1).ravel(),
    ),
    "scan-up-and-down": Synchronised(
        """__shared__ float s[64];
  s[t] = a[i];  // @load
  for (int d = 1; d < 64; d *= 2) {
    __syncthreads();  //- load up
    if ((t + 1) % (2 * d) == 0) s[t] += s[t - d];  // @up
  }
  if (t == 63) s[t] = 0;  // @up
  for (int d = 32; d; d /= 2) {
    __syncthreads();  //- load up down
    if ((t + 1) % (2 * d)) continue;
    const float other = s[t - d];  // @down
    s[t - d] = s[t];  // @down
    s[t] += other;  // @down
  }
  __syncthreads();  //- down end
  b[i] = s[t];  // @end""",
        lambda a: (_blocks(a).cumsum(1) - _blocks(a)).ravel(),
    ),
}
