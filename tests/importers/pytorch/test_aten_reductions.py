"""Reductions and order, against PyTorch in float64."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autotune.importers import from_pytorch  # noqa: E402
from tests.importers.pytorch.families import Family, check, check_each, t, whole  # noqa: E402

REDUCTIONS = {
    "sum": lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True)),
    "mean": lambda x: (x.mean(), x.mean(-1)),
    "prod": lambda x: x.prod(1),
    "extremes": lambda x: (x.amax(1), x.amin((0, 1)), x.max(), x.min()),
    "extremes with places": lambda x: (*x.max(1), *x.min(2, keepdim=True)),
    "variance": lambda x: (x.var(1), x.var(unbiased=False), x.std(-1, keepdim=True)),
    "truth": lambda x: ((x > 1).any(1), (x > -9).all(), (x > 0).any()),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(2),
    "extremes so far": lambda x: (*x.cummax(1), *x.cummin(-1)),
    "extremes of equal and whole ones": lambda x: (*x.round().cummax(0), *x.long().cummin(2)),
    "logsumexp": lambda x: x.logsumexp((1, 2)),
    "sum of truth values": lambda x: (x > 0).sum(1),
}


REDUCTIONS = Family({name: (function, t(3, 4, 5)) for name, function in REDUCTIONS.items()})


@pytest.mark.parametrize("name", REDUCTIONS.cases)
def test_reductions_are_those_of_torch(name):
    REDUCTIONS.check(name)


def test_logarithms_of_sums_are_those_of_torch_where_powers_are_infinite_or_0():
    inf = float("inf")
    rows = torch.tensor(
        [[-inf, -inf, -inf], [-inf, 1.0, 800.0], [2.0, inf, 3.0], [-inf, 5.0, inf]]
    )
    with np.errstate(all="ignore"):
        check_each(
            (lambda x: (x.logsumexp(1), x.logsumexp(0, keepdim=True)), rows),
            (lambda x: x.logcumsumexp(1), rows),
            (lambda x: (x.logcumsumexp(0), (x * 90).logcumsumexp(2)), t(3, 4, 5)),
            (lambda x: (*x.max(0), *x.min(0), x.logcumsumexp(0)), t()),
            rtol=1e-6,
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_steps_between_are_not_rounded_to_16_bits(dtype):
    class Steps(torch.nn.Module):
        def forward(self, x):
            squares = torch.linalg.vector_norm(x * 5, dim=1)
            return squares, *torch.var_mean(x, 1), x.std(0), x.logsumexp(1), torch.exp2(x - 95.25)

    x = (t(3, 40) * 0.5 + 100).to(dtype)
    graph = from_pytorch(Steps().eval(), (x,)).graph
    bits = x.view(torch.int16).numpy().view("bfloat16" if dtype is torch.bfloat16 else "float16")
    wanted = Steps()(x)
    for got, want in zip(graph.run(bits, dtype=None), wanted, strict=True):
        assert str(got.dtype) == str(dtype).removeprefix("torch.")
        away = (torch.from_numpy(got.astype("float64")) - want.double()).abs()
        assert (away <= torch.finfo(dtype).eps * want.double().abs()).all()


def with_nan():
    """Return rows of which one has something that is no number."""
    x = t(3, 5)
    x[1, 2] = float("nan")
    return x


ORDERS = Family({
    "sort": (lambda x: torch.sort(x, 1), t(5, 4, 3)),
    "sort descending": (lambda x: torch.sort(x, 0, descending=True), t(5, 4, 3)),
    "topk": (lambda x: torch.topk(x, 2, 0, largest=False), t(5, 4, 3)),
    "argsort": (lambda x: torch.argsort(x, stable=True), t(5, 4, 3)),
    "kthvalue": (lambda x: (*x.kthvalue(3, 0, True), *x.kthvalue(2)), t(5, 4, 3)),
    "median": (lambda x: (*x.median(1), *x.median(0, True), x.median()), t(5, 4, 3)),
    "median of whole numbers": (lambda x: x.median(1)[0], whole(9, 3, 4)),
    "median of what is no number": (lambda x: (*x.median(1), x.median()), with_nan()),
    "median of the numbers": (
        lambda x: (*x.nanmedian(1), *x.T.nanmedian(-2, True), x.nanmedian(), x[0, 0].nanmedian()),
        with_nan(),
    ),
    "median of the numbers of whole ones": (lambda x: (*x.nanmedian(1),), whole(9, 3, 4)),
    "mode": (lambda x: (*x.mode(), *x.T.mode(0, True), *x[0, 0].mode()), whole(3, 5, 9)),
    "mode of floats": (lambda x: (*x.mode(0), *x[:1].mode(0)), t(3, 5).round()),
})  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ORDERS.cases)
def test_elements_in_order(name):
    ORDERS.check(name)


def test_of_equal_elements_the_first_is_before_the_others():
    check(lambda x: torch.sort(x, dim=0, stable=True), whole(3, 9, 4))


@pytest.mark.parametrize("greatest", [False, True])
def test_what_is_no_number_is_greater_than_all_numbers(greatest):
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[3.0, nan, 1.0, 1.0, nan], [inf, -inf, 0.0, nan, 5.0], [nan] * 5])
    check_each(
        (lambda x: torch.sort(x, dim=1, stable=True, descending=greatest), x),
        (lambda x: torch.topk(x, 2, 1, largest=greatest)[0], x),
    )


def test_once_an_element_is_no_number_neither_are_extremes_so_far():
    x = with_nan()
    x[0], x[2, 0] = 1.0, -float("inf")
    check(lambda x: (*x.cummax(1), *x.cummin(1)), x)
