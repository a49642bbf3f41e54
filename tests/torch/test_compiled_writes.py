"""Models that write their buffers or inputs, compiled by `autotune.torch.compile`."""

import copy

import pytest

torch = pytest.importorskip("torch")

from autotune.errors import KernelError  # noqa: E402
from autotune.torch import compile as compile_model  # noqa: E402
from tests.torch.test_compile import by_dynamo, same  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


class Cached(nn.Module):
    """Attention over a cache, whose place it counts."""

    def __init__(self, rows=16):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(1, 1, rows, 8))
        self.register_buffer("values", torch.zeros(1, 1, rows, 8), persistent=False)
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("every", torch.arange(rows))

    def forward(self, x):
        q, k, v = self.qkv(x).view(1, 1, 1, 24).chunk(3, -1)
        self.keys.index_copy_(2, self.at, k)
        self.values.index_copy_(2, self.at, v)
        mask = (self.every <= self.at)[None, None, None]
        seen = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, mask)
        self.at.add_(1)
        return seen.flatten(), self.keys


def test_buffers_are_written_at_each_call():
    model = Cached().eval()
    other = copy.deepcopy(model)
    fast = compile_model(model, torch.zeros(8))
    assert int(model.at) == 0
    for number in range(4):
        x = torch.randn(8)
        same(fast(x), other(x))
        same(dict(model.named_buffers()), dict(other.named_buffers()))
        if number == 1:  # the weights are read anew, the cache stays
            for each in (model, other):
                with torch.no_grad():
                    each.qkv.weight.mul_(0.5)
    assert fast(torch.ones(8))[1].data_ptr() == model.keys.data_ptr()
    rows = [step.function.stores_updates for step in fast.network.plan.steps]
    assert rows.count(True) == 2


def test_a_copy_writes_buffers_of_its_own():
    model = Cached().eval()
    fast = compile_model(model, torch.zeros(8))
    fast(torch.ones(8))
    twin = copy.deepcopy(fast)
    want = model.keys.clone()
    _, keys = twin(torch.randn(8))
    same(model.keys, want)
    assert int(model.at) == 1
    same(keys[:, :, :1], want[:, :, :1])
    assert keys[:, :, 1].any()


class Adds(nn.Module):
    """Adds one input to another."""

    def forward(self, x, y):
        x.add_(y)
        return x * 2


def test_inputs_are_written_unless_they_share_memory():
    fast = compile_model(Adds().eval(), (torch.zeros(2, 3), torch.zeros(2, 3)))
    x, y = torch.ones(2, 3), torch.full((2, 3), 4.0)
    same(fast(x, y), torch.full((2, 3), 10.0))
    same(x, torch.full((2, 3), 5.0))
    with pytest.raises(KernelError, match="shares memory with another"):
        fast(x, x)
    with pytest.raises(KernelError, match="several elements in one place"):
        fast(torch.zeros(1, 3).expand(2, 3), y)


class AddsTable(nn.Module):
    """Adds to an input, and then a table."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(2, 3))

    def forward(self, x):
        x.add_(1)
        return x + self.table


def test_an_input_that_is_written_is_no_parameter_that_the_model_reads():
    model = AddsTable().eval()
    fast = compile_model(model, torch.zeros(2, 3))
    same(fast(torch.ones(2, 3)), torch.full((2, 3), 3.0))
    with pytest.raises(KernelError, match="shares memory with another one or a parameter"):
        fast(model.table)
    same(model.table, torch.ones(2, 3))


def test_batch_norms_in_training_keep_their_statistics():
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()]
    layers += [nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8, momentum=0.3, affine=False)]
    model = nn.Sequential(*layers).train()
    other = copy.deepcopy(model)
    fast = by_dynamo(model)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(2, 3, 8, 8)
            torch.testing.assert_close(fast(x), other(x), rtol=1e-4, atol=1e-4)
    for got, want in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
