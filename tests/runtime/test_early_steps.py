"""Steps of a program on a GPU begin while the step before them ends."""

from dataclasses import replace

import pytest

from autotune.kernel import SourceKernel, arg, call, workspace
from autotune.kernel.dependent_launch import waiting
from autotune.runtime.arrays.array import empty
from autotune.runtime.nvidia import executable, program
from autotune.runtime.program import ProgramStep
from tests.runtime.test_releases import GPU, cuda  # noqa: F401 - a fixture

TEXT = 'extern "C" __global__ void fA(float* x, float* w) {}'


def kernel(zero=False):
    spaces = [workspace("w", (16,), zero=zero)]
    source = SourceKernel(
        "kernel", TEXT, [arg("x", (8,), role="inout")], calls=[call("fA", ["x", "w"], 1, 32)],
        workspace=spaces,
    )  # fmt: skip
    return waiting(source.kernel("cuda"))


@pytest.fixture
def launched(cuda, monkeypatch):  # noqa: F811
    """Return whether each kernel that is queued may begin early."""
    found = []

    def launch(function, how, values, stream):
        found.append(how.early)

    monkeypatch.setattr(executable, "launch", launch)
    monkeypatch.setattr(executable, "as_launched", lambda kernel, index: kernel)
    monkeypatch.setattr(executable.driver, "memset_d8_async", lambda *args: None, raising=False)
    monkeypatch.setattr(program, "last_node", lambda stream: 1)
    return found


def steps(*kernels):
    made = [executable.CudaExecutable(__file__, each, GPU) for each in kernels]
    return [ProgramStep(one, (empty((8,), "float32", GPU),), one.new_workspaces()) for one in made]


def test_all_begin_early_also_behind_memory_that_is_cleared(launched):
    program.CudaProgram(steps(kernel(), kernel(zero=True), kernel()), GPU)
    assert launched == [True] * 3


def test_a_kernel_that_does_not_wait_does_not(launched):
    one = kernel()
    plain = replace(one.calls[0], launch=replace(one.calls[0].launch, early=False))
    program.CudaProgram(steps(one, replace(one, calls=(plain,)), one), GPU)
    assert launched == [True, False, True]
