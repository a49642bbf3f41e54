"""What the blocks of a cluster have written is published by any one that knows of it."""

import numpy as np
import pytest

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg

SOURCE = """#include <cooperative_groups.h>
__device__ static unsigned arrived;
extern "C" __global__ void __cluster_dims__(2) sum(const float* a, float* b) {
  const auto cluster = cooperative_groups::this_cluster();
  b[1 + blockIdx.x * 64 + threadIdx.x] = a[blockIdx.x * 64 + threadIdx.x];
  cluster.sync();
  if (cluster.block_rank() || threadIdx.x) return;
  __threadfence();
  if (atomicAdd(&arrived, 1) % 2 == 0) return;
  for (int j = 1; j <= 256; ++j) b[0] += b[j];
}
"""


def run(source, folder, order):
    args = [arg("a", (256,)), arg("b", (257,), role="inout")]
    kernel = SourceKernel("sum", source, args, grid=4, block=64).kernel("cuda")
    a, b = np.random.default_rng(3).random(256, "f4"), np.zeros(257, "f4")
    library = compile_emulated(kernel, folder / "sum.so", arch="sm_90")
    EmulatedKernel(library, kernel).run([a, b], order)
    np.testing.assert_allclose(b[0], a.sum(), rtol=1e-5)


@pytest.mark.parametrize("order", [0, 1, 5])
def test_a_block_publishes_what_its_cluster_has_written(tmp_path, order):
    run(SOURCE, tmp_path, order)


@pytest.mark.parametrize("order", [0, 1, 5])
def test_not_what_is_not_ordered_before(tmp_path, order):
    with pytest.raises(DeviceError, match=r"race on argument 'b' .*sum\.cu:5 .*sum\.cu:10"):
        run(SOURCE.replace("  cluster.sync();", ""), tmp_path, order)
