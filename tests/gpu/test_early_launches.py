"""A kernel that may begin early never sees memory before what was queued ahead of it is done."""

import numpy as np
import pytest

from autotune import SourceKernel, arg, build, call, workspace
from autotune.runtime import cuda, empty

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

N = 1 << 20
COPY = """
extern "C" __global__ void copy(const float* from, float* to) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[i];
}
"""
COUNT = """
extern "C" __global__ void count(const float* from, float* sums) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&sums[i % 1024], from[i]);
}
extern "C" __global__ void keep(const float* sums, float* to) {
  to[threadIdx.x] = sums[threadIdx.x];
}
"""
SLEEP = 200_000  # cycles, several times what launching takes


@pytest.fixture(scope="module")
def copy():
    args = [arg("from", (N,)), arg("to", (N,), role="out")]
    return build(SourceKernel("copy", COPY, args, grid=N // 256, block=256), target="cuda")


@pytest.fixture(scope="module")
def count():
    args = [arg("from", (N,)), arg("to", (1024,), role="out")]
    calls = [
        call("count", ["from", "sums"], N // 256, 256),
        call("keep", ["sums", "to"], 1, 1024),
    ]
    sums = workspace("sums", (1024,), zero=True)
    return build(SourceKernel("count", COUNT, args, calls=calls, workspace=[sums]), target="cuda")


class Arrays:
    def __init__(self):
        self.source, self.x, self.middle, self.out = (
            torch.zeros(N, device="cuda") for _ in "1234"
        )
        self.host = torch.zeros(N).pin_memory()
        self.side = torch.cuda.Stream()

    def reset(self, value):
        self.source.fill_(value), self.host.fill_(value)
        for one in (self.x, self.middle, self.out):
            one.fill_(-1)
        torch.cuda.synchronize()


def behind_a_kernel(copy, a):
    torch.cuda._sleep(SLEEP)
    torch.add(a.source, 0, out=a.x)
    copy(a.x, a.out)


def behind_a_copy(copy, a):
    torch.cuda._sleep(SLEEP)
    a.x.copy_(a.source)
    copy(a.x, a.out)


def behind_a_copy_from_the_host(copy, a):
    torch.cuda._sleep(SLEEP)
    a.x.copy_(a.host, non_blocking=True)
    copy(a.x, a.out)


def behind_another_stream(copy, a):
    here = torch.cuda.current_stream()
    a.side.wait_stream(here)
    with torch.cuda.stream(a.side):
        torch.cuda._sleep(SLEEP)
        torch.add(a.source, 0, out=a.x)
    torch.add(a.middle, 1, out=a.middle)  # the last kernel of this stream is over long before
    here.wait_stream(a.side)
    copy(a.x, a.out)


def behind_each_other(copy, a):
    torch.cuda._sleep(SLEEP)
    torch.add(a.source, 0, out=a.x)
    copy(a.x, a.middle)
    copy(a.middle, a.out)


def on_two_streams(copy, a):
    here = torch.cuda.current_stream()
    torch.cuda._sleep(SLEEP)
    torch.add(a.source, 0, out=a.x)
    a.side.wait_stream(here)
    copy(a.x, a.middle)
    with torch.cuda.stream(a.side):
        copy(a.x, a.out)
    here.wait_stream(a.side)


ORDERS = [behind_a_kernel, behind_a_copy, behind_a_copy_from_the_host, behind_another_stream,
          behind_each_other, on_two_streams]  # fmt: skip


@pytest.mark.parametrize("captured", [False, True], ids=["queued", "captured"])
@pytest.mark.parametrize("order", ORDERS, ids=lambda one: one.__name__)
def test_it_sees_all_that_was_queued_before(copy, order, captured):
    assert copy.kernel.calls[0].launch.early
    arrays = Arrays()
    order(copy, arrays)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    if captured:
        with torch.cuda.graph(graph):
            order(copy, arrays)
    for number in range(20):
        arrays.reset(number + 0.5)
        graph.replay() if captured else order(copy, arrays)
        torch.cuda.synchronize()
        assert bool((arrays.out == number + 0.5).all())


def test_replays_that_follow_each_other_see_each_others_memory(copy):
    arrays = Arrays()
    copy(arrays.x, arrays.out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.add(arrays.x, 1, out=arrays.middle)
        copy(arrays.middle, arrays.x)
    arrays.x.zero_()
    for _ in range(500):
        graph.replay()
    torch.cuda.synchronize()
    assert bool((arrays.x == 500).all())


@pytest.mark.parametrize("captured", [False, True], ids=["queued", "captured"])
def test_it_finds_its_own_workspace_cleared(count, captured):
    source, out = torch.ones(N, device="cuda"), torch.zeros(1024, device="cuda")
    count(source, out)
    graph = torch.cuda.CUDAGraph()
    if captured:
        with torch.cuda.graph(graph):
            count(source, out)
            count(source, out)
    for _ in range(50):
        graph.replay() if captured else count(source, out)
    torch.cuda.synchronize()
    assert bool((out == N // 1024).all())


def test_timing_runs_by_graphs_gives_right_results(copy):
    source, out = np.arange(N, dtype="float32"), empty((N,), "float32", cuda())
    copy.time_evaluator("copy", cuda(), number=100, repeat=3)(source, out)
    np.testing.assert_array_equal(out.numpy(), source)
