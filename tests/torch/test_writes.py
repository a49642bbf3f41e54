"""Graphs of `torch.compile` that write what they take: caches, counters, statistics."""

import copy
import logging

import pytest

from autotune.torch import backend

torch = pytest.importorskip("torch")

from tests.torch.test_compile import by_dynamo, same  # noqa: E402
from tests.torch.test_divided import Block, messages  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


def compared(function, *inputs, calls=2):
    """Call a function and what is compiled of it on copies; compare results and inputs."""
    fast = by_dynamo(function)
    mine, others = copy.deepcopy(inputs), copy.deepcopy(inputs)
    with torch.no_grad():
        for _ in range(calls):
            got, want = fast(*mine), function(*others)
            same(got, want)
            same(mine, others)
    return got, mine


def swapped(x, y, at):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return x + y, old


def viewed(x, y, at):
    x.add_(y)
    y[:, 1] = 3
    return x, x.t()[1], y[2:], x * 2


def rows_written(x, y, at):
    x.index_copy_(0, at, y[:1])
    y.index_put_((at,), x[1] * 2)
    return x.sum(0)


def elements_written(x, y, at):
    x.scatter_(0, at.expand(1, 8), y[:1] * 2)
    y[1:3, at] = 7
    at.add_(1)
    return x.sum(), at


def statistics(x, y, at):
    x.mul_(0.9).add_(y.mean(), alpha=0.1)
    y.masked_fill_(y > 1, 0)
    return torch.relu(x) @ y.t()


WRITING = (swapped, viewed, rows_written, elements_written, statistics)


@pytest.mark.many_cases
@pytest.mark.parametrize("function", WRITING, ids=lambda each: each.__name__)
def test_inputs_are_written_as_torch_does(function, caplog):
    with caplog.at_level(logging.WARNING, "autotune"):
        compared(function, torch.randn(4, 8), torch.randn(4, 8), torch.tensor([2]))
    assert not messages(caplog)


@pytest.mark.many_cases
@pytest.mark.parametrize("function", WRITING, ids=lambda each: each.__name__)
def test_inputs_of_any_strides_are_written(function):
    wide = torch.randn(9, 10)
    compared(function, wide[1:5, 1:9], torch.randn(8, 4).t(), torch.tensor([1, 2, 5])[1:2])


def test_results_that_are_views_of_what_is_written_stay_views():
    got, (x, y, _) = compared(viewed, torch.randn(4, 8), torch.randn(4, 8), torch.tensor([2]))
    x.zero_(), y.zero_()
    assert [bool(each.any()) for each in got] == [False, False, False, True]


class Cached(nn.Module):
    """A block over the rows of a cache, at a place that it counts."""

    def __init__(self, rows=6):
        super().__init__()
        self.block = Block()
        self.register_buffer("rows", torch.zeros(rows, 16))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.rows.index_copy_(0, self.at, x)
        self.at.add_(1)
        return self.block(self.rows)


def test_a_cache_and_a_counter_are_written_by_one_network(networks, caplog):
    model = Cached().eval()
    twin, fast = copy.deepcopy(model), by_dynamo(model)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for _ in range(5):
            x = torch.randn(1, 16)
            same(fast(x), twin(x))
            same(model.rows, twin.rows)
        model.at.zero_(), twin.at.zero_()
        same(fast(x), twin(x))
    assert len(networks) == 1
    assert not messages(caplog)


def test_kernels_write_a_cache_in_its_place_and_torch_counts_the_writes(networks):
    model = Cached().eval()
    fast = by_dynamo(model)
    with torch.no_grad():
        fast(torch.randn(1, 16))
        before, where = model.rows._version, model.rows.data_ptr()
        fast(torch.randn(1, 16))
    (network,) = networks
    caches = [i for i, each in enumerate(network.program.inputs) if each.shape == (6, 16)]
    outputs = {network._instance.outputs[i].pointer for i in network._over.values()}
    assert caches[0] in network._over
    assert where in outputs
    assert model.rows._version == before + 1


