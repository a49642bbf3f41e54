"""A product of a softmax of a product may be one kernel, a part of rows after another."""

import functools
import re

import numpy as np
import pytest

from autotune import driver, lower, te, topi
from autotune.auto_scheduler.records.codec import RecordedState
from autotune.auto_scheduler.search.analytical.online import OnlineCostModel
from autotune.auto_scheduler.search.analytical.online_warpgroups import OnlineWarpgroupCostModel
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.auto_scheduler.transform_steps import OnlineStep
from autotune.errors import ScheduleError
from autotune.kernel import launch_violation
from tests.auto_scheduler.running import assert_states_compute_the_same
from tests.auto_scheduler.search import test_several_products
from tests.auto_scheduler.search.test_several_products import task_of, wide
from tests.auto_scheduler.sketch.test_in_block import drawn
from tests.auto_scheduler.tensor_core_programs import PARAMS

HEADS, LENGTH, DEPTH = 2, 192, 32


@functools.cache
def attention(heads, length, depth):
    """Attention as such: the same graph for all tests, so that its sketches are made once."""
    return test_several_products.attention(heads, length, depth)


def causal(i, j):
    return j <= i


def window(i, j):
    return te.all(j <= i, j > i - 40)


def behind(i, j):
    """Rows of the first half are masked everywhere."""
    return j < i - 96


@functools.cache
def masked(
    outputs=(), length=LENGTH, depth=DEPTH, axis=-1, dtype="float16", of=causal, low=-np.inf
):
    """Attention with a mask, a scale and a bias, as scripts write it."""
    q, k, v = (te.placeholder((HEADS, length, depth), dtype, name) for name in "qkv")
    bias = te.placeholder((length,), name="bias")
    d, t = te.reduce_axis((0, depth), "d"), te.reduce_axis((0, length), "t")
    square = (HEADS, length, length)

    def score(h, i, j):
        return te.sum(wide(q[h, i, d]) * wide(k[h, j, d]), axis=d)

    scores = te.compute(square, score, "scores")

    def seen(h, i, j):
        value = scores[h, i, j] * 0.125 + bias[j]
        return te.if_then_else(of(i, j), value, te.const(low, "float32"))

    share = topi.cast(topi.nn.softmax(te.compute(square, seen, "masked"), axis), dtype)

    def weighted(h, i, c):
        return te.sum(wide(share[h, i, t]) * wide(v[h, t, c]), axis=t)

    sums = te.compute((HEADS, length, depth), weighted, "sums")
    named = {"scores": scores, "share": share}
    return [q, k, v, bias, *(named[each] for each in outputs), topi.cast(sums, dtype)]


_found = {}


def in_parts(tensors, kind=None, arch=None):
    """The task of a graph, and the cost models of its programs in parts of rows.

    Of one kind, if it is given; single warps multiply where there are no warpgroups.
    """
    arch = arch or ("sm_80" if kind is OnlineCostModel else "sm_90")
    key = (*map(id, tensors), arch)
    if key not in _found:
        _found[key] = tensors, *_in_parts(task_of(tensors, arch))
    _, task, models = _found[key]
    return task, [each for each in models if kind is None or type(each) is kind]


def _in_parts(task):
    sketches = [
        each
        for each in sketches_of(task, PARAMS)
        if each.transform_steps and isinstance(each.transform_steps[0], OnlineStep)
    ]
    return task, programs_of(task, sketches, PARAMS)


LOWEST = np.finfo("float32").min


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "tensors",
    [
        attention(HEADS, LENGTH, DEPTH),
        masked(),
        masked(of=window),
        masked(of=behind),
        masked(of=behind, low=LOWEST),
    ],
    ids=["plain", "causal", "window", "rows without a key", "rows of equal keys"],
)
def test_attention_in_parts_computes_what_the_definition_says(tensors, tmp_path):
    task, (model,) = in_parts(tensors, OnlineCostModel)
    dag = task.compute_dag.init_state.dag
    (row,) = drawn(model, 1)
    state = plain_state(dag).after(model.program.candidate(row).transform_steps)
    assert_states_compute_the_same(task.compute_dag, [state], "cuda", tmp_path, 1e-2, 1e-2)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "tensors",
    [attention(HEADS, LENGTH, 128), masked(depth=64), masked(of=window, depth=64, length=256)],
    ids=["plain", "causal", "window"],
)
def test_warpgroups_compute_attention_in_parts(tensors, tmp_path):
    task, models = in_parts(tensors, OnlineWarpgroupCostModel)
    (row,) = drawn(models[0], 1)
    state = plain_state(task.compute_dag.init_state.dag)
    state = state.after(models[0].program.candidate(row).transform_steps)
    assert_states_compute_the_same(task.compute_dag, [state], "cuda", tmp_path, 1e-2, 1e-2)


