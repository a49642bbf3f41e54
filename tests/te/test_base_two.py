"""What is raised to a power of e is scaled ahead where it cannot become too large by that."""

import numpy as np
import pytest

from autotune import te, topi
from autotune.codegen import kernel_of_schedule
from autotune.target import Target
from autotune.te.base_two import factor_of, in_base_two
from autotune.te.weighted_rows import weighted_rows
from tests.fuzz.running import Job, run_batch

ROWS, LENGTH, DEPTH, COLUMNS = 6, 12, 4, 8
LOWEST = float(np.finfo("float32").min)


def number(value):
    return te.const(value, "float32")


def graph(value, dtype="float16"):
    """Attention of a value of the scores."""
    q, k = te.placeholder((ROWS, DEPTH), dtype, "q"), te.placeholder((LENGTH, DEPTH), dtype, "k")
    v, b = te.placeholder((LENGTH, COLUMNS), dtype, "v"), te.placeholder((LENGTH,), name="b")
    d, t = te.reduce_axis((0, DEPTH), "d"), te.reduce_axis((0, LENGTH), "t")

    def wide(x):
        return x.astype("float32")

    square = (ROWS, LENGTH)
    s = te.compute(square, lambda i, j: te.sum(wide(q[i, d]) * wide(k[j, d]), axis=d), "s")
    x = te.compute(square, lambda i, j: value(s[i, j], i, j, b), "x")
    share = topi.cast(topi.nn.softmax(x), dtype)
    shape = (ROWS, COLUMNS)
    c = te.compute(shape, lambda i, c: te.sum(wide(share[i, t]) * wide(v[t, c]), axis=t), "C")
    return [q, k, v, b], c


def scaled(value, dtype="float16"):
    inputs, c = graph(value, dtype)
    rows = weighted_rows([*inputs, c], c.op)
    assert rows is not None
    found = in_base_two(rows.value)
    return None if found is None else str(found).replace("s[ax0, ax1]", "s")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lambda s, i, j, b: s, "s * 1.4426950408889634f"),
        (lambda s, i, j, b: s * 0.5, "s * 0.7213475204444817f"),
        (lambda s, i, j, b: s * 0.5 + 1.0, "s * 0.7213475204444817f + 1.4426950408889634f"),
        (
            lambda s, i, j, b: te.if_then_else(j < 3, s * 0.5, number(-np.inf)),
            "if_then_else(ax1 < 3, s * 0.7213475204444817f, -inff)",
        ),
        (
            lambda s, i, j, b: te.select(j < 3, s * 0.5, number(LOWEST)),
            "select(ax1 < 3, s * 0.7213475204444817f, -3.4028234663852886e+38f)",
        ),
        (lambda s, i, j, b: s * 0.5 + b[j], None),
        (lambda s, i, j, b: te.exp(s), None),
        (
            lambda s, i, j, b: te.select(
                j < 3, te.select(i < 2, s, number(LOWEST)), number(LOWEST * 0.9)
            ),
            None,
        ),
        (
            lambda s, i, j, b: (
                te.select(j < 3, s, number(LOWEST / 2)) + te.select(i < 2, 0.0, number(LOWEST / 2))
            ),
            None,
        ),
    ],
    ids=[
        "plain", "factor", "sum", "masked", "lowest", "bias", "power", "two low numbers",
        "sum of two low numbers",
    ],
)  # fmt: skip
def test_a_factor_is_put_into_what_is_constant_already(value, text):
    assert scaled(value) == text


def test_scores_of_floats_might_become_too_large():
    assert scaled(lambda s, i, j, b: s, "float32") is None


@pytest.mark.parametrize("fill", [-np.inf, LOWEST])
@pytest.mark.parametrize("most", [1.0, 300.0])
def test_powers_of_two_give_what_powers_of_e_do(fill, most, tmp_path):
    """The first rows are masked everywhere."""
    inputs, c = graph(lambda s, i, j, b: te.select(j < i - 2, s * 0.5, number(fill)))
    tensors = te.online([*inputs, c], c, 4)
    rng = np.random.default_rng(0)
    q, k, v, _ = arrays = [
        rng.uniform(-most, most, [int(n) for n in each.shape]).astype(each.dtype)
        for each in inputs
    ]
    kernel = kernel_of_schedule(
        te.create_schedule(tensors[-1].op), tensors, Target("c"), f"two_{most:.0f}"
    )
    (got,) = run_batch([Job(kernel, arrays, 0)], tmp_path)
    assert not isinstance(got, str), got
    i, j = np.indices((ROWS, LENGTH))
    x = np.where(j < i - 2, q.astype("float64") @ k.astype("float64").T * 0.5, fill)
    with np.errstate(invalid="ignore"):
        powers = np.exp(x - x.max(1, keepdims=True))
        want = powers / powers.sum(1, keepdims=True) @ v.astype("float64")
    np.testing.assert_allclose(got[0], want, rtol=2e-2, atol=most * 2e-3)


@pytest.mark.parametrize(
    ("value", "factor", "rest"),
    [
        (lambda s, i, j, b: s * 0.5, 0.5, "s"),
        (
            lambda s, i, j, b: te.if_then_else(j < 3, s * 0.5, number(-np.inf)),
            0.5,
            "if_then_else(ax1 < 3, s, -inff)",
        ),
        (
            lambda s, i, j, b: te.select(j < 3, number(-np.inf), s * 0.5),
            0.5,
            "select(ax1 < 3, -inff, s)",
        ),
        (lambda s, i, j, b: s * -0.5, 1.0, "s * -0.5f"),
        (lambda s, i, j, b: s * 0.5 + b[j], 1.0, "s * 0.5f + b[ax1]"),
        (
            lambda s, i, j, b: te.select(j < 3, s * 0.5, number(LOWEST)),
            1.0,
            "select(ax1 < 3, s * 0.5f, -3.4028234663852886e+38f)",
        ),
    ],
    ids=["scale", "mask", "mask before", "negative", "bias", "least float"],
)
def test_a_positive_factor_is_that_of_a_maximum(value, factor, rest):
    inputs, c = graph(value)
    found, left = factor_of(weighted_rows([*inputs, c], c.op).value)
    assert (found, str(left).replace("s[ax0, ax1]", "s")) == (factor, rest)