def test_another_cache_of_its_shape_needs_no_network_of_its_own(networks):
    def step(x, cache, at):
        cache[:, at] = x
        return torch.softmax(cache, 0)

    fast = by_dynamo(step)
    with torch.no_grad():
        for _ in range(3):
            cache = torch.zeros(3, 8)
            torch._dynamo.mark_static_address(cache)
            got = fast(torch.ones(3, 1), cache, torch.tensor([4]))
            same(cache[:, 4], torch.ones(3))
            same(got, torch.softmax(cache, 0))
    assert len(networks) == 1


def test_what_is_written_and_shares_memory_with_another_input_is_torchs():
    def function(x, y):
        x.add_(1)
        return x * y

    fast, whole = by_dynamo(function), torch.randn(5, 4)
    with torch.no_grad():
        for begin in (1, 0, 1):
            apart = torch.randn(4, 4), torch.randn(4, 4)
            together = whole[:4], whole[begin : begin + 4]
            for x, y in (apart, together):
                kept = whole.clone(), x.clone(), y.clone()
                if x is not apart[0]:
                    kept = (kept[0], kept[0][:4], kept[0][begin : begin + 4])
                want = function(*kept[1:])
                same(fast(x, y), want)
                same(x, kept[1])


def test_statistics_of_a_batch_norm_in_training_are_written(caplog):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).train()
    twin, fast = copy.deepcopy(model), by_dynamo(model)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for _ in range(3):
            x = torch.randn(8, 4)
            same(fast(x), twin(x))
            same(dict(model.named_buffers()), dict(twin.named_buffers()))


def test_parameters_that_an_average_follows_are_written():
    model, averaged = nn.Linear(4, 4), nn.Linear(4, 4)

    def follow(x):
        for own, other in zip(averaged.parameters(), model.parameters(), strict=True):
            own.lerp_(other, 0.1)
        return averaged(x)

    twin, x = copy.deepcopy(averaged), torch.randn(2, 4)
    fast = by_dynamo(follow)
    with torch.no_grad():
        for _ in range(3):
            for own, other in zip(twin.parameters(), model.parameters(), strict=True):
                own.lerp_(other, 0.1)
            same(fast(x), twin(x))


def test_writes_around_what_torch_runs_are_done():
    class Both(Cached):
        def forward(self, x):
            y = super().forward(torch.ops.divided.turned(x))
            self.rows.mul_(2)
            return torch.ops.divided.turned(y), self.rows[0], self.at

    model = Both().eval()
    twin, fast = copy.deepcopy(model), by_dynamo(model)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(1, 16)
            got = fast(x)
            same(got, twin(x))
            same(model.rows, twin.rows)
        got[1].zero_()
    assert not model.rows[0].any()


def test_inference_tensors_are_written():
    model = Cached().eval()
    with torch.inference_mode():
        mine, twin = copy.deepcopy(model), copy.deepcopy(model)
        fast = torch.compile(mine, backend=backend, fullgraph=True)
        for _ in range(3):
            x = torch.randn(1, 16)
            same(fast(x), twin(x))
            same(mine.rows, twin.rows)


def test_what_is_written_and_has_elements_in_one_place_is_torchs():
    def function(x, y):
        x[0].add_(1)
        return x * y

    fast = by_dynamo(function)
    with torch.no_grad():
        for size in ((0, 1), (3, 1)):
            mine, others = (torch.ones(40).as_strided((4, 8), size) for _ in range(2))
            same(fast(mine, mine + 1), function(others, others + 1))
            same(mine, others)


def test_inputs_that_are_swapped_around_what_torch_runs_are_swapped():
    def function(x, y):
        got = block(torch.ops.divided.turned(block(x)))
        old = x.clone()
        x.copy_(y)
        y.copy_(old)
        return got

    block = Block().eval()
    compared(function, torch.randn(4, 16), torch.randn(4, 16))
