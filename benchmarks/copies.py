"""Kernels that only move what a layer moves: what one launch takes at least, however it computes.

Each thread reads whole vectors, all of them before it waits for the first, adds up as many as the
layer reads for one that it writes, and writes the sums: nothing is read twice, and no index is
divided. Several sizes of blocks and threads' shares are tried, as a template's knobs are.
"""

from __future__ import annotations

from typing import Any

from benchmarks.cubin import Loaded, Replays, build

# Threads of a block, and vectors of 16 bytes that a thread writes.
SIZES = tuple((threads, share) for threads in (64, 128, 256, 512) for share in (1, 2, 4))
TEXT = """
template <int THREADS, int SHARE>
__device__ __forceinline__ void copy(const float4* __restrict__ from, float4* __restrict__ to) {
  const int first = blockIdx.x * (THREADS * SHARE) + threadIdx.x;
  float4 read[SHARE][RATIO];
#pragma unroll
  for (int s = 0; s < SHARE; ++s)
#pragma unroll
    for (int r = 0; r < RATIO; ++r)
      if (first + s * THREADS < COUNT) read[s][r] = from[r * COUNT + first + s * THREADS];
#pragma unroll
  for (int s = 0; s < SHARE; ++s) {
    float4 sum = read[s][0];
#pragma unroll
    for (int r = 1; r < RATIO; ++r) {
      sum.x += read[s][r].x, sum.y += read[s][r].y;
      sum.z += read[s][r].z, sum.w += read[s][r].w;
    }
    if (first + s * THREADS < COUNT) to[first + s * THREADS] = sum;
  }
}
extern "C" __global__ void nothing() {}
"""
ENTRY = """
extern "C" __global__ void __launch_bounds__({threads}, 1) copy_{threads}_{share}(
    const float4* __restrict__ from, float4* __restrict__ to) {{
  copy<{threads}, {share}>(from, to);
}}
"""


def copies(source: Any, result: Any, folder: str, arch: str) -> list[dict[str, Replays]]:
    """Return captured kernels that read ``source`` and write as many bytes as ``result`` has.

    Args:
        source: a tensor on the device of at least as many bytes as the result.
        result: likewise; it is overwritten.
        folder: for the cubin.
        arch: of the device, ``sm_90``.

    Returns:
        Those that copy, by threads and vectors a thread, and one that does nothing.
    """
    from autotune import SourceKernel, arg, call

    count = result.numel() * result.element_size() // 16
    ratio = max(1, source.numel() * source.element_size() // 16 // max(count, 1))
    text = TEXT + "".join(ENTRY.format(threads=t, share=s) for t, s in SIZES)

    def kernel(entry: str, names: list[str], blocks: int, threads: int) -> Any:
        return SourceKernel(
            entry, text, defines={"COUNT": count, "RATIO": ratio},
            args=[arg("from", (count * ratio, 4)), arg("to", (count, 4), role="out")],
            calls=[call(entry, names, blocks, threads)], language="cuda",
        ).kernel("cuda")  # fmt: skip

    arrays = {"from": source, "to": result}
    empty = kernel("nothing", [], 1, 32)
    cubin, log = build(empty, folder, arch)
    if cubin is None:
        raise RuntimeError(log)
    moving = {
        f"copy of {threads} x {share}": kernel(
            f"copy_{threads}_{share}", ["from", "to"], -(-count // (threads * share)), threads
        )
        for threads, share in SIZES
    }
    captured = {name: Replays(Loaded(k, cubin, arrays).run) for name, k in moving.items()}
    return [captured, {"nothing": Replays(Loaded(empty, cubin, arrays).run)}]
