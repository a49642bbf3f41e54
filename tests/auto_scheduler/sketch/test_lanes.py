"""On a CPU vectors go along output channels where rows of an image fill none."""

import numpy as np
import pytest

import autotune
from autotune import te, topi
from autotune.auto_scheduler import (
    ComputeDAG,
    HardwareParams,
    SearchTask,
    SketchPolicy,
    XGBModel,
)
from autotune.auto_scheduler.search.analytical.cpu_parameters import CpuParameters
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.annotate_cpu import cpu_program
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.sketch.lanes import lane_axis, lanes_of, uneven_run
from autotune.auto_scheduler.transform_steps import step_from_row
from autotune.driver import kernel_of
from tests.auto_scheduler.graphs import matmul, tutorial_layer

PARAMS = SketchPolicy.DEFAULT_PARAMS


def task_of(tensors, target="llvm"):
    return SearchTask(compute_dag=ComputeDAG(tensors), target=target)


def convolution(channels, size, filters, stride=1):
    data = te.placeholder((1, channels, size, size), name="data")
    weight = te.placeholder((filters, channels, 3, 3), name="weight")
    return [data, weight, topi.nn.conv2d_nchw(data, weight, stride, 1)]


def along_channels(models):
    """Return those of which the innermost loop of the sums is over output channels."""
    return [each for each in models if any(tiled.lanes == 1 for tiled in each.tiled)]


@pytest.mark.parametrize(
    ("size", "stride", "wanted"), [(7, 1, "ff"), (32, 2, "ff"), (14, 1, "ff")]
)
def test_channels_are_lanes_where_rows_are_short_or_read_in_steps(size, stride, wanted):
    conv = convolution(8, size, 16, stride)[-1].op
    assert lane_axis(conv).name == wanted


def test_rows_stay_lanes_where_they_fill_vectors_or_nothing_else_does():
    product = matmul(64, 64, 64)[-1].op
    assert lane_axis(product) is None
    assert lane_axis(convolution(8, 7, 9)[-1].op) is None


def test_a_gpu_and_the_sketches_of_tvm_know_nothing_of_it():
    for task in (task_of(tutorial_layer(), "cuda -arch=sm_90"), task_of(tutorial_layer())):
        states = SketchPolicy(task, seed=0).generate_sketches()
        if task.target.kind == "cuda":
            states = sketches_of(task, PARAMS)
        tiled = [s for each in states for s in each.stages if len(s.iters) > 2 * len(s.op.axis)]
        assert all(lanes_of(stage) == len(stage.op.axis) - 1 for stage in tiled)


@pytest.mark.parametrize(("size", "stride"), [(7, 1), (9, 2)])
def test_programs_with_lanes_along_channels_are_right(size, stride):
    tensors = convolution(6, size, 16, stride)
    task = task_of(tensors)
    found = along_channels(programs_of(task, sketches_of(task, PARAMS), PARAMS))
    assert found
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([int(n) for n in t.shape]).astype("float32") for t in tensors]
    plain = autotune.build(te.create_schedule(tensors[-1].op), tensors, target="llvm")
    plain(*arrays)
    proposer = SketchPolicy(task, seed=0).proposer
    for model in along_channels([searched.cost_model for searched in proposer.programs])[:4:3]:
        sampler = next(each.sampler for each in proposer.programs if each.cost_model is model)
        schedule, args = task.realise(model.program.candidate(sampler.draw(8)[3])).what
        out = np.full_like(arrays[2], np.nan)
        autotune.build(schedule, args, target="llvm")(*arrays[:2], out)
        np.testing.assert_allclose(out, arrays[2], rtol=1e-4, atol=1e-4)


def test_the_first_proposal_for_short_rows_multiplies_vectors_of_weights(monkeypatch):
    # 16 registers, whatever runs the test
    monkeypatch.setattr(CpuParameters, "here", CpuParameters)
    task = task_of(tutorial_layer())
    best = SketchPolicy(task, XGBModel(), seed=0).propose(1)[0]
    text = kernel_of(task.realise(best).what, task.target).source
    assert "_global[rc" in text
    assert "*(const float_v" in text
    # Ten tiles of five elements for 49: the loop is over nine, and nowhere it is asked which.
    assert "if (" not in text
    assert "< 9; ++yy_xx_fused" in text


@pytest.mark.parametrize(
    ("name", "vector_bytes", "registers"),
    [("icelake-server", 64, 28), ("znver4", 64, 28), ("x86-64-v4", 64, 28), ("znver3", 32, 16),
     ("core-avx2", 32, 16), ("skylake", 32, 16), ("x86-64", 16, 16), ("nehalem", 16, 16),
     ("cortex-a72", 16, 32), ("neoverse-n1", 16, 32), ("apple-m1", 16, 32)],
)  # fmt: skip
def test_a_task_for_another_cpu_is_modelled_by_its_name(name, vector_bytes, registers):
    tensors = [te.placeholder((64, 64), name=n) for n in "ab"]
    k = te.reduce_axis((0, 64), name="k")
    product = te.compute((64, 64), lambda i, j: te.sum(tensors[0][i, k] * tensors[1][k, j], k))
    task = SearchTask(compute_dag=ComputeDAG([*tensors, product]), target=f"llvm -mcpu={name}")
    for model in programs_of(task, sketches_of(task, PARAMS), PARAMS):
        assert (model.host.vector_bytes, model.host.registers) == (vector_bytes, registers)


