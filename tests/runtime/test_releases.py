"""What is dropped while a graph is captured: of ours, in captures of ours and of a user."""

import gc
import sys
from collections import deque
from types import SimpleNamespace

import pytest

from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg, call, workspace
from autotune.runtime.arrays.array import empty
from autotune.runtime.device import Device
from autotune.runtime.nvidia import (
    callee,
    driver,
    executable,
    libcuda,
    program,
    releases,
    stream_resources,
)
from autotune.runtime.nvidia.graph import CudaGraph
from autotune.runtime.program import ProgramStep
from tests.runtime.fake_cuda import FakeCuda
from tests.runtime.fake_pycuda import FakePycuda

GPU, CONTEXT = Device("cuda"), 0xC0DE
KERNEL = SourceKernel(
    "kernel",
    "text",
    [arg("x", (8,), role="inout")],
    calls=[call("fA", ["x", "w"], 1, 32)],
    workspace=[workspace("w", (16,))],
).kernel("cuda")


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    pycuda = FakePycuda(fake)
    fake.params = {1 + ord("A"): 2}
    for module in (driver, executable, program):
        monkeypatch.setattr(module, "driver", pycuda)
    monkeypatch.setattr(driver, "_context", lambda index: pycuda.Context)
    monkeypatch.setattr(libcuda, "library", lambda: fake)
    monkeypatch.setattr(libcuda, "primary_context", lambda index: CONTEXT)
    monkeypatch.setattr("autotune.runtime.nvidia.graph.library", lambda: fake)
    monkeypatch.setattr(Device, "exist", True)
    monkeypatch.setattr(stream_resources, "_waiting", deque())
    monkeypatch.setattr(releases, "_waiting", deque())
    monkeypatch.setattr(callee, "driven_launcher", lambda: None)
    monkeypatch.setattr("autotune.runtime.arrays.memory._memory", lambda kind: driver.CudaMemory())
    yield fake
    gc.collect()
    fake.captures.clear()
    releases.give_back_waiting()
    assert not in_use(fake)
    assert not fake.stack
    assert not fake.relaxed


@pytest.fixture
def torch(monkeypatch):
    """A torch whose current stream, 0x50, is in a capture once it has begun."""
    stream = SimpleNamespace(cuda_stream=0x50)
    found = SimpleNamespace(is_initialized=lambda: True, current_stream=lambda index: stream)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=found))


def in_use(cuda):
    return [*cuda.memory, *cuda.modules, *cuda.graphs, *cuda.streams]


def made(name, cuda):
    """Make one thing that owns something of the driver's."""
    if name == "memory":
        return empty((8,), "float32", GPU)
    if name == "function":
        return callee.CudaCallee(KERNEL, KERNEL, b"cubin", GPU)
    loaded = executable.CudaExecutable(__file__, KERNEL, GPU)  # whatever there is to load
    if name == "executable":
        return loaded
    x = empty((8,), "float32", GPU)
    steps = [ProgramStep(loaded, (x,), loaded.new_workspaces()) for _ in range(2)]
    return program.CudaProgram(steps, GPU, branches=True)


ALL = ["memory", "function", "executable", "program"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("blocking", [False, True])
def test_what_goes_in_a_users_capture_is_given_back_after_it(cuda, torch, name, blocking):
    one = made(name, cuda)
    had = len(in_use(cuda))
    stream = 0x60 if blocking else 0x50  # not torch's: only the default stream tells of it
    cuda.captures[stream] = 0xAA00
    cuda.blocking = {stream} if blocking else set()
    cycle = [one]
    cycle.append(cycle)
    del one, cycle
    gc.collect()
    assert len(in_use(cuda)) == had
    assert not cuda.ended
    cuda.captures.clear()
    kept = empty((1,), "float32", GPU)  # the next that is taken of the driver
    assert in_use(cuda) == [kept.pointer]


@pytest.mark.parametrize("name", ALL)
def test_a_capture_that_nobody_sees_survives_what_goes_meanwhile(cuda, name):
    one = made(name, cuda)
    cuda.captures[0x60] = 0xAA00  # by another thread, in the strictest mode
    del one
    gc.collect()
    assert not cuda.ended
    assert not in_use(cuda)


@pytest.mark.parametrize("name", ["function", "graph"])
def test_what_the_driver_refuses_in_a_capture_is_given_back_once_after_it(cuda, name):
    with libcuda.entered(CONTEXT):
        stream = SimpleNamespace(handle=0x70)
        one = CudaGraph(stream, lambda: None) if name == "graph" else made(name, cuda)
    cuda.captures[0x60], cuda.keeps_while_capturing = 0xAA00, True
    del one
    gc.collect()
    assert in_use(cuda)
    cuda.captures.clear()
    releases.give_back_waiting()
    assert not in_use(cuda)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("fails", [False, True])
def test_what_goes_in_a_capture_of_ours_is_given_back_at_its_end(cuda, name, fails):
    cuda.keeps_while_capturing = True
    old = [made(name, cuda)]
    seen = []

    def queue():
        old.clear()
        gc.collect()
        seen.append((len(in_use(cuda)), gc.isenabled()))
        if fails:
            raise DeviceError("it cannot be queued")

    had = len(in_use(cuda))
    with libcuda.entered(CONTEXT):
        if fails:
            with pytest.raises(DeviceError, match="cannot be queued"):
                CudaGraph(SimpleNamespace(handle=0x70), queue)
        else:
            graph = CudaGraph(SimpleNamespace(handle=0x70), queue)
            assert len(in_use(cuda)) == len(cuda.graphs) == 2
            del graph
    assert seen == [(had, False)]
    assert gc.isenabled()


def test_a_collection_in_the_middle_of_giving_back_adds_to_it(cuda):
    order = []

    def first():
        order.append("first")
        releases.leave(CONTEXT, lambda: order.append("second"))

    releases.leave(CONTEXT, first)
    assert order == ["first", "second"]


def test_what_the_driver_does_not_take_keeps_nothing_else(cuda):
    def fails():
        raise DeviceError("an illegal memory access was encountered")

    order = []
    cuda.captures[0x60], cuda.blocking = 0xAA00, {0x60}
    releases.leave(CONTEXT, fails)
    releases.leave(CONTEXT, lambda: order.append("second"))
    assert not order
    cuda.captures.clear()
    releases.give_back_waiting()
    assert order == ["second"]
