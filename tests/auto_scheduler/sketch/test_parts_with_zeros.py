"""Attention of rows and columns that tiles do not divide is computed in parts, with zeros."""

import random
import re

import ml_dtypes
import numpy as np
import pytest

from autotune import driver, te, topi
from autotune.auto_scheduler.search.analytical.online_warpgroups import OnlineWarpgroupCostModel
from tests.auto_scheduler.search.test_several_products import wide
from tests.auto_scheduler.sketch.test_in_block import drawn
from tests.auto_scheduler.sketch.test_in_parts import in_parts
from tests.fuzz.running import Job, run_batch

TYPES = {"float16": (np.float16, 2e-3), "bfloat16": (ml_dtypes.bfloat16, 1.2e-2)}
MASKS = {
    "none": None,
    "causal": lambda i, j, later: (j <= i,),
    "window": lambda i, j, later: (j <= i, j > i - 40),
    "last query sees all": lambda i, j, later: (j <= i + later,),
}


def attention_of(heads, shared, queries, keys, depth, columns, dtype, mask, biased):
    """Attention whose heads of keys are each read by some heads of queries."""
    q = te.placeholder((heads, queries, depth), dtype, "q")
    k = te.placeholder((heads // shared, keys, depth), dtype, "k")
    v = te.placeholder((heads // shared, keys, columns), dtype, "v")
    bias = te.placeholder((queries, keys), name="bias")
    d, t = te.reduce_axis((0, depth), "d"), te.reduce_axis((0, keys), "t")

    def score(h, i, j):
        return te.sum(wide(q[h, i, d]) * wide(k[h // shared, j, d]), axis=d)

    scores = te.compute((heads, queries, keys), score, "scores")

    def seen(h, i, j):
        value = scores[h, i, j] * depth**-0.5
        value = value + bias[i, j] if biased else value
        if MASKS[mask] is None:
            return value
        inside = te.all(*MASKS[mask](i, j, keys - queries))
        return te.if_then_else(inside, value, te.const(-np.inf, "float32"))

    share = topi.cast(topi.nn.softmax(te.compute(scores.shape, seen, "seen")), dtype)

    def weighted(h, i, c):
        return te.sum(wide(share[h, i, t]) * wide(v[h // shared, t, c]), axis=t)

    result = topi.cast(te.compute((heads, queries, columns), weighted, "sums"), dtype)
    return [q, k, v, *([bias] if biased else []), result]


def expected(arrays, shared, mask):
    """The same in float64."""
    q, k, v, *bias = [each.astype("float64") for each in arrays]
    k, v = np.repeat(k, shared, 0), np.repeat(v, shared, 0)
    scores = q @ k.transpose(0, 2, 1) * q.shape[2] ** -0.5 + (bias[0] if bias else 0.0)
    if MASKS[mask] is not None:
        i, j = np.indices(scores.shape[1:])
        inside = np.logical_and.reduce(MASKS[mask](i, j, k.shape[1] - q.shape[1]))
        scores = np.where(inside, scores, -np.inf)
    with np.errstate(invalid="ignore"):  # of a row that is masked everywhere
        powers = np.exp(scores - scores.max(2, keepdims=True))
        return powers / powers.sum(2, keepdims=True) @ v


def assert_right(case, seed, folder, arch="sm_90"):
    """Run a drawn kernel of attention on the emulator, beside numpy."""
    tensors = attention_of(*case)
    rng = np.random.default_rng(seed)
    arrays = [
        rng.standard_normal([int(n) for n in each.shape]).astype(
            TYPES.get(each.dtype, (np.float32,))[0]
        )
        for each in tensors[:-1]
    ]
    want = expected(arrays, case[1], case[7])
    task, models = in_parts(tensors, arch=arch)
    model = models[seed % len(models)]
    rows = drawn(model, 40)
    state = model.program.candidate(rows[seed % len(rows)])
    kernel = driver.kernel_of(task.realise(state).what, task.target, "kernel")
    (got,) = run_batch([Job(kernel, arrays, seed)], folder)
    assert not isinstance(got, str), (case, rows[seed % len(rows)].tolist(), got)
    found = got[0].astype("float64")
    assert (np.isnan(found) == np.isnan(want)).all(), case
    largest = np.nanmax(np.abs(want), initial=1e-3)
    assert np.nanmax(np.abs(found - want), initial=0) < TYPES[case[6]][1] * largest, case


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "case",
    [
        (1, 1, 77, 77, 64, 64, "float16", "causal", False),
        (1, 1, 50, 130, 64, 64, "bfloat16", "none", True),
        (4, 2, 33, 100, 96, 96, "float16", "last query sees all", False),
        (1, 1, 100, 77, 80, 40, "float16", "window", False),
    ],
    ids=["rows of CLIP", "other keys than queries", "shared keys", "columns"],
)
def test_attention_of_cut_tiles_is_right(case, tmp_path):
    assert_right(case, 0, tmp_path)


@pytest.mark.parametrize("rows", [50, 197])
def test_warps_have_whole_tiles_of_rows_with_zeros_alone(rows, tmp_path):
    """Of 50 rows there are 7 runs of 8 and of 197 there are 25, which no even number divides."""
    case = (1, 1, rows, 50, 32, 32, "float16", "causal", False)
    assert_right(case, 0, tmp_path, "sm_80")


def drawn_case(seed):
    """Sizes that tiles divide or not, types and masks."""
    draw = random.Random(seed)
    shared = draw.choice([1, 1, 2])
    queries = draw.choice([33, 50, 64, 77, 130, 197])
    keys = draw.choice([queries, queries, 64, 77, 150, 257])
    depth = draw.choice([32, 40, 64, 64, 80, 96, 128])
    sizes = (shared * draw.choice([1, 2]), shared, queries, keys, depth, draw.choice([depth, 64]))
    return (*sizes, draw.choice(list(TYPES)), draw.choice(list(MASKS)), draw.random() < 0.25)


@pytest.mark.many_cases
@pytest.mark.parametrize("seed", range(12))
def test_drawn_attention_is_right(seed, tmp_path):
    assert_right(drawn_case(seed), seed, tmp_path)


def test_rows_of_several_axes_are_of_the_last_one():
    """Queries of a group are an axis of their own, keys those of [batch, place, head, depth]."""
    q = te.placeholder((1, 77, 2, 3, 64), "float16", "q")
    k, v = (te.placeholder((1, 100, 2, 64), "float16", name) for name in "kv")
    d, t = te.reduce_axis((0, 64), "d"), te.reduce_axis((0, 100), "t")
    scores = te.compute(
        (1, 2, 3, 77, 100),
        lambda b, h, g, i, j: te.sum(wide(q[b, i, h, g, d]) * wide(k[b, j, h, d]), axis=d),
        "scores",
    )
    share = topi.cast(topi.nn.softmax(scores), "float16")
    sums = te.compute(
        (1, 2, 3, 77, 64),
        lambda b, h, g, i, c: te.sum(wide(share[b, h, g, i, t]) * wide(v[b, t, h, c]), axis=t),
        "sums",
    )
    task, models = in_parts([q, k, v, topi.cast(sums, "float16")], OnlineWarpgroupCostModel)
    assert [(each.extents[0], each.batch) for each in models] == [(128, 6)] * 2
    rows = drawn(models[0], 1)
    kernel = driver.kernel_of(
        task.realise(models[0].program.candidate(rows[0])).what, task.target, "kernel"
    )
    assert kernel.calls[0].launch.grid[0] == models[0].shape(rows).blocks[0]


def test_zeros_are_copied_where_a_tile_is_cut_and_stores_stay_wide():
    case = (2, 1, 197, 197, 64, 64, "float16", "none", False)
    task, (model, _) = in_parts(attention_of(*case), OnlineWarpgroupCostModel)
    rows = drawn(model, 200)
    shape = model.shape(rows)
    row = rows[(shape.tile_rows == 64) & (shape.buffers == 2)][0]
    text = driver.kernel_of(task.realise(model.program.candidate(row)).what, task.target, "kernel")
    before, _, of_parts = text.source.partition("for (int part")
    # Queries of the last rows, and keys and values of the last part; all else is copied as it is.
    assert "copy_or_zero(q_whole_shared" in before
    assert "copy_or_zero(k" not in before
    assert "__pipeline_memcpy_async(k_whole_shared" in of_parts.partition("} else {")[0]
    # Scores of the last part alone are asked whether they are of a key.
    plain, _, cut = (
        of_parts.partition("} else {")[2].partition("if (part < 2) {")[2].partition("} else {")
    )
    assert " ? " not in plain
    assert " ? scores" in cut
    # All threads of a warp exchange results; those of rows store.
    stores = re.findall(r"\n *(.*)\(?sums \+?.* =|\*\((\w+)\*\)\(T_cast", of_parts)
    assert {kind for _, kind in stores} == {"uint4"}
    assert re.search(r"exchange_pairs_f16\(T_cast_lanes\[0\], tx\);\n +if \(", of_parts)
