"""Of rows that are the same kernel a search for a GPU knows one."""

import re

import numpy as np
import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.analytical.same_code import (
    plain_sums,
    with_fewest_loops,
    with_lowest_limit,
    with_lowest_plain_limits,
)
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.annotate_gpu import UNROLL_LIMITS
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.states.loop_state import plain_state
from tests.auto_scheduler.graphs import conv2d_layer, matmul
from tests.auto_scheduler.running import kernel_of

PARAMS = SketchPolicy.DEFAULT_PARAMS


def programs(tensors):
    task = SearchTask(compute_dag=ComputeDAG(tensors), target="cuda -arch=sm_90")
    return task, programs_of(task, sketches_of(task, PARAMS), PARAMS)


def source(task, model, row):
    """Return the text of a row's kernel, with its loops named in the order in which they stand."""
    state = plain_state(task.compute_dag.init_state.dag)
    state = state.after(model.program.candidate(row).transform_steps)
    text = kernel_of(task.compute_dag, state, "cuda", "k").source
    for number, name in enumerate(dict.fromkeys(re.findall(r"for \(int (\w+) =", text))):
        text = re.sub(rf"\b{name}\b", f"loop{number}", text)
    return text


def row_of(model, **lengths):
    """Return a row of ones and first choices, with some lengths of a product's axes."""
    (tiled,) = model.tiled
    row = [1 if slot.width > 1 else slot.values[0] for slot in model.program.slots
           for _ in range(slot.width)]  # fmt: skip
    for name, each in zip("ijk", (*tiled.data, *tiled.reductions), strict=True):
        given = lengths[name]
        row[each.columns.start : each.columns.start + len(given)] = given
    row[tiled.unroll] = lengths["limit"]
    return np.array(row)


def test_loops_with_nothing_between_them_stand_as_one():
    task, (model, *_) = programs(matmul(32, 32, 64))
    rows = np.array(
        [
            row_of(model, i=(1, 8, 2, 1), j=(1, 8, 4, 1), k=(1, 4), limit=0),
            row_of(model, i=(1, 8, 1, 2), j=(1, 8, 1, 4), k=(4, 1), limit=0),
            row_of(model, i=(1, 8, 2, 1), j=(1, 8, 4, 1), k=(4, 1), limit=0),
        ]
    )
    one = row_of(model, i=(1, 8, 1, 2), j=(1, 8, 1, 4), k=(1, 4), limit=0)
    found = with_fewest_loops(model.tiled[0], rows, 64)
    assert found.tolist() == [rows[0].tolist(), one.tolist(), one.tolist()]
    assert source(task, model, rows[2]) == source(task, model, one)
    assert source(task, model, rows[0]) != source(task, model, one)


def test_two_loops_over_one_sum_that_are_written_out_stand_as_one():
    task, (model, *_) = programs(matmul(32, 32, 64))
    sizes = {"i": (1, 8, 1, 2), "j": (1, 8, 1, 1)}
    written = np.array([row_of(model, **sizes, k=k, limit=64) for k in ((4, 2), (1, 8))])
    found = with_fewest_loops(model.tiled[0], written, 64)
    assert found.tolist() == [written[1].tolist()] * 2
    assert source(task, model, written[0]) == source(task, model, written[1])
    loops = row_of(model, **sizes, k=(4, 2), limit=0)[None]
    assert with_fewest_loops(model.tiled[0], loops, 64).tolist() == loops.tolist()


def test_loops_longer_than_the_longest_inner_one_stay_apart():
    _, (model, *_) = programs(matmul(32, 32, 64))
    row = row_of(model, i=(1, 8, 1, 2), j=(1, 8, 1, 1), k=(32, 1), limit=0)[None]
    assert with_fewest_loops(model.tiled[0], row, 16).tolist() == row.tolist()


def test_a_limit_that_writes_out_no_more_than_a_lower_one_becomes_that():
    task, (model, *_) = programs(matmul(64, 64, 64))
    sizes = {"i": (1, 8, 1, 8), "j": (1, 8, 1, 4), "k": (1, 4)}
    rows = np.array([row_of(model, **sizes, limit=n) for n in UNROLL_LIMITS])
    found = with_lowest_limit(model.tiled[0], rows, UNROLL_LIMITS)
    kept = found[:, model.tiled[0].unroll].tolist()
    assert kept[-2:] == [512, 512]  # 8 x 4 sums of four steps are 128 statements
    assert source(task, model, rows[-1]) == source(task, model, rows[-2])
    texts = {limit: source(task, model, row) for limit, row in zip(kept, found, strict=True)}
    assert texts[512] != texts[kept[0]]


def test_short_sums_that_are_not_tiled_have_one_limit():
    x = te.placeholder((1, 4, 8, 8), "float32", "x")
    pooled = topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")
    task, (model,) = programs([x, pooled])
    (pooling,) = plain_sums(model.program, model.tiled)
    assert (pooling.terms, pooling.threads, pooling.loops) == (9, (), 2)
    rows = np.array([[32, limit] for limit in UNROLL_LIMITS])
    found = with_lowest_plain_limits([pooling], rows, UNROLL_LIMITS)
    assert found[:, pooling.limit].tolist() == [0, 16, 64, 64, 64]
    assert source(task, model, rows[2]) == source(task, model, rows[-1])


def test_the_sum_of_what_blocks_summed_is_left_to_the_compiler():
    _, found = programs(matmul(16, 16, 2048))
    split = [each for each in found if each.tiled and plain_sums(each.program, each.tiled)]
    assert split
    for model in split:
        (parts,) = plain_sums(model.program, model.tiled)
        rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(64)
        assert (parts.threads, parts.loops) == ((), 1)
        assert set(rows[:, parts.limit].tolist()) == {0}


def test_a_limit_for_terms_that_threads_share_is_that_of_the_terms_of_one():
    x = te.placeholder((64, 4096), "float32", "x")
    task, found = programs([x, topi.nn.softmax(x)])
    model = found[0]
    sums = plain_sums(model.program, model.tiled)
    assert [(each.terms, each.threads, each.loops) for each in sums] == [(4096, (0,), 1)] * 2
    rows = np.array([[n, limit, 0] for n in (512, 32) for limit in UNROLL_LIMITS])
    kept = with_lowest_plain_limits(sums, rows, UNROLL_LIMITS)[:, 1].tolist()
    assert kept == [0] * 5 + [0, 0, 0, 512, 512]  # 8 terms of a thread, and 128
    assert source(task, model, rows[-1]) == source(task, model, rows[-2])


@pytest.mark.parametrize(
    "tensors",
    [matmul(32, 48, 64), conv2d_layer(1, 14, 14, 16, 8, 3, 3, (1, 1), (1, 1))],
)
def test_rows_that_stand_for_others_stay_as_they_are(tensors):
    _, found = programs(tensors)
    for model in found:
        rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(256)
        assert (model.repair(rows) == rows).all()
