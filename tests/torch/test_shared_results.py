"""Results that lie in the memory of one new tensor, as views do."""

import pytest

torch = pytest.importorskip("torch")

from autotune.torch import compile as compile_model  # noqa: E402
from tests.torch.test_compile import by_dynamo  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def a_tensor_and_its_rows(x, w):
    y = torch.tanh(x) + 1
    return y, y[0], y.unbind(0)[2], y.t()


def chunks_of_a_product(x, w):
    q, k, v = (x @ w).chunk(3, -1)
    return q, k.transpose(0, 1), torch.relu(x), v


def views_of_a_transposed_copy(x, w):
    y = (x * 2).t().contiguous().t()
    return y[1:], y[:, 0]


def rows_of_a_copy_of_an_input(x, w):
    y = x.clone()
    return y[0], y[1:], x + 1


def written_beside(x, w):
    x.mul_(2)
    y = torch.exp(x)
    return x, x[0], y, y[:2]


FUNCTIONS = [a_tensor_and_its_rows, chunks_of_a_product, views_of_a_transposed_copy,
             rows_of_a_copy_of_an_input, written_beside]  # fmt: skip


def same_after_writes(got, want):
    """Compare results, then write to each of both, and compare all again."""
    assert [each.stride() for each in got] == [each.stride() for each in want]
    for i in range(len(want)):
        torch.testing.assert_close(list(got), list(want))
        for each in (got, want):
            each[i].mul_(0.5).add_(i)
    torch.testing.assert_close(list(got), list(want))


@pytest.mark.many_cases
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_written_to_a_view_is_seen_in_the_others(function):
    fast = by_dynamo(function)
    given = torch.randn(4, 6), torch.randn(6, 9)
    mine, others = ([each.clone() for each in given] for _ in range(2))
    with torch.no_grad():
        for _ in range(2):
            same_after_writes(fast(*mine), function(*others))


def test_results_of_one_call_are_not_those_of_the_next():
    class Model(torch.nn.Module):
        def forward(self, x):
            y = torch.tanh(x) * 2
            return {"all": y, "first": y[0]}

    fast = compile_model(Model().eval(), torch.randn(3, 4))
    first, second = fast(torch.ones(3, 4)), fast(torch.zeros(3, 4))
    first["all"].fill_(7)
    assert (first["first"] == 7).all()
    assert not second["first"].any()
