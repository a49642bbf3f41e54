"""A launch is ended when another process asks, or at a limit, and else when it is done."""

import threading

import numpy as np
import pytest

from autotune.emulator.stop import StopFlag
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.runtime.load import load
from autotune.target import Target

# Its only thread takes several times the limit below.
SLOW = SourceKernel(
    "slow",
    """extern "C" __global__ void slow(volatile float* y) {
  for (int i = 0; i < 1 << 23; ++i) y[0] = i;
}
""",
    [arg("y", (1,), role="out")],
    grid=1,
    block=1,
).kernel("cuda")
TARGET = Target("cuda -emulate")


@pytest.fixture(scope="module")
def executable(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stop")
    built = compile_kernel(SLOW, TARGET, out_dir=folder)
    with load(built.artifact, SLOW, TARGET) as loaded:
        yield loaded


def result(executable):
    buffers = executable.allocate()
    executable.run(buffers)
    return buffers.read()[0]


def test_a_slow_kernel_runs_to_its_end_without_a_limit(executable):
    executable.obey(StopFlag(), 0.0)
    np.testing.assert_array_equal(result(executable), [(1 << 23) - 1])


def test_a_slow_kernel_is_ended_at_a_limit(executable):
    executable.obey(StopFlag(), 0.05)
    with pytest.raises(DeviceError, match=r"in 0.05 s .*raise limit_s: .*slow.cu:2"):
        result(executable)


def test_a_slow_kernel_is_ended_when_it_is_asked_to(executable):
    flag = StopFlag()
    executable.obey(flag, 0.0)
    timer = threading.Timer(0.05, flag.set)
    timer.start()
    with pytest.raises(DeviceError, match=r"0 of 1 threads have exited, .* runs at slow.cu:2"):
        result(executable)
    timer.join()
    flag.clear()
    np.testing.assert_array_equal(result(executable), [(1 << 23) - 1])