def extents_of_parts(tensors, tile_rows, length=64):
    """The loop over parts of a kernel, and the estimate of how often each block runs it."""
    task, models = in_parts(tensors, OnlineCostModel)
    (model,) = [each for each in models if each.extents[2] == length]
    rows = drawn(model, 400)
    shape = model.shape(rows)
    (row, *_) = rows[(shape.tile_rows == tile_rows) & (shape.buffers == 2)]
    kernel = driver.kernel_of(task.realise(model.program.candidate(row)).what, task.target, "text")
    (extent,) = re.findall(r"for \(int part = 0; part < ([^;]*);", kernel.source)
    return extent, model.parts_of(tile_rows).tolist(), kernel.source


def test_a_block_computes_the_parts_that_a_mask_leaves_to_one_of_its_rows():
    extent, counts, text = extents_of_parts(masked(length=256), 64)
    assert extent == "(block_x & 3) + 1"
    # Blocks of many parts begin first.
    assert "const int block_x = (bx & 1) * 4 + 3 - (bx >> 1);" in text
    assert counts == [1, 2, 3, 4]
    extent, counts, _ = extents_of_parts(masked(length=256, of=window), 64)
    assert extent == "min(2, (bx & 3) + 1)"
    assert counts == [1, 2, 2, 2]
    extent, counts, _ = extents_of_parts(masked(length=256, of=behind, low=LOWEST), 64)
    assert extent == "4"
    assert counts == [4, 4, 4, 4]


# Of 32 columns warpgroups read no whole rows of shared memory.
DEPTHS = {OnlineCostModel: 32, OnlineWarpgroupCostModel: 64}


@pytest.mark.many_cases
@pytest.mark.parametrize("kind", DEPTHS)
@pytest.mark.parametrize("buffers", [2, 4])
def test_scores_and_powers_stay_in_registers(kind, buffers):
    task, (model, _) = in_parts(attention(2, 512, DEPTHS[kind]), kind)
    rows = drawn(model, 200)
    row = rows[rows[:, model.pipeline] == buffers][0]
    kernel = driver.kernel_of(task.realise(model.program.candidate(row)).what, task.target, "text")
    names = set(re.findall(r"\b([a-z]\w*)_shared\b", kernel.source)) - {"dynamic"}
    assert names == {"q", "k", "v"}
    # What a part needs has come, and all warps are done with the part before. Of warpgroups the
    # first product of the first part, and the second of the last, are not in the loop.
    apart = kind is OnlineWarpgroupCostModel
    assert kernel.source.count("__syncthreads()") == (3 if apart else 1)
    # Scores are there before their powers, and these are used before there are others.
    of_parts = kernel.source.partition("for (int part")[2]
    waits = re.findall(r"wgmma_wait<(\d)>", of_parts)
    assert waits == (["1", "0", "0"] if apart else [])


@pytest.mark.parametrize("tile_rows", [64, 128])
def test_powers_are_in_registers_before_the_fence_of_the_product_that_reads_them(tile_rows):
    task, (model, _) = in_parts(attention(2, 512, 64), OnlineWarpgroupCostModel)
    rows = drawn(model, 200)
    row = rows[model.shape(rows).tile_rows == tile_rows][0]
    kernel = driver.kernel_of(task.realise(model.program.candidate(row)).what, task.target, "text")
    of_parts = kernel.source.partition("for (int part")[2]
    before, _, after = of_parts.rpartition("wgmma_fence();")
    made = re.findall(r"(\w+\[\d+\]) = wgmma_pair_f16\(", before)
    read = re.findall(r"\w+_pairs\[\d+\]", after.partition("wgmma_commit();")[0])
    assert made == read
    assert "wgmma_pair" not in after
    assert len(made) in (16, 32)


@pytest.mark.parametrize("kind", DEPTHS)
def test_sums_go_on_from_part_to_part(kind):
    task, (model, _) = in_parts(attention(2, 512, DEPTHS[kind]), kind)
    state = model.program.candidate(drawn(model, 1)[0])
    text = driver.kernel_of(task.realise(state).what, task.target, "text").source
    before, _, of_parts = text.partition("for (int part")
    # They begin before all parts, and are scaled when the maximum grows; this one goes on too.
    zero = r"\w+_part\[[^;]*\] = 0\.0f;"
    assert re.search(zero, before)
    assert not re.search(zero, of_parts)
    assert re.search(r"\w+_part\[[^;]*\] \*= exp2_flushed", of_parts)
    assert re.search(r"(\w+_highest_warp\[\d\]) = max_float\(\1, ", of_parts)