@pytest.mark.parametrize("name", ["", "native", "a-cpu-of-tomorrow"])
def test_a_cpu_without_a_known_name_is_taken_for_this_one(name):
    assert CpuParameters.of(name) == CpuParameters.here()


def in_one_run(task):
    model = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    covered = [each for each in model if any(getattr(s, "covers", 0) for s in each.program.slots)]
    return covered, model


def test_elements_of_an_image_are_one_run_where_no_tile_of_them_fits_registers():
    image = {size: convolution(8, size, 16)[-1].op for size in (7, 9, 13, 14, 28, 56)}
    assert [uneven_run(image[size]) for size in (7, 9, 13)] == [(2, 3)] * 3
    assert [uneven_run(image[size]) for size in (14, 28, 56)] == [()] * 3
    data, weight = (
        te.placeholder(s, name=n) for n, s in (("d", (1, 7, 7, 8)), ("w", (3, 3, 8, 16)))
    )
    assert uneven_run(topi.nn.conv2d_nhwc(data, weight, 1, 1).op) == (1, 2)
    assert uneven_run(matmul(49, 64, 64)[-1].op) == ()


def test_a_run_is_a_stage_of_fewer_axes_that_each_block_takes_whole():
    covered, model = in_one_run(task_of(tutorial_layer()))
    assert 0 < len(covered) < len(model)
    for each in covered:
        (tiled,) = each.tiled
        assert [axis.extent for axis in tiled.data][-1] == 49
        rows = RowSampler(each.program, each.limits(), np.random.default_rng(0)).draw(50)
        run = next(s for s in each.program.slots if getattr(s, "covers", False))
        assert run.extent == 50
        assert (rows[:, each.program.columns[run.step]].prod(axis=1) == 50).all()
        assert each(rows).feasible.all()


def test_no_piece_of_a_run_is_computed_by_itself():
    """A piece is no rectangle: its stage would compute the rectangle around it, and more."""
    covered, _ = in_one_run(task_of(tutorial_layer()))
    for each in covered:
        (tiled,) = each.tiled
        target, last = each.program.state.attach[tiled.stage_id]
        loops = each.program.state.stages[target].iters[: last + 1]
        rows = RowSampler(each.program, each.limits(), np.random.default_rng(0)).draw(50)
        run = next(s for s in each.program.slots if getattr(s, "covers", False))
        pieces = rows[:, each.program.columns[run.step].start]
        inside = any(loop.name.endswith("@.1") for loop in loops)
        assert (pieces == 1).all() == inside


def test_sums_that_no_limit_of_unrolling_writes_out_are_estimated_as_in_memory():
    covered, _ = in_one_run(task_of(tutorial_layer()))
    model = covered[0]
    unroll = model.tiled[0].unroll
    run = next(s for s in model.program.slots if getattr(s, "covers", False))
    rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(400)
    many = rows[rows[:, model.program.columns[run.step]][:, -1] == 10]
    left, written = many.copy(), many.copy()
    left[:, unroll], written[:, unroll] = 0, 16
    in_memory, in_registers = model(left).seconds, model(written).seconds
    assert (in_memory >= in_registers).all()
    assert (in_memory > in_registers).mean() > 0.8  # of the rest something else takes longer


def test_a_candidate_with_a_run_is_written_and_read_as_any_other():
    task = task_of(tutorial_layer())
    searched = in_one_run(task)[0][0]
    row = RowSampler(searched.program, searched.limits(), np.random.default_rng(0)).draw(1)[0]
    steps = searched.program.candidate(row).transform_steps
    rows = [each.to_row() for each in steps]
    read = tuple(step_from_row(each) for each in rows)
    assert [each.to_row() for each in read] == rows
    assert searched.program.row_of(read) == row.tolist()


def test_a_run_that_a_rule_of_a_user_makes_keeps_its_blocks_where_tiles_divide_it():
    state = ComputeDAG(convolution(8, 14, 16)).get_init_state()
    conv = next(i for i, stage in enumerate(state.stages) if len(stage.iters) == 7)
    run = state.fuse(conv, state.stages[conv].iters[2:4])
    state.split(conv, run, [None, None, None])
    slots = cpu_program(state.state_object, HardwareParams(target="llvm")).slots
    assert [(slot.extent, slot.covers) for slot in slots if slot.width == 3] == [(196, False)]
