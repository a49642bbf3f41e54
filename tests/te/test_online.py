"""Products of a softmax in parts of rows give what whole rows do; other products have no parts."""

import numpy as np
import pytest

from autotune import te, topi
from autotune.codegen import kernel_of_schedule
from autotune.errors import ScheduleError
from autotune.target import Target
from tests.fuzz.running import Job, run_batch

ROWS, LENGTH, DEPTH, COLUMNS = 6, 12, 3, 8


def scores_of(q, k):
    d = te.reduce_axis((0, DEPTH), "d")
    length = k.shape[0]
    return te.compute((ROWS, length), lambda i, j: te.sum(q[i, d] * k[j, d], axis=d), "scores")


def plain(scores, i, j):
    return scores[i, j]


def scaled(scores, i, j):
    return scores[i, j] * 0.5 + 1


def causal(scores, i, j):
    return te.if_then_else(j <= i, scores[i, j], te.const(-np.inf, "float32"))


def lowest(scores, i, j):
    return te.if_then_else(j >= i + 5, scores[i, j], te.min_value("float32"))


def window(scores, i, j):
    seen = te.all(j <= i + 5, j > i + 1)
    return te.if_then_else(seen, scores[i, j], te.const(-np.inf, "float32"))


def beside(scores, i, j):
    seen = te.any(j < 2, te.all(j >= i - 3, j <= i + 3))
    return te.select(seen, scores[i, j], te.const(-np.inf, "float32"))


def of_one_part(scores, i, j):
    seen = te.all(j >= 4, j < 8)
    return te.if_then_else(seen, scores[i, j], te.const(-np.inf, "float32"))


VALUES = {
    plain: lambda x, i, j: x,
    scaled: lambda x, i, j: x * 0.5 + 1,
    causal: lambda x, i, j: np.where(j <= i, x, -np.inf),
    window: lambda x, i, j: np.where((j <= i + 5) & (j > i + 1), x, -np.inf),
    beside: lambda x, i, j: np.where((j < 2) | (abs(i - j) <= 3), x, -np.inf),
    of_one_part: lambda x, i, j: np.where((j >= 4) & (j < 8), x, -np.inf),
    lowest: lambda x, i, j: np.where(j >= i + 5, x, np.finfo("float32").min),
}


def weighted(value=plain, columns=COLUMNS, softmax=topi.nn.softmax, turned=False):
    """Inputs, the scores, their softmax, and the product that it weights."""
    q = te.placeholder((ROWS, DEPTH), name="q")
    k = te.placeholder((LENGTH, DEPTH), name="k")
    v = te.placeholder((LENGTH, columns), name="v")
    scores = scores_of(q, k)
    changed = te.compute((ROWS, LENGTH), lambda i, j: value(scores, i, j), "changed")
    share = softmax(changed)
    t = te.reduce_axis((0, LENGTH), "t")

    def product(i, c):
        return te.sum(share[i, t].astype("float32") * v[t, c], axis=t)

    if turned:
        shape, at = (columns, ROWS), lambda c, i: product(i, c)
    else:
        shape, at = (ROWS, columns), product
    return [q, k, v], scores, share, te.compute(shape, at, "C")


def run(tensors, inputs, folder):
    kernel = kernel_of_schedule(te.create_schedule(tensors[-1].op), tensors, Target("c"), "online")
    (got,) = run_batch([Job(kernel, inputs, 0)], folder)
    assert not isinstance(got, str), got
    return got[0]


