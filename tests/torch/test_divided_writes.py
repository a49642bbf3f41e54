"""Caches of graphs of which torch runs a part: that part which has the rows writes them."""

import copy

import pytest

torch = pytest.importorskip("torch")

from autotune.torch.divided import DividedNetwork  # noqa: E402
from tests.torch.test_compile import by_dynamo, same  # noqa: E402
from tests.torch.test_divided import Block, turned  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Cached(torch.nn.Module):
    """Rows that are written to a cache, between an operator that only torch has, and a block."""

    def __init__(self, read_old=False, first=True):
        super().__init__()
        self.inner, self.outer = Block(), Block()
        self.register_buffer("rows", torch.zeros(2, 64, 16))
        self.read_old, self.first = read_old, first

    def forward(self, x, at):
        old = turned(self.rows[:, :4]).sum() if self.read_old else 1
        x = self.inner(x if self.first else turned(x))
        self.rows[:, at] = x
        seen = turned(self.rows[:, :8]) if self.first else self.rows[:, :8]
        return self.outer(seen) * old, self.rows[:, at]


@pytest.fixture
def divided(monkeypatch):
    """Return the divided networks that are made, and what is written behind them."""
    made, late = [], []
    started = DividedNetwork.__init__

    def start(self, division, *more):
        made.append(division)
        started(self, division, *more)

    monkeypatch.setattr(DividedNetwork, "__init__", start)
    monkeypatch.setattr("autotune.torch.divided.write_back", _noted(late))
    return made, late


def _noted(late):
    def write(inputs, places, numbers):
        late.extend(places)
        for place, each in zip(places, numbers, strict=True):
            inputs[place].copy_(each)

    return write


@pytest.mark.many_cases
@pytest.mark.parametrize("first", [True, False], ids=["torch reads it", "torch comes before"])
@pytest.mark.parametrize("read_old", [False, True], ids=["new rows", "old rows are read"])
def test_rows_are_written_in_place_unless_others_read_the_old_ones(read_old, first, divided):
    own = Cached(read_old, first).eval()
    theirs = copy.deepcopy(own)
    fast = by_dynamo(own)
    with torch.no_grad():
        for number in (0, 5):
            x, at = torch.randn(2, 3, 16), torch.arange(3) + number
            for got, want in zip(fast(x, at), theirs(x, at), strict=True):
                same(got, want)
            same(own.rows, theirs.rows)
    ((division,), late) = divided
    assert [len(each.program.writes) for each in division.parts].count(1) == (not read_old)
    assert len(late) == 2 * read_old
