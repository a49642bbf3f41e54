"""Operators that are taken apart by formulas of our own."""

import math

import numpy as np
import pytest

from autotune.importers import from_pytorch

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")
X = torch.tensor([0.0, -0.0, 1e-6, -1e-6, 0.3, -0.9, 1.0, -1.0, 2.5, -7.0, 3e20, -3e20])
Y = torch.tensor([-0.0, 2.0, -3.0, 1.0, -0.0, 0.5, math.nan, -2.0, 4.0, 24.0, -4e20, 1.0])
ODD = torch.tensor([math.nan, math.inf, -math.inf, 0.5])
ROWS = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
MORE = torch.randn(2, 30, 7, generator=torch.Generator().manual_seed(1))
EDGES = torch.tensor([-1.0, 0.0, 0.0, 0.3, 2.5])
OWN = torch.tensor([[0, 3, 3, 8], [1, 2, 5, 5]])
TAIL = torch.tensor([0.1, 0.51, -0.7, 2.0, 5.0, 9.1, 40.0, math.inf, -math.inf, math.nan])
MASK = torch.tensor([[True, False, False], [False, True, True]])
GAMMA = torch.tensor(
    [0.0, -0.0, 1e-6, -1e-6, 0.1, 0.5, 0.9, 1.0, 1.001, 1.4, 1.5, 2.0, 2.001, 2.5, 3.0, 5.3, 7.4,
     7.6, 30.0, 1e5, 3e36, math.inf, -1.0, -2.3, -50.2, -1e8, math.nan]
)  # fmt: skip
FORMULAS = {
    "erfc": (torch.erfc, TAIL),
    "erfc of halves": (torch.erfc, TAIL.bfloat16()),
    "log2 of powers": (torch.log2, 2.0 ** torch.arange(-9, 20)),
    "log10": (torch.log10, 10.0 ** torch.arange(9)),
    "exp2 of halves": (torch.exp2, torch.tensor([100.5, -100.5, 0.3]).bfloat16()),
    "dist": (torch.dist, ROWS, ROWS.flip(0)),
    "narrow_copy": (lambda x: torch.narrow_copy(x, 1, 2, 3), ROWS),
    "max of one": (lambda x: x.max(0)[0], torch.tensor(2.0)),
    "index_select of one": (
        lambda x, i: torch.index_select(x, 0, i), torch.tensor(2.0), torch.tensor([0]),
    ),
    "softplus of a low threshold": (lambda x: torch.nn.functional.softplus(x, 3, 0.2), X[:10]),
    "softplus with a beta of far numbers": (
        lambda x: torch.nn.functional.softplus(x, 3), torch.tensor([3.4e38, 1e38, 1.0, -1e38]),
    ),
    "norm of another power": (lambda x: torch.linalg.vector_norm(x, 3.5, dim=1), ROWS),
    "norm of a negative power": (lambda x: torch.linalg.vector_norm(x, -2, keepdim=True), ROWS),
    "count by a norm": (lambda x: torch.linalg.vector_norm(x, 0), X),
    "least by a norm": (lambda x: torch.linalg.vector_norm(x, -math.inf, dim=(0, 2)), ROWS),
    "norm of one": (torch.linalg.vector_norm, -Y[1]),
    "logsumexp of one": (lambda x: x.logsumexp(0), Y[1]),
    "signbit": (torch.signbit, X),
    "signbit of no number": (torch.signbit, torch.tensor([math.nan, -math.nan, -math.inf])),
    "signbit of halves": (torch.signbit, torch.tensor([math.nan, -math.nan, -0.0, 1.0]).half()),
    "copysign of bfloat16": (
        lambda x: x.copysign(x.flip(0)).signbit(), torch.tensor([math.nan, 2, -0.0]).bfloat16(),
    ),
    "signbit of bytes": (torch.signbit, torch.tensor([3, 200], dtype=torch.uint8)),
    "sign of no number": (lambda x, y: torch.copysign(x, y).signbit(), ODD[:2], -ODD[:2]),
    "lgamma": (torch.lgamma, GAMMA),
    "lgamma below 0": (torch.lgamma, torch.linspace(-6.15, -0.35, 59)),
    "lgamma of halves": (torch.lgamma, GAMMA.half()),
    "lgamma of whole numbers": (torch.lgamma, torch.arange(5)),
    "digamma": (torch.digamma, GAMMA),
    "digamma below 0": (torch.digamma, torch.linspace(-6.1, -0.2, 53)),
    "digamma of halves": (torch.digamma, GAMMA.bfloat16()),
    **{
        f"index_reduce by {how}{'' if own else ' alone'}": (
            lambda x, i, y, how=how, own=own: x.index_reduce(1, i, y, how, include_self=own),
            ROWS, torch.tensor([0, 2, 0]), 2 * ROWS[:, 1:4],
        )
        for how in ("amax", "amin", "prod", "mean") for own in (True, False)
    },
    "index_reduce of one": (
        lambda x, i, y: x.index_reduce(-1, i, y, "amax"), torch.tensor(2.0), torch.tensor(0),
        torch.tensor(3.0),
    ),
    "index_reduce of whole numbers": (
        lambda x, i, y: x.index_reduce(0, i, y, "mean"), torch.arange(6), torch.tensor([1, 1]),
        torch.tensor([8, 4]),
    ),
    "signbit of whole numbers": (torch.signbit, torch.tensor([1, -1, 0])),
    "ldexp": (torch.ldexp, X[:6], torch.tensor([1, -3, 140, 126, 0, -126])),
    "ldexp of whole numbers": (torch.ldexp, torch.arange(4), torch.tensor([3, -1, 0, 2])),
    "ldexp of halves": (torch.ldexp, X[:4].half(), torch.tensor([3, -1, 0, 2])),
    "ldexp far beyond": (
        torch.ldexp, torch.tensor([math.inf, 0.0, -1.0, 1e-30]),
        torch.tensor([-300, 300, 300, 200]),
    ),
    "ldexp of infinite powers": (
        torch.ldexp, torch.tensor([1.0, 1.0, -2.0]),
        torch.tensor([math.inf, -math.inf, math.inf]),
    ),
    "logsumexp of whole numbers": (lambda x: x.logsumexp(0), torch.arange(4)),
    "logcumsumexp of many halves": (
        lambda x: x.logcumsumexp(1), (torch.arange(2000).reshape(2, 1000) % 7).bfloat16(),
    ),
    "variance of too few": (lambda x: x.var(1, correction=9), ROWS),
    "deviation of one": (lambda x: x.std(correction=0), torch.tensor(2.0)),
    "addbmm of whole numbers": (
        lambda x, a: torch.addbmm(x, a, a.mT, beta=2.5, alpha=0.5),
        torch.arange(25).reshape(5, 5), torch.arange(40).reshape(2, 5, 4),
    ),
    "addbmm": (
        lambda x, a: torch.addbmm(x, a, a.mT, beta=0.5, alpha=2), ROWS[0, :, :5].clone(), ROWS,
    ),
    "bilinear": (torch.nn.functional.bilinear, ROWS, ROWS + 1, MORE[:, :7, :7].expand(2, 7, 7)),
    "masked_scatter": (
        torch.masked_scatter, torch.arange(6).reshape(2, 3), MASK, torch.tensor([9, 8, 7, 6]),
    ),
    "log1p": (torch.log1p, X.abs()),
    "expm1": (torch.expm1, X),
    "elu": (torch.nn.functional.elu, X),
    "softplus": (torch.nn.functional.softplus, 10 * X),
    "acosh": (torch.acosh, X.abs() + 1),
    "acosh near one": (torch.acosh, 1 + X[2:6].abs() * 1e-3),
    "asinh": (torch.asinh, X),
    "asinh of no number": (torch.asinh, ODD),
    "asinh of whole numbers": (torch.asinh, torch.arange(4)),
    "asinh of halves": (torch.asinh, X[:10].bfloat16()),
    "atanh": (torch.atanh, X[:8]),
    "copysign": (torch.copysign, X, Y[:6].repeat(2)),
    "copysign of whole numbers": (torch.copysign, torch.arange(4), torch.tensor([1, -1, 0, -7])),
    "copysign of a number": (lambda x: torch.copysign(x, -0.0), X),
    "copysign of a number of whole ones": (lambda x: torch.copysign(x, -2), torch.arange(4)),
    "hypot": (torch.hypot, X, Y),
    "hypot of an infinity and no number": (torch.hypot, ODD, ODD[[2, 0, 0, 0]]),
    "hypot of one of more bits": (torch.hypot, X, torch.tensor(2.0, dtype=torch.float64)),
    "hypot of infinities": (torch.hypot, ODD, ODD.flip(0)),
    "fmax": (torch.fmax, X, Y),
    "fmax of one of more bits": (torch.fmax, X, torch.tensor(2.0, dtype=torch.float64)),
    "fmin": (torch.fmin, ODD[:, None], X),
    "fmin of whole numbers": (torch.fmin, torch.arange(4), torch.tensor([1, -1, 0, -7])),
    "round": (lambda x: torch.round(x, decimals=2), X[:10] / 3),
    "round tens": (lambda x: torch.round(x, decimals=-1), X[:10] * 7),
    "bucketize": (torch.bucketize, X, EDGES),
    "bucketize right": (lambda x, e: torch.bucketize(x, e, right=True), X, EDGES),
    "bucketize no number": (lambda x, e: torch.bucketize(x, e, out_int32=True), ODD, EDGES),
    "bucketize one": (lambda e: torch.bucketize(0.3, e), EDGES),
    "bucketize one of halves": (
        lambda x, e: torch.bucketize(x, e, right=True), torch.tensor(0.3), EDGES.half(),
    ),
    "searchsorted one": (lambda e: torch.searchsorted(e, 0.3, side="right"), EDGES),
    "index_fill from the end": (
        lambda x, i: torch.index_fill(x, 1, i, 7), ROWS, torch.tensor([-1, 2]),
    ),
    "index_fill by a tensor": (
        lambda x, i, n: torch.index_fill(x, 0, i, n), torch.arange(5), torch.tensor(-2),
        torch.tensor(7),
    ),
    "searchsorted rows": (torch.searchsorted, OWN, torch.tensor([[3, 9], [0, 5]])),
    "searchsorted right": (
        lambda e, x: torch.searchsorted(e, x, side="right"), OWN, torch.tensor([[3, 9], [0, 5]]),
    ),
    "cdist": (torch.cdist, ROWS, ROWS),
    "cdist by a product": (torch.cdist, ROWS, MORE),
    "cdist 0": (lambda a, b: torch.cdist(a, b, 0), ROWS, ROWS),
    "cdist 1": (lambda a, b: torch.cdist(a, b, 1), ROWS, MORE),
    "cdist 3": (lambda a, b: torch.cdist(a, b, 3), ROWS, MORE),
    "cdist of the greatest": (lambda a, b: torch.cdist(a, b, math.inf), ROWS, MORE),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_give_torchs_numbers(name):
    function, *inputs = FORMULAS[name]

    class Model(torch.nn.Module):
        def forward(self, *given):
            return function(*given)

    program = torch.export.export(Model(), tuple(inputs))
    arrays = [
        each.view(torch.int16).numpy().view("bfloat16") if each.dtype is torch.bfloat16
        else each.numpy() for each in inputs
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        (got,) = from_pytorch(program).graph.run(*arrays, dtype=None)
    want = function(*inputs)
    assert str(got.dtype) == str(want.dtype).removeprefix("torch.")
    got, want = np.asarray(got, "float64"), want.double().numpy()
    tolerance = 1e-2 if "halves" in name else 2e-6
    least = 1e-6 if name in ("addbmm", "bilinear") or "cdist" in name or "gamma" in name else 0
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=least)
    if "of powers" in name:
        np.testing.assert_array_equal(got, want)
    if "copysign" in name:
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
