"""A kernel that never ends is ended with a report, whatever its threads read and write."""

import signal
from pathlib import Path

import numpy as np
import pytest

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg

# `@` marks the lines of the loop; `flag` is 0 in shared memory for good.
ENDLESS = {
    "exchanges": (
        """int k = 0;
  if (t == 3) while (atomicExch(&flag, ++k) >= 0) {}  // @
  __syncthreads();""",
        "thread 3 runs at {lines}; threads 4 to 63 wait at __syncthreads in line",
    ),
    "reads_what_is_not_volatile": (
        "if (t == 63) while (flag == 0) {}  // @",
        "threads 0 to 62 exited; thread 63 runs at {lines}$",
    ),
    "writes_another": (
        """int k = 0;
  if (t) while (*(volatile int*)&flag == 0)  // @
    b[t] = ++k;  // @
  __syncthreads();""",
        "thread 0 waits at __syncthreads in line .*; threads 1 to 63 run at {lines}$",
    ),
    "touches_no_memory": (
        """volatile int k = 1;
  if (t == 5) while (k) {}  // @""",
        "threads 0 to 4 exited; threads? 5 .*runs? at {lines}",
    ),
    "passes_barriers": (
        """while (flag == 0)  // @
    __syncthreads();  // @""",
        "(wait|run).* at .*{lines}",
    ),
    "shuffles": (
        """int k = t;
  while (__any_sync(~0u, k >= 0))  // @
    k = __shfl_xor_sync(~0u, k, 1);  // @
  b[t] = k;""",
        "runs? at {lines}",
    ),
    "computes_halves": (
        """__half h = __float2half(1.f);
  while (__half2float(h) > 0.f)  // @
    h = __hmul(h, __float2half(1.f));  // @""",
        "warps 0 to 1 run at {lines}",
    ),
}
# Each block takes less than the limit; all together take longer.
SLOW = """for (int i = 0; i < 1500; ++i) b[t] += 1;"""
ENDING = {
    "slow": (SLOW, 120),
    "waits_for_the_clock": ("const long long s = clock64(); while (clock64() - s < 9999) {}", 1),
}


def kernel(name, body, grid=1):
    start = f'extern "C" __global__ void {name}(float* b) {{\n  const int t = threadIdx.x;\n'
    shared = "  __shared__ int flag;\n  if (t == 0) flag = 0;\n  __syncthreads();\n"
    text = f"#include <cuda_fp16.h>\n{start}{shared}  {body}\n}}\n"
    args = [arg("b", (64,), role="inout")]
    return SourceKernel(name, text, args, grid=grid, block=64).kernel("cuda")


def lines(name, text):
    """The pattern of lines of the loop, in any order."""
    marked = [i for i, line in enumerate(text.splitlines(), 1) if "// @" in line]
    one = rf"{name}\.cu:({'|'.join(map(str, marked))})"
    return f"{one}(, {one})*"


@pytest.fixture(scope="module", params=[{}, {"optimized": True}, {"checked": False}], ids=str)
def library(request, tmp_path_factory):
    kernels = [kernel(name, body) for name, (body, _) in ENDLESS.items()]
    kernels += [kernel(name, *case) for name, case in ENDING.items()]
    path = Path(tmp_path_factory.mktemp("endless"), "all.so")
    return compile_emulated(kernels, path, **request.param)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ENDLESS)
def test_a_kernel_that_never_ends_is_ended_and_its_lines_are_named(library, name):
    body, message = ENDLESS[name]
    own = kernel(name, body)
    expected = message.format(lines=lines(name, own.source))
    said = rf"entry '{name}': no thread has exited in 0.2 s .* block \(0,0,0\): .*{expected}"
    before = signal.getsignal(signal.SIGURG)
    with pytest.raises(DeviceError, match=said):
        EmulatedKernel(library, own).run([np.zeros(64, "f4")], limit_s=0.2)
    assert signal.getsignal(signal.SIGURG) == before


@pytest.mark.parametrize("name", ENDING)
def test_a_kernel_whose_threads_exit_in_time_is_not_ended(library, name):
    own, values = kernel(name, *ENDING[name]), np.zeros(64, "f4")
    EmulatedKernel(library, own).run([values], checked=False, limit_s=0.2)
    assert (values == (1500 * 120 if name == "slow" else 0)).all()
