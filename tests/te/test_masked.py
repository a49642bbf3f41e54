"""Which weights of a softmax are zero follows from its mask, where the definition is sure."""

import numpy as np
import pytest

from autotune import te, topi
from autotune.te.masked import greatest, unmasked
from autotune.te.weighted_rows import weighted_rows

ROWS, LENGTH, DEPTH = 8, 16, 4
LOWEST = float(np.finfo("float32").min)


def number(value):
    return te.const(value, "float32")


def found(value, dtype="float16"):
    """Where weights of a softmax of a value of scores are other than zero."""
    q, k = te.placeholder((ROWS, DEPTH), dtype, "q"), te.placeholder((LENGTH, DEPTH), dtype, "k")
    v, b = te.placeholder((LENGTH, 8), dtype, "v"), te.placeholder((LENGTH,), "float32", "b")
    d, t = te.reduce_axis((0, DEPTH), "d"), te.reduce_axis((0, LENGTH), "t")

    def wide(x):
        return x.astype("float32")

    square = (ROWS, LENGTH)
    scores = te.compute(square, lambda i, j: te.sum(wide(q[i, d]) * wide(k[j, d]), axis=d), "s")
    x = te.compute(square, lambda i, j: value(scores[i, j], i, j, b), "x")
    share = topi.nn.softmax(x)
    c = te.compute((ROWS, 8), lambda i, c: te.sum(share[i, t] * wide(v[t, c]), axis=t), "C")
    rows = weighted_rows([q, k, v, b, c], c.op)
    assert rows is not None
    condition = unmasked(rows)
    return None if condition is None else str(condition).replace("i0", "i").replace("i1", "j")


def choice(fill, seen=lambda i, j: j <= i):
    return lambda s, i, j, b: te.if_then_else(seen(i, j), s * 0.5, number(fill))


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (choice(-np.inf), "j <= i"),
        (lambda s, i, j, b: te.select(i < j, number(-np.inf), s), "i >= j"),
        (choice(-np.inf, lambda i, j: te.all(j <= i, j > i - 5)), "j <= i && j > i - 5"),
        (choice(-np.inf, lambda i, j: te.any(j <= i, j < 3)), "j <= i || j < 3"),
        (lambda s, i, j, b: choice(-np.inf)(s, i, j, b) * 0.5 + 1.0, "j <= i"),
        (lambda s, i, j, b: s + te.if_then_else(j <= i, number(0), number(-np.inf)), "j <= i"),
        (lambda s, i, j, b: te.if_then_else(j <= i, s + b[j], number(-np.inf)), "j <= i"),
        (choice(LOWEST), "j <= i"),
        (choice(-1e30, lambda i, j: te.all(j <= i, j > i - 5)), "j <= i && j > i - 5"),
    ],
    ids=[
        "causal", "turned", "window", "one of two", "scaled after", "added", "with a bias",
        "lowest number", "window of a low number",
    ],
)  # fmt: skip
def test_weights_are_zero_where_a_mask_hides_a_value(value, where):
    assert found(value) == where


@pytest.mark.parametrize(
    "value",
    [
        lambda s, i, j, b: s,
        choice(LOWEST, lambda i, j: j < i),
        choice(LOWEST, lambda i, j: te.all(j <= i, j > i - 5, i < 7)),
        choice(-1e9),
        choice(0.0),
        choice(np.inf),
        lambda s, i, j, b: te.if_then_else(j <= i, s + b[j], number(LOWEST)),
        lambda s, i, j, b: choice(LOWEST)(s, i, j, b) * 0.5,
        lambda s, i, j, b: te.if_then_else(
            j <= i, choice(LOWEST, lambda i, j: j > i + 4)(s, i, j, b) + 1.0, number(LOWEST)
        ),
        lambda s, i, j, b: choice(-np.inf)(s, i, j, b) * -1.0,
        lambda s, i, j, b: s + b[j] + te.if_then_else(j <= i, number(0), number(-np.inf)),
        lambda s, i, j, b: choice(-np.inf)(s, i, j, b) + b[j],
        lambda s, i, j, b: choice(-np.inf)(s, i, j, b) - b[j],
    ],
    ids=[
        "no mask", "a row is masked everywhere", "rows may be masked everywhere",
        "scores may be lower", "zero", "infinity", "a bias may be lower",
        "low number scaled", "low number as low with one added", "turned round",
        "a bias may be infinite", "an added bias may be infinite",
        "a subtracted bias may be infinite",
    ],
)  # fmt: skip
def test_all_weights_count_where_that_is_not_certain(value):
    assert found(value) is None


def test_a_number_is_low_enough_from_twice_the_largest_score_on():
    most = 0.5 * DEPTH * 65504.0**2
    assert found(choice(-1.9 * most)) is None
    assert found(choice(-2.1 * most)) == "j <= i"


def test_scores_of_floats_may_be_lower_than_a_low_number():
    assert found(choice(LOWEST), "float32") is None
    assert found(choice(-np.inf), "float32") == "j <= i"


def test_integers_without_a_sign_are_bounded_by_their_largest():
    assert greatest(te.var("n", "uint8")) == 255
    assert greatest(te.const(-1).astype("uint8")) == 255
