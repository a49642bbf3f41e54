"""Models of PyTorch as compiled networks on a GPU."""

import copy
import gc
import threading

import pytest

import autotune
from autotune.errors import KernelError

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]


class Block(nn.Module):
    """A convolution, attention and two layers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.patches = nn.Conv2d(3, 64, 4, stride=4)
        self.norm = nn.LayerNorm(64)
        self.attention = nn.MultiheadAttention(64, 1, batch_first=True)
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


@pytest.fixture(autouse=True)
def fresh():
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch sees no GPU")
    torch._dynamo.reset()


def near(got, want, dtype):
    allowed = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    assert float((got.double() - want).norm() / want.norm()) < allowed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_model_runs_on_the_current_stream_in_every_float(dtype):
    x = torch.randn(2, 3, 16, 16, device="cuda")
    with torch.no_grad():
        want = Block().eval().cuda().double()(x.double())
        model = Block().eval().cuda().to(dtype)
        fast = torch.compile(model, backend=autotune.torch.backend)
        near(fast(x.to(dtype)), want, dtype)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            results = [fast(x.to(dtype)) for _ in range(5)]
        results.append(fast(x.to(dtype)))
        torch.cuda.synchronize()
        for each in results:
            near(each, want, dtype)


def test_new_inputs_and_written_weights_count_on_a_gpu():
    model = Block().eval().cuda()
    with torch.no_grad():
        fast = autotune.torch.compile(model, torch.randn(1, 3, 16, 16, device="cuda"))
        for _ in range(3):
            x = torch.randn(1, 3, 16, 16, device="cuda")
            near(fast(x), model(x).double(), torch.float32)
        model.up.weight.mul_(3)
        near(fast(x), model(x).double(), torch.float32)
        sliced = torch.randn(1, 3, 16, 18, device="cuda")[..., 2:]
        near(fast(sliced), model(sliced).double(), torch.float32)


@pytest.mark.parametrize("way", ["compile", "dynamo"])
def test_calls_are_captured_in_another_graph(way):
    model, x = Block().eval().cuda(), torch.randn(1, 3, 16, 16, device="cuda")
    wide = torch.randn(1, 3, 16, 18, device="cuda")
    with torch.no_grad():
        fast = autotune.torch.compile(model, x)
        if way == "dynamo":
            fast = torch.compile(model, backend=autotune.torch.backend)
        for _ in range(2):  # dynamo compiles again for strides, then takes the last that fits
            fast(wide[..., 2:])
            fast(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            first = fast(x) * 2
            second = fast(wide[..., 2:])
        for _ in range(3):
            x.normal_()
            wide.normal_()
            other = torch.randn_like(x)
            graph.replay()
            near(fast(other), model(other).double(), torch.float32)  # has memory of its own
            near(first, 2 * model(x).double(), torch.float32)
            near(second, model(wide[..., 2:]).double(), torch.float32)
        # Torch's graph keeps what it runs.
        del fast
        torch._dynamo.reset()
        gc.collect()
        fill = [torch.randn(1 << 20, device="cuda") for _ in range(8)]
        x.normal_()
        graph.replay()
        near(first, 2 * model(x).double(), torch.float32)
        assert fill


def test_what_is_compiled_during_a_capture_is_refused():
    model, x = Block().eval().cuda(), torch.randn(1, 3, 16, 16, device="cuda")
    with torch.no_grad():
        fast = autotune.torch.compile(model, x)
        fast(x)
        model.up.weight.mul_(3)
        torch.cuda.synchronize()
        with (
            pytest.raises(KernelError, match="call the model once before"),
            torch.cuda.graph(torch.cuda.CUDAGraph()),
        ):
            fast(x)
        near(fast(x), model(x).double(), torch.float32)


def test_threads_on_streams_of_their_own_share_a_model():
    model = Block().eval().cuda()
    inputs = [torch.randn(1, 3, 16, 16, device="cuda") for _ in range(4)]
    found = [[] for _ in inputs]
    with torch.no_grad():
        wanted = [model(x).double() for x in inputs]
        fast = autotune.torch.compile(model, inputs[0])

    def run(i):
        with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
            found[i] += [fast(inputs[i]) for _ in range(30)]

    torch.cuda.synchronize()
    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    torch.cuda.synchronize()
    for results, want in zip(found, wanted, strict=True):
        assert len(results) == 30
        for each in results:
            near(each, want, torch.float32)


class Cached(nn.Module):
    """Attention over a cache, whose place it counts."""

    def __init__(self, rows=32):
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 1, rows, 64))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("every", torch.arange(rows))

    def forward(self, x):
        q, k, v = self.qkv(x).view(1, 1, 1, 192).chunk(3, -1)
        self.keys.index_copy_(2, self.at, k)
        self.values.index_copy_(2, self.at, v)
        mask = (self.every <= self.at)[None, None, None]
        seen = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, mask)
        self.at.add_(1)
        return self.out(seen.flatten())


def test_caches_are_written_in_place_by_calls_and_by_replays():
    inputs = [torch.randn(64, device="cuda").half() for _ in range(8)]
    with torch.no_grad():
        model, exact = Cached().cuda().half(), Cached().cuda().half()
        exact = exact.double()
        fast = torch.compile(model, backend=autotune.torch.backend)
        given = inputs[0].clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            near(fast(given), exact(given.double()), torch.float16)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            replayed = fast(given)
        for number, x in enumerate(inputs[1:]):
            want = exact(x.double())
            if number % 2:
                got = fast(x)
            else:
                given.copy_(x)
                graph.replay()
                got = replayed
            torch.cuda.synchronize()
            near(got, want, torch.float16)
            near(model.keys, exact.keys, torch.float16)
            assert int(model.at) == int(exact.at) == number + 2


class Rows(nn.Module):
    """Writes several rows, one row, and rows over rows to its buffers."""

    def __init__(self, dtype):
        super().__init__()
        for name in ("several", "one", "again"):
            self.register_buffer(name, torch.zeros(2, 4, 300, 64, dtype=dtype, device="cuda"))

    def forward(self, x, at, one):
        self.several.index_copy_(2, at, x)
        self.one[:, :, one] = x[:, :, :1] * 2
        self.again.index_copy_(2, at, x)
        self.again.index_copy_(2, one, x[:, :, 3:4])
        return self.several.float().sum(2), self.again.float().mean(2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32])
def test_rows_are_written_in_their_place_by_calls_and_by_replays(dtype):
    def drawn():
        at = torch.randperm(300, device="cuda")[:9]
        return (torch.randn(2, 4, 9, 64, device="cuda") * 10).to(dtype), at, at[:1].clone()

    model, other = Rows(dtype), Rows(dtype)
    fast, given = torch.compile(model, backend=autotune.torch.backend), drawn()
    with torch.no_grad():
        got, want = fast(*given), other(*given)
        torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            replayed = fast(*given)
        for _ in range(2):
            for own, new in zip(given, drawn(), strict=True):
                own.copy_(new)
            graph.replay()
            torch.testing.assert_close(replayed, other(*given), rtol=1e-2, atol=1e-1)
            for own, each in zip(model.buffers(), other.buffers(), strict=True):
                torch.testing.assert_close(own, each)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_training_updates_running_statistics_as_eager_does(dtype):
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 24, 3), nn.BatchNorm2d(24), nn.ReLU()]
    layers += [nn.Conv2d(24, 20, 3), nn.BatchNorm2d(20, momentum=None)]
    model = nn.Sequential(*layers).train().cuda().to(dtype)
    fast = torch.compile(copy.deepcopy(model), backend=autotune.torch.backend)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(5, 3, 30, 33, device="cuda", dtype=dtype)
            near(fast(x), model(x).double(), dtype)
    for got, want in zip(fast.buffers(), model.buffers(), strict=True):
        if want.is_floating_point():
            near(got, want.double(), dtype)
        else:
            assert torch.equal(got, want)
