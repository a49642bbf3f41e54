"""Graphs with assertions, branches, loops and regions of autocast within."""

import pytest

torch = pytest.importorskip("torch")

from autotune.torch.divided import DividedNetwork  # noqa: E402
from tests.torch.test_compile import by_dynamo, same  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def divided(monkeypatch):
    """Return a list to which each graph is added that runs in parts."""
    made = []
    first = DividedNetwork.__init__

    def init(self, *args):
        first(self, *args)
        made.append(self)

    monkeypatch.setattr(DividedNetwork, "__init__", init)
    return made


def several(x):
    """Compute enough to be a part."""
    return torch.tanh(torch.relu(x * 2) + 1) * x


@pytest.mark.parametrize("message", [(), ("all must be positive",)], ids=["plain", "told"])
def test_an_assertion_raises_where_a_number_is_false(message, divided):
    def checked(x):
        torch._assert_async((x > 0).all(), *message)
        return several(x)

    fast, x = by_dynamo(checked), torch.rand(4, 4) + 0.1
    with torch.no_grad():
        same(fast(x), several(x))
        assert len(divided) == 1
        with pytest.raises(RuntimeError, match=message[0] if message else "nonzero"):
            fast(-x)
        same(fast(x), several(x))


class Branches(nn.Module):
    """Two layers, of which the data choose one."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        y = several(self.a(x))
        y = torch.cond(y.sum() > 0, lambda t: self.a(t) * 2, lambda t: self.b(t) + 1, (y,))
        return several(self.b(y))


def test_both_branches_of_a_condition_run_between_parts(divided):
    model = Branches().eval()
    fast, seen = by_dynamo(model), set()
    with torch.no_grad():
        for scale in (4, -4, 0.1, -0.1):
            x = torch.ones(2, 8) * scale
            same(fast(x), model(x))
            seen.add(bool(several(model.a(x)).sum() > 0))
    assert len(divided) == 1
    assert seen == {True, False}


def test_a_loop_runs_between_parts_as_often_as_the_data_say(divided):
    from torch._higher_order_ops.while_loop import while_loop

    def looped(x, count):
        start = torch.zeros((), dtype=torch.int64), several(x)
        _, y = while_loop(lambda i, y: i < count, lambda i, y: (i + 1, torch.sin(y) * 2), start)
        return several(y)

    fast, x = by_dynamo(looped), torch.randn(2, 8)
    with torch.no_grad():
        for count in map(torch.tensor, (3, 0, 5)):
            same(fast(x, count), looped(x, count))
    assert len(divided) == 1


class Cast(nn.Module):
    """Layers of which some are in a region of autocast."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        y = self.a(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = torch.relu(self.b(y))
            inner = torch.softmax(self.a(z), -1)
            with torch.autocast("cpu", enabled=False):
                z = self.b(z.float())
        return y + z, inner, self.a(z)


def test_regions_of_autocast_cast_as_torch_does():
    model = Cast().eval()
    fast, x = by_dynamo(model), torch.randn(4, 64)
    with torch.no_grad():
        got, want = fast(x), model(x)
    assert [each.dtype for each in got] == [each.dtype for each in want]
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