@pytest.mark.many_cases
@pytest.mark.parametrize("turned", [False, True], ids=["rows first", "columns first"])
@pytest.mark.parametrize("columns", [COLUMNS, 3])
@pytest.mark.parametrize("value", VALUES, ids=[each.__name__ for each in VALUES])
def test_parts_of_rows_give_what_whole_rows_do(value, columns, turned, tmp_path):
    inputs, _, _, c = weighted(value, columns, turned=turned)
    rng = np.random.default_rng(0)
    q, k, v = arrays = [
        rng.uniform(-20, 20, [int(n) for n in each.shape]).astype("float32") for each in inputs
    ]
    i, j = np.indices((ROWS, LENGTH))
    x = VALUES[value](q @ k.T, i, j)
    powers = np.exp(x - x.max(1, keepdims=True))
    want = powers / powers.sum(1, keepdims=True) @ v
    got = run(te.online([*inputs, c], c, 4), arrays, tmp_path)
    np.testing.assert_allclose(got, want.T if turned else want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("apart", [2, 4, 8])
def test_columns_that_are_joined_together_may_be_apart(apart, tmp_path):
    inputs, _, _, c = weighted(causal)
    rng = np.random.default_rng(0)
    q, k, v = arrays = [
        rng.uniform(-2, 2, [int(n) for n in each.shape]).astype("float32") for each in inputs
    ]
    i, j = np.indices((ROWS, LENGTH))
    powers = np.exp(VALUES[causal](q @ k.T, i, j))
    want = powers / powers.sum(1, keepdims=True) @ v
    found = te.online([*inputs, c], c, 4, apart)
    assert f"C.joined.v{COLUMNS // apart + 1}(i0, i1)" in te.dag_text([found[-1].op])
    np.testing.assert_allclose(run(found, arrays, tmp_path), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("apart", "turned"), [(3, False), (0, False), (2, True)])
def test_columns_apart_divide_the_last_dimension(apart, turned):
    inputs, _, _, c = weighted(turned=turned)
    with pytest.raises(ScheduleError, match=rf"columns {apart} apart are to be joined"):
        te.online([*inputs, c], c, 4, apart)


def test_rows_that_are_masked_everywhere_stay_nan(tmp_path):
    inputs, _, _, c = weighted(lambda scores, i, j: te.if_then_else(
        i > 0, scores[i, j], te.const(-np.inf, "float32")
    ))  # fmt: skip
    arrays = [np.ones([int(n) for n in each.shape], "float32") for each in inputs]
    got = run(te.online([*inputs, c], c, 4), arrays, tmp_path)
    assert np.isnan(got[0]).all()
    assert np.isfinite(got[1:]).all()


@pytest.mark.parametrize("fill", [-np.inf, np.finfo("float32").min])
def test_rows_that_a_mask_by_place_hides_are_as_they_were(fill, tmp_path):
    """The first rows see nothing: that is NaN, or the mean of all values of a low number."""
    inputs, _, _, c = weighted(
        lambda scores, i, j: te.if_then_else(j < i - 2, scores[i, j], te.const(fill, "float32"))
    )
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, [int(n) for n in x.shape]).astype("float32") for x in inputs]
    got = run(te.online([*inputs, c], c, 4), arrays, tmp_path)
    want = (
        np.full((3, COLUMNS), np.nan) if fill == -np.inf else arrays[2].mean(0)[None].repeat(3, 0)
    )
    np.testing.assert_allclose(got[:3], want, rtol=1e-5)
    np.testing.assert_allclose(got[3], arrays[2][0], rtol=1e-5)


def where_of(value):
    """Where the parts of a graph are needed."""
    inputs, _, _, c = weighted(value, columns=3)
    text = te.dag_text([te.online([*inputs, c], c, 4)[-1].op])
    found = {
        line.split(", where=")[1].split(")[")[0] for line in text.splitlines() if "where" in line
    }
    return found.pop() if found else None


def test_parts_that_a_mask_hides_from_a_row_are_not_needed():
    assert where_of(causal) == "needed(part * 4 < i0 + 1)"
    assert where_of(window) == "needed(part * 4 < i0 + 6 && i0 < part * 4 + 2)"
    for other in (
        plain,
        scaled,
        lowest,
        lambda s, i, j: te.if_then_else(s[i, j] > 0, s[i, j], 0.0),
    ):
        assert where_of(other) is None