@pytest.mark.parametrize("kind", DEPTHS)
def test_lanes_add_up_totals_of_rows_once_after_all_parts(kind):
    task, (model, *_) = in_parts(attention(2, 512, DEPTHS[kind]), kind)
    state = model.program.candidate(drawn(model, 1)[0])
    text = driver.kernel_of(task.realise(state).what, task.target, "text").source
    of_parts, _, after = text.partition("for (int part")[2].partition("\n  }\n")
    exchanged = re.findall(r"__shfl_xor_sync\(0xffffffffu, (\w+?)(?:_share\w*)?\[", of_parts)
    assert {name.partition("_")[2] for name in exchanged} == {"highest_warp"}
    assert re.search(r"(\w+_joined_v1)\[0\] \+= \1_other0;", after)


def test_columns_of_a_thread_share_the_maximum_and_the_total_of_their_row():
    task, (model, _) = in_parts(attention(2, 512, 64))
    rows = drawn(model, 200)
    row = rows[(model.shape(rows).tile_rows == 64) & (rows[:, model.pipeline] == 2)][0]
    kernel = driver.kernel_of(task.realise(model.program.candidate(row)).what, task.target, "text")
    of_parts = kernel.source.partition("for (int part")[2].partition("\n  }")[0]
    for state in ("v0", "v1"):
        assert set(re.findall(rf"joined_{state}\[(.*?)\]", of_parts)) == {"0", "2"}


def test_queries_arrive_with_the_first_part_and_results_leave_in_wide_stores():
    task, (model, _) = in_parts(attention(2, 512, 64))
    rows = drawn(model, 200)
    row = rows[rows[:, model.pipeline] == 2][0]
    kernel = driver.kernel_of(task.realise(model.program.candidate(row)).what, task.target, "text")
    before, _, of_parts = kernel.source.partition("for (int part")
    assert "__pipeline_memcpy_async(q_shared" in before
    assert not re.search(r"\(q_shared[^;]*\) =", kernel.source)
    stores = re.findall(r"\n *(.*)\(?seen \+?.* =", of_parts)
    assert stores
    assert set(stores) == {"*(uint4*)("}


def test_a_mask_is_asked_once_for_parts_that_it_leaves_whole():
    _, _, text = extents_of_parts(masked(length=256), 64)
    plain = text.partition("if (part < (block_x & 3)) {")[2].partition("} else {")
    assert " ? " not in plain[0]
    assert " ? " in plain[2]
    # This one leaves none whole.
    _, _, text = extents_of_parts(masked(length=256, of=window), 64)
    assert len(re.findall(r"if \(part", text)) == 1


def test_sums_and_what_reads_them_may_both_be_arguments():
    *inputs, cast = masked()
    sums = cast.op.input_tensors[0]
    again = topi.cast(cast, "float32")
    task, (model, *_) = in_parts([*inputs, sums, cast, again])
    kernel = driver.kernel_of(
        task.realise(model.program.candidate(drawn(model, 1)[0])).what, task.target, "kernel"
    )
    assert len(kernel.calls) == 3


@pytest.mark.many_cases
@pytest.mark.parametrize(("length", "depth"), [(512, 32), (512, 64), (512, 128), (197, 80)])
def test_estimates_of_attention_in_parts_say_what_lowering_finds(length, depth):
    task, models = in_parts(attention(2, length, depth))
    assert [model.extents[2] for model in models][-2:] == [64, 128]
    for model in models:
        assert isinstance(model, OnlineCostModel)
        rows = drawn(model, 4)
        shape = model.shape(rows)
        assert np.isfinite(model(rows).seconds).all()
        for i, row in enumerate(rows):
            state = model.program.candidate(row)
            assert model.program.row_of(state.transform_steps) == row.tolist()
            kernel = driver.kernel_of(task.realise(state).what, task.target, "kernel")
            (call,) = kernel.calls
            assert launch_violation(kernel, task.target.limits) is None
            assert call.launch.shared_bytes in (0, shape.shared_bytes[i])
            assert np.prod(call.launch.grid) == shape.blocks[i]
            assert np.prod(call.launch.block) == 32 * shape.warps[i]


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("tensors", "count"),
    [
        (masked(), 1),
        (masked(outputs=("scores",)), 0),
        (masked(outputs=("share",)), 0),
        (masked(length=64), 1),
        (masked(length=128), 2),
        (masked(length=200), 2),
        (masked(length=200, depth=64), 2),
        (masked(length=31), 0),
        (masked(depth=24), 2),
        (masked(depth=7), 0),
        (masked(depth=256), 0),
        (masked(axis=1), 0),
        (masked(dtype="float32"), 0),
    ],
    ids=[
        "causal",
        "scores are an output",
        "shares are an output",
        "one part",
        "one or two parts",
        "zeros behind the last part",
        "and none behind columns",
        "more zeros than rows",
        "zeros behind steps",
        "more zeros than columns",
        "more results than registers",
        "of columns",
        "not for tensor cores",
    ],
)
def test_parts_are_of_what_nobody_else_needs(tensors, count):
    assert len(in_parts(tensors)[1]) == count


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("length", "depth", "arch", "kinds"),
    [
        (64, 64, "sm_90", [OnlineWarpgroupCostModel]),
        (1024, 64, "sm_90", [OnlineWarpgroupCostModel] * 2),
        (1024, 32, "sm_90", [OnlineWarpgroupCostModel] * 2),
        (1024, 96, "sm_90", [OnlineWarpgroupCostModel] * 2),
        (1000, 40, "sm_90", [OnlineWarpgroupCostModel] * 2),
        (1024, 64, "sm_80", [OnlineCostModel] * 2),
    ],
)
def test_warps_multiply_where_warpgroups_may_not(length, depth, arch, kinds):
    models = in_parts(attention(7, length, depth), arch=arch)[1]
    assert [type(each) for each in models] == kinds


