"""mbarriers order accesses of warps in the emulator, and what they do not order is a race."""

import numpy as np
import pytest

from autotune.emulator import run_emulated
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg

# A warp writes rows of 32 numbers to one buffer, and another one reverses them. Each lane arrives.
PIPELINE = """
using namespace emulator;
__device__ void wait(void* barrier, int parity) {
  while (!__all_sync(0xffffffffu, mbarrier_complete(barrier, parity))) {}
}
extern "C" __global__ void entry(const float* __restrict__ a, float* __restrict__ b) {
  __shared__ float s[32];
  __shared__ unsigned long long full[4], empty[1];
  int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) mbarrier_init(empty, 32);
  if (threadIdx.x < 4) mbarrier_init(full + threadIdx.x, 32);
  __syncthreads();
  for (int row = 0; row < 4; ++row) {
    if (threadIdx.x < 32) {
      EMPTY_WAIT;
      s[lane] = a[row * 32 + lane];
      mbarrier_arrive(full + row);
    } else {
      FULL_WAIT;
      EARLY;
      b[row * 32 + lane] = s[31 - lane];
      LATE;
    }
  }
}
"""
RIGHT = {
    "EMPTY_WAIT": "wait(empty, row % 2 ^ 1)",
    "FULL_WAIT": "wait(full + row, 0)",
    "EARLY": "",
    "LATE": "mbarrier_arrive(empty)",
}


def run(order, **changes):
    text = "".join(f"#define {name} {value}\n" for name, value in {**RIGHT, **changes}.items())
    args = [arg("a", (128,)), arg("b", (128,), role="out")]
    source = SourceKernel("entry", text + PIPELINE, args, grid=1, block=64)
    a, b = np.arange(128, dtype="float32"), np.zeros(128, "float32")
    run_emulated(source.kernel("cuda"), [a, b], (order,))
    return b.reshape(4, 32)


@pytest.mark.parametrize("order", [0, 3])
def test_warps_that_wait_for_each_others_arrivals_race_for_nothing(order):
    rows = np.arange(128, dtype="float32").reshape(4, 32)
    np.testing.assert_array_equal(run(order), rows[:, ::-1])


@pytest.mark.parametrize(
    "change",
    [
        {"EMPTY_WAIT": ""},
        {"FULL_WAIT": ""},
        {"EARLY": "mbarrier_arrive(empty)", "LATE": ""},
        {"LATE": "mbarrier_arrive(empty); if (row == 2) b[96 + lane] = s[lane]"},
    ],
    ids=["refilled-too-early", "read-too-early", "released-too-early", "read-once-more"],
)
def test_an_access_that_no_arrival_orders_is_a_race(change):
    with pytest.raises(DeviceError, match="race on shared memory"):
        run(0, **change)


def test_what_is_not_initialised_is_no_mbarrier():
    with pytest.raises(DeviceError, match="as an mbarrier, which is not initialised"):
        run(0, FULL_WAIT="wait(s, 0)")
