"""Rows that are written to caches in their place: kernels store these rows only."""

import pytest

torch = pytest.importorskip("torch")

from autotune.torch import backend  # noqa: E402
from tests.torch.test_writes import compared  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


def row(x, y, at):
    x.index_copy_(1, at[:1], y[:, :1] * 2)
    return torch.softmax(x.float(), 1)


def rows_by_brackets(x, y, at):
    x[:, at] = y[:, :3] + 1
    return x.sum(1)


def with_numbers_of_other_rows(x, y, at):
    old = x[:, 2] * 2
    x.index_copy_(1, at, y[:, :3])
    return old + 1


def twice(x, y, at):
    x.index_copy_(1, at, y[:, :3])
    between = x.sum(1)
    x[:, at[:1] + 1] = y[:, 3:4]
    return between, x.amax(1)


def the_same_row_again(x, y, at):
    x.index_copy_(1, at * 0 + at[:1], y[:, :3])
    return x * 2


def from_the_end(x, y, at):
    x[:, at - x.shape[1]] = y[:, :3]
    return x.mean(1, dtype=torch.float32)


def elements(x, y, at):
    x.scatter_(1, at[None, :, None].expand(4, 3, 6), y[:, :3])
    return x.sum(1)


def a_slice(x, y, at):
    x[:, 2:5] = y[:, :3] * 2
    return x.sum(1)


def every_second_row_and_one(x, y, at):
    x[:, 1:6:2] = y[:, :3]
    x[:, -1].copy_(y[:, 4] + 1)
    return x.amax(1)


def known_rows(x, y, at):
    x.index_copy_(1, torch.arange(4, 7), y[:, :3])
    x[:, torch.tensor([0])] = y[:, 5:6]
    return x.mean(1, dtype=torch.float32)


STORED = [
    a_slice, every_second_row_and_one, known_rows, row, rows_by_brackets,
    with_numbers_of_other_rows, twice, the_same_row_again, from_the_end, elements,
]  # fmt: skip


def old_numbers_afterwards(x, y, at):
    old = x.clone()
    x.index_copy_(1, at, y[:, :3])
    return old + x.sum()


def of_itself(x, y, at):
    x.index_copy_(1, at, x[:, 5:8] * 2)
    return x.sum(1)


def scaled_afterwards(x, y, at):
    x.index_copy_(1, at, y[:, :3])
    x.mul_(2)
    return x.sum(1)


def of_one_and_another(x, y, at):
    was = x[:, 0] + 1
    x.index_copy_(1, at, y[:, :3])
    y.index_copy_(1, at, x[:, :3])
    return was + y[:, 0]


def str_of(each):
    """Return the name of a function, or of a dtype."""
    return getattr(each, "__name__", str(each))


def given(dtype):
    """Return two caches of 9 rows, and places of three."""
    x, y = (torch.randn(4, 9, 6) * 4 for _ in range(2))
    return x.to(dtype), y.to(dtype), torch.tensor([7, 0, 4])


DTYPES = [torch.float16, torch.bfloat16, torch.int32]


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("function", "dtype"),
    [(each, torch.float32) for each in STORED] + [(rows_by_brackets, each) for each in DTYPES],
    ids=str_of,
)
def test_what_is_written_is_all_that_is_stored(function, dtype, networks):
    compared(function, *given(dtype), calls=3)
    (network,) = networks
    functions = [step.function for step in network.network.plan.steps]
    writing = [each for each in functions if any("write" in n.op.name for n in each.graph.nodes)]
    assert writing
    assert all(each.stores_updates for each in writing)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "function", [old_numbers_afterwards, of_itself, scaled_afterwards, of_one_and_another]
)
def test_numbers_that_are_read_before_or_after_a_write_are_those(function):
    compared(function, *given(torch.float32), calls=3)


def test_a_row_outside_a_cache_is_an_error_and_is_not_written():
    x, y, _ = given(torch.float32)
    want = x.clone()
    fast = torch.compile(row, backend=backend)
    with torch.no_grad():
        fast(x, y, torch.tensor([2]))
        want[:, 2:3] = y[:, :1] * 2
        with pytest.raises(IndexError, match="indices must be 0 to 8"):
            fast(x, y, torch.tensor([11]))
        fast(x, y, torch.tensor([2]))
    torch.testing.assert_close(x, want)


def pages(x, page, at, y):
    x[page, at] = y + 1
    return x.amax(1)


@pytest.mark.parametrize("is_read_later", [False, True])
def test_several_rows_are_written_to_axes_of_any_length(is_read_later, networks):
    def function(x, page, at, y):
        old = x * 2 if is_read_later else None
        return pages(x, page, at, y), old

    page, at = torch.tensor([299, 0, 7, 7]), torch.tensor([15, 0, 3, 3])
    compared(function, torch.randn(300, 16, 4), page, at, torch.randn(4, 4))
    (network,) = networks
    steps = [each.function for each in network.network.plan.steps]
    writing = [each for each in steps if any("write" in n.op.name for n in each.graph.nodes)]
    assert all(each.stores_updates for each in writing)