def test_a_graph_in_parts_reads_as_the_formulas_do():
    inputs, _, _, c = weighted(scaled, columns=3)
    found = te.online([*inputs, c], c, 4)
    text = te.dag_text([found[-1].op])
    assert [line.partition("  #")[0] for line in text.splitlines()] == GOLDEN


GOLDEN = [
    "q = PLACEHOLDER float32[6, 3]",
    "k = PLACEHOLDER float32[12, 3]",
    "scores.part(part, i1, i2) = sum(q[i1, d] * k[part * 4 + i2, d], axis=[d])",
    "C.highest(p, i1) = max(scores.part[p, i1, i1_1] * 0.5f + 1.0f, axis=[i1_1])",
    "C.exact(p, i1, i2) = exp2_flushed((scores.part[p, i1, i2] * 0.5f + 1.0f - max("
    "C.highest[p, i1], -3.4028234663852886e+38f)) * 1.4426950408889634f)",
    "C.totals(p, i1) = sum(C.exact[p, i1, i1_1], axis=[i1_1])",
    "v = PLACEHOLDER float32[12, 3]",
    "C.part(part, i1, i2) = sum(C.exact[part, i1, i1_1] * v[part * 4 + i1_1, i2], axis=[i1_1])",
    *(
        f"C.joined.v{n}(i0, i1) = custom(C.highest[part, i0], C.totals[part, i0], "
        f"C.part[part, i0, i1], axis=[part])[{n}]"
        for n in range(3)
    ),
    "C(i0, i1) = C.joined.v2[i0, i1] * (1.0f / C.joined.v1[i0, i1])",
]


def without_maximum(x):
    powers = te.compute(x.shape, lambda i, j: te.exp(x[i, j]), "powers")
    t = te.reduce_axis((0, LENGTH), "t")
    total = te.compute((ROWS,), lambda i: te.sum(powers[i, t], axis=t), "total")
    return te.compute(x.shape, lambda i, j: powers[i, j] / total[i], "share")


def least_subtracted(x):
    t, u = (te.reduce_axis((0, LENGTH), name) for name in "tu")
    least = te.compute((ROWS,), lambda i: te.min(x[i, t], axis=t), "least")
    powers = te.compute(x.shape, lambda i, j: te.exp(x[i, j] - least[i]), "powers")
    total = te.compute((ROWS,), lambda i: te.sum(powers[i, u], axis=u), "total")
    return te.compute(x.shape, lambda i, j: powers[i, j] / total[i], "share")


def of_others(x):
    """A softmax whose sum is of other values than its quotients."""
    t, u = (te.reduce_axis((0, LENGTH), name) for name in "tu")
    most = te.compute((ROWS,), lambda i: te.max(x[i, t], axis=t), "most")
    total = te.compute((ROWS,), lambda i: te.sum(te.exp(x[i, u] * 2 - most[i]), axis=u), "total")
    return te.compute(x.shape, lambda i, j: te.exp(x[i, j] - most[i]) / total[i], "share")


def along_columns(x):
    return topi.nn.softmax(x, 0)


