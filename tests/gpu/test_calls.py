"""Calls on streams, in graphs and from threads; torch must have CUDA."""

import gc
import threading

import numpy as np
import pytest

import autotune.driver as driver
from autotune.errors import DeviceError, KernelError
from autotune.kernel import SourceKernel, arg, call, constant, workspace
from autotune.runtime import array, cuda, empty
from autotune.runtime.call import native

pytestmark = pytest.mark.gpu

N = 1 << 16
ADD = SourceKernel(
    "add",
    'extern "C" __global__ void add(const float *x, float *y, float s) {\n'
    "  int i = blockIdx.x * 256 + threadIdx.x;\n  y[i] += s * x[i]; }",
    [arg("x", (N,)), arg("y", (N,), role="inout"), arg("s", (), "float32")],
    grid=N // 256,
    block=256,
)
# Two kernels over a workspace that must be clear: calls that come between them are seen.
SUM = SourceKernel(
    "sum",
    'extern "C" __global__ void part(const float *x, float *w) {\n'
    "  atomicAdd(&w[threadIdx.x], x[blockIdx.x * 256 + threadIdx.x]); }\n"
    'extern "C" __global__ void total(const float *w, float *y) {\n'
    "  float s = 0; for (int i = 0; i < 256; i++) s += w[i]; y[0] = s; }",
    [arg("x", (N,)), arg("y", (1,), role="out")],
    calls=[call("part", ["x", "w"], N // 256, 256), call("total", ["w", "y"], 1, 1)],
    workspace=[workspace("w", (256,), zero=True)],
)
SCALE = SourceKernel(
    "scale",
    "__constant__ float f[4];\n"
    'extern "C" __global__ void scale(const float *x, float *y) {\n'
    "  int i = blockIdx.x * 256 + threadIdx.x; y[i] = f[i % 4] * x[i]; }",
    [arg("x", (N,)), arg("y", (N,), role="out"), constant("f", (4,))],
    grid=N // 256,
    block=256,
)


@pytest.fixture(params=["C", "Python"])
def build(request, monkeypatch):
    """Build for calls by the launcher in C, and for those without it."""
    if request.param == "Python":
        monkeypatch.setattr(native, "_found", [(None, "not wanted")])
        from autotune.runtime.nvidia import callee

        monkeypatch.setattr(callee, "driven_launcher", lambda: None)
    elif native.launcher() is None:
        pytest.fail(native.why_not())
    return lambda kernel: driver.build(kernel, target="cuda")


def busy(torch):
    """Keep the current stream busy for some milliseconds."""
    torch.cuda._sleep(20_000_000)


def test_a_call_returns_before_the_device_is_done(build, torch):
    add = build(ADD)
    x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    add(x, y, 1.0)
    torch.cuda.synchronize()
    busy(torch)
    for _ in range(3):
        add(x, y, 2.0)
    assert not torch.cuda.current_stream().query()
    assert (y == 7).all()


def test_a_call_comes_after_what_the_current_stream_has_to_do(build, torch):
    add = build(ADD)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):  # a first call, and one of those that follow
            x, y = torch.zeros(N, device="cuda"), torch.zeros(N, device="cuda")
            busy(torch)
            x.fill_(5)
            add(x, y, 1.0)
            assert (y == 5).all()


@pytest.mark.parametrize("words", [4096, 16000, 40000])
def test_arrays_of_the_host_are_there_for_a_stream_that_waits_for_no_other(torch, words):
    """A copy from pageable memory returns earlier, and most calls read the values before."""
    source = ADD.source.replace("y[i] += s * x[i]", "if (i < N) y[i] = s * x[i]")
    args = [arg("x", (words,)), arg("y", (words,), role="out"), arg("s", (), "float32")]
    made = SourceKernel("add", source, args, {"N": words}, grid=-(-words // 256), block=256)
    copy, x = driver.build(made, target="cuda"), empty((words,), "float32", cuda())
    y, side = torch.zeros(words, device="cuda"), torch.cuda.Stream()
    values = np.arange(words, dtype="float32")
    for turn in range(300):
        copy(x.copyfrom(values + turn), y, 1.0, stream=side)
        side.synchronize()
        np.testing.assert_array_equal(y.cpu().numpy(), values + turn)


def test_a_stream_can_be_asked_for(build, torch):
    add = build(ADD)
    x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    side = torch.cuda.Stream()
    add(x, y, 0.0)  # loading takes longer than the stream is busy
    torch.cuda.synchronize()
    for stream in (side, side.cuda_stream, side):
        with torch.cuda.stream(side):
            busy(torch)
        add(x, y, 1.0, stream=stream)
        assert torch.cuda.current_stream().query()
        assert not side.query()
    side.synchronize()
    assert (y == 3).all()


@pytest.mark.parametrize("kernel", [ADD, SUM, SCALE], ids=lambda k: k.name)
def test_calls_are_captured_into_a_graph(build, torch, kernel):
    function = build(kernel)  # not called before: even its loading is captured safely
    x = torch.arange(N, device="cuda", dtype=torch.float32) % 7
    y = torch.zeros(1 if kernel is SUM else N, device="cuda")
    rest = {"add": [2.0], "sum": [], "scale": [torch.arange(4, device="cuda") + 0.5]}[kernel.name]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            function(x, y, *rest)
    assert (y == 0).all()
    for _ in range(3):
        graph.replay()
    host = x.cpu().numpy()
    expected = {
        "add": 120 * host,
        "sum": [host.sum()],
        "scale": host * np.tile(np.arange(4) + 0.5, N // 4),
    }[kernel.name]
    np.testing.assert_allclose(y.cpu().numpy(), expected)


def test_a_graph_keeps_what_it_needs_of_a_function_that_is_gone(build, torch):
    function = build(SUM)
    x, y = torch.ones(N, device="cuda"), torch.zeros(1, device="cuda")
    graphs = [torch.cuda.CUDAGraph() for _ in range(2)]
    for graph in graphs:
        with torch.cuda.graph(graph):
            function(x, y)
    del function
    gc.collect()
    other = build(SUM)  # whatever was freed is taken by this one
    z = torch.zeros(1, device="cuda")
    for _ in range(5):
        x.add_(1)
        for graph in graphs:
            y.zero_()
            graph.replay()
            other(x * 0, z)
            assert y.item() == x.sum().item()
    del graphs, graph
    gc.collect()


def test_what_must_be_copied_is_refused_in_a_graph_and_leaves_it_whole(build, torch):
    add = build(ADD)
    x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add(x, y, 1.0)
        with pytest.raises(KernelError, match="argument 'x': it would have to be copied"):
            add(np.ones(N, "float32"), y, 1.0)
        add(x, y, 1.0)
    graph.replay()
    assert (y == 2).all()


def test_arrays_of_ours_are_captured_on_the_current_stream(build, torch):
    add = build(ADD)
    x, y = array(np.ones(N, "float32"), cuda()), array(np.zeros(N, "float32"), cuda())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add(x, y, 1.0)
    assert (y.numpy() == 0).all()
    graph.replay()
    assert (y.numpy() == 1).all()


def test_reading_an_array_waits_for_calls_on_any_stream(build, torch):
    add = build(ADD)
    x, y = array(np.ones(N, "float32"), cuda()), array(np.zeros(N, "float32"), cuda())
    for turn in range(1, 3):
        with torch.cuda.stream(torch.cuda.Stream()):
            busy(torch)
            add(x, y, 1.0)
        assert (y.numpy() == turn).all()
        with torch.cuda.stream(torch.cuda.Stream()):
            busy(torch)
            add(x, y, 0.0)
        assert (torch.from_dlpack(y) == turn).all()


@pytest.mark.parametrize("kernel", [SUM, SCALE], ids=lambda k: k.name)
def test_streams_do_not_share_workspaces_or_constants(build, torch, kernel):
    function = build(kernel)
    inputs = [torch.full((N,), float(i), device="cuda") for i in range(6)]
    outputs = [torch.zeros(1 if kernel is SUM else N, device="cuda") for _ in inputs]
    factors = [torch.full((4,), float(i), device="cuda") for i in range(6)]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in inputs]
    for _ in range(50):
        for stream, x, y, f in zip(streams, inputs, outputs, factors, strict=True):
            with torch.cuda.stream(stream):
                function(*((x, y) if kernel is SUM else (x, y, f)))
    torch.cuda.synchronize()
    for i, y in enumerate(outputs):
        assert (y == (i * N if kernel is SUM else i * i)).all()


def test_threads_call_one_function_at_once(build, torch):
    total = build(SUM)
    wrong = []

    def work(index):
        x, y = torch.full((N,), float(index), device="cuda"), torch.zeros(1, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(300):
                total(x, y)
            if y.item() != index * N:
                wrong.append(index)

    torch.cuda.synchronize()
    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert not wrong


def test_threads_on_one_stream_do_not_come_between_the_parts_of_a_call(build, torch):
    total = build(SUM)
    inputs = [torch.full((N,), float(i), device="cuda") for i in range(4)]
    outputs = [torch.zeros(300, device="cuda") for _ in inputs]
    torch.cuda.synchronize()

    def work(x, y):
        for i in range(0, 300, 4):
            total(x, y[i : i + 1])

    workers = [threading.Thread(target=work, args=p) for p in zip(inputs, outputs, strict=True)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    for i, y in enumerate(outputs):
        assert (y[::4] == i * N).all()


def test_more_streams_than_have_room_are_served(build, torch):
    total = build(SUM)
    x = torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    for _ in range(80):
        y = torch.zeros(1, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        total(x, y, stream=stream)
        stream.synchronize()
        assert y.item() == N


def test_a_fault_is_told_of_by_the_driver_and_not_swallowed(build, torch):
    add = build(ADD)
    x = torch.ones(N, device="cuda")
    with pytest.raises((KernelError, DeviceError)):
        add(x, x[: N // 2], 1.0)


def test_a_tensor_that_wants_a_gradient_is_refused_by_name(build, torch):
    add = build(ADD)
    x = torch.ones(N, device="cuda", requires_grad=True)
    y = torch.zeros(N, device="cuda")
    for _ in range(2):
        with pytest.raises(KernelError, match="argument 'x': it requires a gradient"):
            add(x, y, 1.0)
        with torch.no_grad():
            add(x, y, 1.0)
    assert (y == 2).all()


@pytest.mark.filterwarnings("ignore")  # torch has many, of its own parts
def test_an_operator_is_compiled_captured_and_differentiated(torch):
    import autotune

    text = 'extern "C" __global__ void twice(const float *x, float *y) {\n' + (
        "  int i = blockIdx.x * 256 + threadIdx.x; y[i] = 2 * x[i]; }"
    )
    args = [arg("x", (N,)), arg("y", (N,), role="out")]
    kernel = SourceKernel("twice", text, args, grid=N // 256, block=256)
    op = autotune.torch.as_op(
        driver.build(kernel, target="cuda"), "autotune_tests_gpu::twice",
        backward=lambda context, gradient: 2 * gradient,
    )  # fmt: skip
    x = torch.randn(N, device="cuda", requires_grad=True)
    op(x).sum().backward()
    assert (x.grad == 2).all()
    torch.library.opcheck(op, (x.detach(),))
    chain = torch.compile(lambda v: op(op(v)) + 1, fullgraph=True, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(4):
            got = chain(x)
        torch.testing.assert_close(got, 4 * x + 1)