@pytest.mark.parametrize(
    ("depth", "steps", "columns"), [(96, 6, 96), (80, 5, 80), (40, 3, 48), (32, 2, 32)]
)
def test_warpgroups_multiply_no_more_than_whole_steps_of_a_depth(depth, steps, columns):
    task, models = in_parts(attention(2, 256, depth))
    kernel = driver.kernel_of(
        task.realise(models[0].program.candidate(drawn(models[0], 1)[0])).what, task.target, "k"
    )
    loop = re.search(r"wgmma_fence\(\);\n((?: *wgmma_m64n64k16_f16<.*\n)+)", kernel.source)
    assert loop is not None
    assert len(loop[1].splitlines()) == steps
    assert f"wgmma_m64n{columns}k16_f16_passed<1>" in kernel.source


def test_records_hold_attention_in_parts():
    task, (model, *_) = in_parts(attention(HEADS, LENGTH, DEPTH))
    state = model.program.candidate(drawn(model, 1)[0])
    rows = RecordedState(state.transform_steps).to_json()
    assert rows[0] == ["ONL", 8, 64, 8]
    again = RecordedState.from_json(rows)
    assert again.transform_steps == state.transform_steps
    schedule, tensors = task.compute_dag.apply_steps_from_state(again)
    names = {}
    exec(task.compute_dag.print_python_code_from_state(again, "python"), names)
    printed, arguments = names["schedule"](list(task.compute_dag.tensors))
    assert str(lower(printed, list(arguments))) == str(lower(schedule, list(tensors)))


def test_records_of_other_stages_say_so():
    task, (model, *_) = in_parts(attention(HEADS, LENGTH, DEPTH))
    state = model.program.candidate(drawn(model, 1)[0])
    rows = RecordedState(state.transform_steps).to_json()
    older = RecordedState.from_json([["ONL", 8, 64], *rows[1:]])
    why = "parts of rows in other stages, .*; tune the task again"
    with pytest.raises(ScheduleError, match=why):
        task.compute_dag.apply_steps_from_state(older)
    with pytest.raises(ScheduleError, match=why):
        plain_state(task.compute_dag.init_state.dag).after(older.transform_steps)


def test_records_say_of_how_many_rows_tiles_are():
    task, models = in_parts(attention(HEADS, 197, 64))
    state = models[0].program.candidate(drawn(models[0], 1)[0])
    rows = RecordedState(state.transform_steps).to_json()
    assert rows[0] == ["ONL", 8, 64, 8, 64, 16]
    assert RecordedState.from_json(rows).transform_steps == state.transform_steps
    text = task.compute_dag.print_python_code_from_state(state, "python")
    assert "te.online(tensors, compute, 64, 8, 64, 16)" in text


def test_parts_come_before_all_other_steps():
    task = task_of(attention(HEADS, LENGTH, DEPTH))
    state = task.compute_dag.get_init_state()
    at = state.stage_id(task.compute_dag.ops[-2])
    other = state.copy()
    other.compute_inline(at - 2)
    with pytest.raises(ScheduleError, match="before all other steps"):
        other.online(at, 64)
    with pytest.raises(ScheduleError, match="a product of a softmax, and divisors"):
        state.online(at, 80)
    with pytest.raises(ScheduleError, match="a product of a softmax, and divisors"):
        state.online(at, 64, 5)
    with pytest.raises(ScheduleError, match="a product of a softmax, and divisors"):
        state.online(2, 64)