def of_half_rows(x):
    t, u = te.reduce_axis((0, LENGTH // 2), "t"), te.reduce_axis((0, LENGTH), "u")
    most = te.compute((ROWS,), lambda i: te.max(x[i, t], axis=t), "most")
    total = te.compute((ROWS,), lambda i: te.sum(te.exp(x[i, u] - most[i]), axis=u), "total")
    return te.compute(x.shape, lambda i, j: te.exp(x[i, j] - most[i]) / total[i], "share")


def squared(x):
    share = topi.nn.softmax(x)
    return te.compute(x.shape, lambda i, j: share[i, j] * share[i, j], "squared")


OTHERS = [without_maximum, least_subtracted, of_others, along_columns, of_half_rows, squared]


@pytest.mark.parametrize("softmax", OTHERS, ids=[each.__name__ for each in OTHERS])
def test_no_other_weights_are_computed_in_parts(softmax):
    inputs, _, _, c = weighted(softmax=softmax)
    with pytest.raises(ScheduleError, match=r"online\(C\): expected a sum of products"):
        te.online([*inputs, c], c, 4)


def test_a_product_of_half_of_each_row_is_not_computed_in_parts():
    inputs, _, share, _ = weighted()
    t, v = te.reduce_axis((0, LENGTH // 2), "t"), inputs[2]
    c = te.compute((ROWS, COLUMNS), lambda i, c: te.sum(share[i, t] * v[t, c], axis=t), "C")
    with pytest.raises(ScheduleError, match=r"online\(C\): expected a sum of products"):
        te.online([*inputs, c], c, 3)


def test_scores_that_move_along_a_row_are_not_computed_in_parts():
    inputs, _, _, c = weighted(lambda scores, i, j: scores[i, LENGTH - 1 - j])
    with pytest.raises(ScheduleError, match=r"online\(C\): expected a sum of products"):
        te.online([*inputs, c], c, 4)


@pytest.mark.parametrize("kept", ["scores", "share"])
def test_what_is_an_output_too_is_not_computed_in_parts(kept):
    inputs, scores, share, c = weighted()
    more = {"scores": scores, "share": share}[kept]
    with pytest.raises(ScheduleError, match="nothing else reads"):
        te.online([*inputs, more, c], c, 4)


def test_what_another_stage_reads_is_not_computed_in_parts():
    inputs, scores, _, c = weighted()
    other = te.compute((ROWS, COLUMNS), lambda i, j: c[i, j] + scores[i, j], "other")
    with pytest.raises(ScheduleError, match="nothing else reads"):
        te.online([*inputs, other], c, 4)


@pytest.mark.parametrize("length", [0, 5, 24])
def test_parts_divide_rows(length):
    inputs, _, _, c = weighted()
    with pytest.raises(ScheduleError, match=f"rows of 12 are no multiple of parts of {length}"):
        te.online([*inputs, c], c, length)


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_weights_that_are_rounded_to_integers_are_not_computed_in_parts(dtype):
    inputs, _, _, c = weighted(softmax=lambda x: topi.cast(topi.nn.softmax(x), dtype))
    with pytest.raises(ScheduleError, match=r"online\(C\): expected a sum of products"):
        te.online([*inputs, c], c, 4)


def test_products_of_and_by_one_number_are_not_computed_in_parts():
    inputs, _, share, _ = weighted()
    t, v = te.reduce_axis((0, LENGTH), "t"), inputs[2]
    one = te.compute((), lambda: te.const(2.0), "one")
    scaled = te.compute((COLUMNS,), lambda c: te.sum(one() * v[t, c], axis=t), "scaled")
    flat = te.compute((LENGTH,), lambda j: share[0, j], "flat")
    number = te.compute((), lambda: te.sum(flat[t] * v[t, 0], axis=t), "number")
    for product in (scaled, number):
        with pytest.raises(ScheduleError, match="expected a sum of products"):
            te.online([*inputs, product], product, 4)


def test_a_product_of_another_graph_is_not_computed_in_parts():
    inputs, _, _, c = weighted()
    _, _, _, other = weighted()
    with pytest.raises(ScheduleError, match=r"online\(C\): expected a sum of products"):
        te.online([*inputs, c], other, 4)


def test_a_product_that_a_recurrence_reads_is_not_computed_in_parts():
    inputs, _, _, c = weighted()
    state = te.placeholder((ROWS, COLUMNS), name="state")
    first = te.compute((1, COLUMNS), lambda _, j: te.const(0.0), "first")
    update = te.compute((ROWS, COLUMNS), lambda i, j: state[i - 1, j] + c[i, j], "update")
    with pytest.raises(ScheduleError, match=r"online\(C\): expected a sum of products"):
        te.online([*inputs, te.scan(first, update, state)], c, 4)


def test_scores_in_an_index_are_those_of_parts_too():
    table = te.placeholder((8,), name="table")
    inputs, scores, _, c = weighted(
        lambda x, i, j: x[i, j] + table[te.floormod(x[i, j].astype("int32"), 8)]
    )
    found = te.online([*inputs, table, c], c, 4)
    assert scores.op not in te.dag.post_order([found[-1].op])


@pytest.mark.parametrize("length", [4.0, "4", None, True])
def test_the_length_of_parts_is_a_whole_number(length):
    inputs, _, _, c = weighted()
    with pytest.raises(ScheduleError, match="online: length must be a whole number"):
        te.online([*inputs, c], c, length)


def test_the_product_is_a_tensor():
    inputs, _, _, c = weighted()
    with pytest.raises(ScheduleError, match="online: product must be a tensor, got 'C'"):
        te.online([*inputs, c], "C", 4)


@pytest.mark.many_cases
@pytest.mark.parametrize(("columns", "apart", "length", "tile"), [(7, 1, 5, 4), (3, 4, 24, 8)])
@pytest.mark.parametrize("value", VALUES, ids=[each.__name__ for each in VALUES])
def test_zeros_beyond_the_ends_of_tiles_change_nothing(
    value, columns, apart, length, tile, tmp_path
):
    inputs, _, _, c = weighted(value, columns)
    rng = np.random.default_rng(0)
    q, k, v = arrays = [
        rng.uniform(-20, 20, [int(n) for n in each.shape]).astype("float32") for each in inputs
    ]
    i, j = np.indices((ROWS, LENGTH))
    x = VALUES[value](q @ k.T, i, j)
    powers = np.exp(x - x.max(1, keepdims=True))
    want = powers / powers.sum(1, keepdims=True) @ v
    got = run(te.online([*inputs, c], c, length, apart, tile), arrays, tmp_path)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_bias_is_read_at_no_row_beyond_the_last():
    bias = te.placeholder((ROWS, LENGTH), name="bias")
    inputs, _, _, c = weighted(lambda x, i, j: x[i, j] + bias[i, j])
    text = te.dag_text([te.online([*inputs, bias, c], c, 5, 1, 4)[-1].op])
    assert "if_then_else(p * 5 + i2 < 12, " in text
    assert "bias[min(i1, 5), p * 5 + i2]" in text


def test_operands_at_sums_of_indices_have_no_whole_tiles():
    inputs, _, share, _ = weighted()
    t, v = te.reduce_axis((0, LENGTH), "t"), te.placeholder((2 * LENGTH,), name="v")
    c = te.compute((ROWS, COLUMNS), lambda i, c: te.sum(share[i, t] * v[t + c], axis=t), "C")
    te.online([*inputs[:2], v, c], c, 4)
    with pytest.raises(ScheduleError, match="read at single indices of these"):
        te.online([*inputs[:2], v, c], c, 5, 1, 4)
    _, _, _, turned = weighted(turned=True)
    with pytest.raises(ScheduleError, match="rows and columns have to be the last axes"):
        te.online([turned], turned, 5, 1, 4)


def test_rows_and_keys_of_one_tensor_have_zeros_beyond_ends_of_their_own(tmp_path):
    """Queries are the first six rows of the keys, and both end at 15 with zeros."""
    x, v = te.placeholder((LENGTH, 4), name="x"), te.placeholder((LENGTH, COLUMNS), name="v")
    d, t = te.reduce_axis((0, 4), "d"), te.reduce_axis((0, LENGTH), "t")
    scores = te.compute((ROWS, LENGTH), lambda i, j: te.sum(x[i, d] * x[j, d], axis=d), "scores")
    share = topi.nn.softmax(scores)
    c = te.compute((ROWS, COLUMNS), lambda i, c: te.sum(share[i, t] * v[t, c], axis=t), "C")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([int(n) for n in s.shape]).astype("float32") for s in (x, v)]
    got = run(te.online([x, v, c], c, 15, 1, 15), arrays, tmp_path)
    powers = np.exp(arrays[0][:ROWS] @ arrays[0].T)
    want = powers / powers.sum(1, keepdims=True) @ arrays[1]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
