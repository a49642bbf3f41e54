"""What is dropped while a stream is captured, by us or by torch; torch must have CUDA."""

import gc
import threading

import numpy as np
import pytest

import autotune.driver as driver
from autotune.kernel import SourceKernel, arg, call, workspace
from autotune.runtime import array, cuda
from autotune.runtime.nvidia import releases
from autotune.runtime.nvidia.driver import activated
from autotune.runtime.nvidia.driver import driver as pycuda
from autotune.runtime.nvidia.graph import CudaGraph
from autotune.runtime.program import ProgramStep, program_of
from autotune.runtime.timing import TimeOptions

pytestmark = pytest.mark.gpu

N, TURNS = 1 << 12, 50
TWICE = SourceKernel(
    "twice",
    'extern "C" __global__ void twice(const float *x, float *y, float *w) {\n'
    "  int i = blockIdx.x * 256 + threadIdx.x;\n  w[i] = x[i]; y[i] = x[i] + w[i]; }",
    [arg("x", (N,)), arg("y", (N,), role="out")],
    calls=[call("twice", ["x", "y", "w"], N // 256, 256)],
    workspace=[workspace("w", (N,))],
)


def in_a_cycle(*things):
    """Returns a list of one list; once that is dropped, things are left to the collector."""
    cycle = [*things]
    cycle.append(cycle)
    return [cycle]


def ours():
    """Returns all kinds of ours that own something of the driver's."""
    function = driver.build(TWICE, target="cuda")
    x, y = (array(np.ones(N, "float32"), cuda()) for _ in range(2))
    function(x, y)
    loaded = function.executable
    step = ProgramStep(loaded, (x, y), loaded.new_workspaces())
    program = program_of([step, step], cuda(), branches=True)
    program.run()
    sampler = loaded.sampler(loaded.allocate(), TimeOptions(use_graph=True, input_sets=2))
    sampler.sample(4)
    return in_a_cycle(function, loaded, program, sampler, x, y)


def theirs(torch):
    """Returns a graph of torch's with memory of its own."""
    x, graph = torch.ones(N, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
    return in_a_cycle(graph, y, x)


@pytest.fixture(autouse=True)
def no_collection_by_chance():
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()
    releases.give_back_waiting()
    assert not releases._waiting


@pytest.mark.parametrize("where", ["same thread", "another thread"])
def test_torchs_capture_survives_what_of_ours_is_collected_in_it(torch, where):
    function = driver.build(TWICE, target="cuda")
    x = torch.ones(N, device="cuda")
    for _ in range(TURNS):
        # Torch collects before a capture; what is dropped in it must live until then.
        old = ours()
        y, graph = torch.zeros(N, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            function(x, y)
            old.clear()
            if where == "same thread":
                gc.collect()
            else:
                collecting = threading.Thread(target=gc.collect)
                collecting.start()
                collecting.join()
            function(x, y)
        assert (y == 0).all()
        graph.replay()
        assert (y == 2).all()


def test_our_capture_survives_what_is_collected_in_it(torch):
    function = driver.build(TWICE, target="cuda")
    x, y = (array(np.ones(N, "float32"), cuda()) for _ in range(2))
    function(x, y)
    with activated(0):
        stream = pycuda.Stream()

    def queue():
        function(x, y, stream=stream)
        old.clear()
        gc.collect()
        function(x, y, stream=stream)

    for turn in range(TURNS):
        old = ours()
        if turn % 5 == 0:
            old += theirs(torch)

        y.fill_bytes(0)
        with activated(0):
            graph = CudaGraph(stream, queue)
            graph.launch()
            stream.synchronize()
        assert (y.numpy() == 2).all()


def test_memory_that_was_dropped_in_a_capture_comes_back_after_it(torch):
    turns, size = 8, 1 << 30
    torch.cuda.synchronize()
    before, _ = torch.cuda.mem_get_info()
    for _ in range(turns):
        large = [array(np.zeros(size, "uint8"), cuda())]
        graph, y = torch.cuda.CUDAGraph(), torch.zeros(N, device="cuda")
        with torch.cuda.graph(graph):
            y += 1
            large.clear()
            assert releases._waiting
    releases.give_back_waiting()
    after, _ = torch.cuda.mem_get_info()
    # Other processes use the device at the same time, but much less.
    assert before - after < turns * size // 2
