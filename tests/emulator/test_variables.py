"""Variables of the module are watched as arguments are; lanes that have exited have no values."""

from pathlib import Path

import numpy as np
import pytest

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg

# Sums that blocks pass on: each waits for the flag of the first.
LOOK_BACK = """__shared__ float before;
  if (t == 0) {{
    before = 0;
    sums[blockIdx.x] = a[i]; {0} flags[blockIdx.x] = 1;  // @
    if (blockIdx.x) {{
      while (!flags[0]) {{}}  // @
      {0} before = sums[0];
    }}
  }}
  __syncthreads();
  b[i] = before;"""
REDUCE = "int v = t; for (int k = 16; k; k /= 2) v += __shfl_down_sync(~0u, v, k); b[i] = v;"
WRONG = {
    "flags_without_a_fence": (LOOK_BACK.format(""), "race on variable 'flags' at byte 0: .*block"),
    "written_by_all": ("n[0] = t; b[i] = n[0];  // @", "race on variable 'n' at byte 0: thread"),
    "local_to_a_function": (
        "__device__ static int own[64]; own[t] = t; b[i] = own[63 - t];  // @",
        "race on variable 'own' at byte",
    ),
    "narrow_items": (
        "bytes[t] = t; b[i] = bytes[t ^ 1];  // @",
        "race on variable 'bytes'",
    ),
    "exited_lanes": (
        f"if (t % 32 > 19) return;\n  {REDUCE}  // @",
        r"__shfl_down_sync in line {}: thread .4,0,0. .* reads from lane 20 .* has exited",
    ),
}
RIGHT = {
    "counter": "if (t == 0) atomicAdd(n, 1); b[i] = 1;",
    "own_items": "bytes[i] = t; __syncthreads(); b[i] = bytes[i];",
    "tables": "b[i] = table[t % 4] + fixed[t % 4];",
    "exchange": "n[t] = t; __syncthreads(); if (blockIdx.x == 9) b[i] = n[63 - t];",
    "ordered_by_fences": LOOK_BACK.format("__threadfence();"),
    "last_block": """__shared__ int last;
  __threadfence();
  if (t == 0) last = atomicAdd(n, 1) == (int)gridDim.x - 1;
  __syncthreads();
  if (last && t == 0) n[0] = 0;
  b[i] = a[i];""",
    "all_lanes": REDUCE,
}
# In these each of the two blocks would write what the other does.
ONE_BLOCK = {"exchange", "ordered_by_fences"}


def kernel(name, body):
    text = f"""__device__ int n[64];
__device__ char bytes[128];
__device__ volatile int flags[2];
__device__ volatile float sums[2];
__device__ int table[4] = {{1, 2, 3, 4}};
__constant__ int fixed[4] = {{1, 2, 3, 4}};
extern "C" __global__ void {name}(const float* a, float* b) {{
  const int t = threadIdx.x, i = blockIdx.x * 64 + t;
  {body}
}}
"""
    args = [arg("a", (128,)), arg("b", (128,), role="out")]
    grid = 1 if name in ONE_BLOCK else 2
    return SourceKernel(name, text, args, grid=grid, block=64).kernel("cuda")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    cases = {name: body for name, (body, _) in WRONG.items()} | RIGHT
    path = Path(tmp_path_factory.mktemp("variables"), "all.so")
    return compile_emulated([kernel(*case) for case in cases.items()], path)


def run(library, own, order):
    arrays = [np.ones(128, "f4"), np.zeros(128, "f4")]
    EmulatedKernel(library, own).run(arrays, order)


@pytest.mark.parametrize("name", WRONG)
def test_what_goes_wrong_with_variables_and_lanes_is_named_with_its_line(library, name):
    body, message = WRONG[name]
    own = kernel(name, body)
    marked = [i for i, line in enumerate(own.source.splitlines(), 1) if "// @" in line]
    with pytest.raises(DeviceError, match=message.format(marked[0])) as caught:
        run(library, own, 0)
    if "race" in message:
        assert any(f"{name}.cu:{line}" in str(caught.value) for line in marked)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", RIGHT)
def test_right_uses_of_variables_raise_no_alarm(library, name, order):
    run(library, kernel(name, RIGHT[name]), order)
