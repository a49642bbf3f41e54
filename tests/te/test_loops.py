"""Primitives that change loops: what they give, and what they refuse."""

import pytest

from autotune import te
from autotune.errors import ScheduleError
from autotune.ir import ForKind, IntImm
from autotune.lowering import launch_bounds
from autotune.lowering.passes import pipeline, tensor_cores, unroll, warpgroups
from autotune.te.pragmas import KNOWN
from autotune.te.stage_state import IMPORTS
from tests.te.graphs import chain, matmul


def loops(stage):
    return [axis.name for axis in stage.leaf_iter_vars]


@pytest.fixture
def stage():
    _, _, c = matmul()
    return te.create_schedule(c.op)[c]


def axes(stage):
    return [*stage.op.axis, *stage.op.reduce_axis]


def test_a_plain_stage_has_the_axes_of_its_operation(stage):
    assert loops(stage) == ["i", "j", "k"]
    assert (stage.attach_type, stage.scope, stage.relations) == ("root", "", [])


def test_split_puts_outer_and_inner_in_the_place_of_the_axis(stage):
    _, j, _ = axes(stage)
    outer, inner = stage.split(j, factor=8)
    assert loops(stage) == ["i", "j.outer", "j.inner", "k"]
    (relation,) = stage.relations
    assert (relation.parent, relation.outer, relation.inner) == (j, outer, inner)
    assert (relation.factor, relation.nparts) == (8, None)


def test_split_by_nparts(stage):
    stage.split(axes(stage)[0], nparts=4)
    assert (stage.relations[0].factor, stage.relations[0].nparts) == (None, 4)


def test_split_of_a_reduction_axis_gives_reduction_axes(stage):
    outer, inner = stage.split(axes(stage)[2], 4)
    assert (outer.kind, inner.kind, inner.var.axis) == ("reduce", "reduce", "reduce")


def test_split_takes_constants_of_the_ir(stage):
    stage.split(axes(stage)[0], factor=IntImm(4))
    assert stage.relations[0].factor == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"split\('i'\): expected either factor or nparts, got factor=None, nparts=None"),
        ({"factor": 2, "nparts": 2}, "expected either factor or nparts"),
        ({"factor": 0}, r"split\('i'\): factor must be at least 1, got 0"),
        ({"nparts": -1}, "nparts must be at least 1, got -1"),
        ({"factor": 2.5}, "factor must be an int, got 2.5"),
    ],
)
def test_split_refuses_sizes_that_are_none(stage, arguments, message):
    with pytest.raises(ScheduleError, match=message):
        stage.split(axes(stage)[0], **arguments)
    assert stage.schedule.steps == ()


def test_an_axis_that_is_gone_is_refused_with_the_loops_there_are(stage):
    i, _, _ = axes(stage)
    stage.split(i, 4)
    with pytest.raises(
        ScheduleError,
        match=r"split: axis 'i' has been split or fused already; the loops of C are now: "
        r"i\.outer, i\.inner, j, k",
    ):
        stage.split(i, 4)


def test_an_axis_of_another_stage_is_refused(stage):
    _, b, *_ = chain()
    with pytest.raises(ScheduleError, match="unroll: axis 'i' is no axis of C"):
        stage.unroll(b.op.axis[0])


def test_what_is_no_axis_is_refused(stage):
    with pytest.raises(ScheduleError, match=r"bind: expected an axis of C \(one of i, j, k\)"):
        stage.bind("i", te.thread_axis("threadIdx.x"))


def test_fuse_makes_one_loop_of_neighbours(stage):
    i, j, _ = axes(stage)
    fused = stage.fuse(i, j)
    assert loops(stage) == ["i.j.fused", "k"]
    assert stage.relations[0].fused is fused


def test_fuse_of_several_is_a_chain(stage):
    i, j, _ = axes(stage)
    outer, inner = stage.split(j, 4)
    stage.fuse(i, outer, inner)
    assert loops(stage) == ["i.j.outer.fused.j.inner.fused", "k"]
    assert len(stage.relations) == 3


def test_fuse_takes_a_list(stage):
    stage.fuse(axes(stage)[:2])
    assert loops(stage) == ["i.j.fused", "k"]


def test_fuse_of_one_axis_is_that_axis(stage):
    i, _, _ = axes(stage)
    assert stage.fuse(i) is i
    assert loops(stage) == ["i", "j", "k"]


def test_fuse_of_no_axes_is_a_loop_of_one_iteration():
    c = te.compute((), lambda: te.const(1.0), name="C")
    stage = te.create_schedule(c.op)[c]
    single = stage.fuse(*stage.op.axis)
    assert (loops(stage), single.dom.extent.value) == (["singleton"], 1)
    stage.bind(single, te.thread_axis("blockIdx.x"))


def test_fuse_takes_neighbours_in_any_order_and_keeps_the_outermost_outermost(stage):
    i, j, _ = axes(stage)
    stage.fuse(j, i)
    assert loops(stage) == ["i.j.fused", "k"]


def test_fuse_of_loops_that_are_no_neighbours_is_refused(stage):
    i, j, k = axes(stage)
    with pytest.raises(ScheduleError, match=r"fuse\(i, i\): expected neighbouring loops"):
        stage.fuse(i, i)
    stage.reorder(i, k, j)
    with pytest.raises(ScheduleError, match=r"fuse\(i, j\): .* C are now: i, k, j"):
        stage.fuse(i, j)


def test_fuse_of_a_reduction_with_a_data_axis_is_refused(stage):
    _, j, k = axes(stage)
    with pytest.raises(ScheduleError, match=r"fuse\(j, k\): a reduction axis of C cannot"):
        stage.fuse(j, k)


def test_tile_splits_two_loops_and_moves_the_inner_parts_inside(stage):
    i, j, _ = axes(stage)
    names = [axis.name for axis in stage.tile(i, j, 8, 4)]
    assert names == ["i.outer", "j.outer", "i.inner", "j.inner"]
    assert loops(stage) == [*names, "k"]


def test_reorder_moves_only_the_named_loops(stage):
    i, _, k = axes(stage)
    stage.reorder(k, i)
    assert loops(stage) == ["k", "j", "i"]


def test_reorder_of_one_loop_twice_is_refused(stage):
    i, _, _ = axes(stage)
    with pytest.raises(ScheduleError, match=r"reorder\(i, i\): expected each loop of C once"):
        stage.reorder(i, i)


@pytest.mark.parametrize(
    ("primitive", "kind"),
    [
        ("unroll", ForKind.UNROLLED),
        ("vectorize", ForKind.VECTORIZED),
        ("parallel", ForKind.PARALLEL),
        ("vthread", ForKind.VTHREAD),
    ],
)
def test_a_loop_is_marked(stage, primitive, kind):
    i, _, _ = axes(stage)
    assert stage.attr(i).kind is ForKind.SERIAL
    getattr(stage, primitive)(i)
    assert stage.attr(i).kind is kind


@pytest.mark.parametrize("primitive", ["vectorize", "parallel"])
def test_a_reduction_axis_can_be_neither_vectorized_nor_parallel(stage, primitive):
    with pytest.raises(ScheduleError, match=rf"{primitive}\('k'\): expected a data axis of C"):
        getattr(stage, primitive)(axes(stage)[2])


def test_a_reduction_axis_can_be_unrolled(stage):
    stage.unroll(axes(stage)[2])
    assert stage.attr(axes(stage)[2]).kind is ForKind.UNROLLED


def test_a_marked_loop_is_neither_split_nor_fused(stage):
    i, j, _ = axes(stage)
    stage.parallel(i)
    for refused in (lambda: stage.split(i, 2), lambda: stage.fuse(i, j)):
        with pytest.raises(ScheduleError, match="axis 'i' of C is parallel already"):
            refused()


def test_bind_ties_a_loop_to_a_thread_axis(stage):
    i, j, _ = axes(stage)
    thread = te.thread_axis("threadIdx.x")
    stage.bind(i, te.thread_axis("blockIdx.x"))
    stage.bind(j, thread)
    assert stage.attr(j).kind is ForKind.THREAD
    assert stage.attr(j).thread is thread


def test_virtual_threads_may_be_bound_many_times(stage):
    i, j, _ = axes(stage)
    stage.bind(i, te.thread_axis("vthread", name="vy"))
    stage.bind(j, te.thread_axis("vthread", name="vx"))
    assert stage.attr(i).kind is stage.attr(j).kind is ForKind.VTHREAD


def test_a_thread_axis_is_bound_once_in_a_stage(stage):
    i, j, _ = axes(stage)
    stage.bind(i, te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match=r"bind\('j'\): threadIdx\.x is taken by axis 'i'"):
        stage.bind(j, te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match=r"axis 'i' of C is bound to threadIdx\.x already"):
        stage.bind(i, te.thread_axis("threadIdx.y"))


def test_a_reduction_axis_may_be_bound_to_threads_of_a_block_only(stage):
    k = axes(stage)[2]
    for tag in ("blockIdx.x", "vthread"):
        with pytest.raises(ScheduleError, match=rf"bind\('k'\): .* threadIdx only, got {tag}"):
            stage.bind(k, te.thread_axis(tag))
    stage.bind(k, te.thread_axis("threadIdx.x"))


def test_a_thread_axis_of_another_extent_is_refused(stage):
    with pytest.raises(ScheduleError, match=r"C has 64 iterations, but .* extent of 32"):
        stage.bind(axes(stage)[0], te.thread_axis(32, "threadIdx.x"))


def test_only_thread_axes_can_be_bound_to(stage):
    i, j, _ = axes(stage)
    with pytest.raises(ScheduleError, match=r"bind\('i'\): expected a thread axis such as"):
        stage.bind(i, j)


def test_pragmas_are_kept_with_their_values(stage):
    i, _, _ = axes(stage)
    stage.pragma(i, "auto_unroll_max_step", 512)
    stage.pragma(i, "unroll_explicit", True)
    stage.pragma(i, "auto_unroll_max_step", 16)
    stage.pragma(i, "note")
    expected = (("unroll_explicit", 1), ("auto_unroll_max_step", 16), ("note", 0))
    assert stage.attr(i).pragmas == expected


def test_a_slip_in_the_name_of_a_pragma_is_a_warning(stage):
    i, *_ = stage.op.axis
    with pytest.warns(UserWarning, match="'auto_unroll_max_stp' has no effect; did you mean"):
        stage.pragma(i, "auto_unroll_max_stp", 16)


def test_the_hints_that_lowering_reads_are_known():
    read = [unroll.MAX_STEP, unroll.EXPLICIT, tensor_cores.TENSOR_CORE, warpgroups.WGMMA]
    read += [pipeline.PERSISTENT, launch_bounds.MIN_BLOCKS, *IMPORTS]
    assert sorted(read) == sorted(KNOWN)


def test_pragmas_stay_when_the_loop_is_split_bound_or_fused(stage):
    i, _, _ = axes(stage)
    stage.pragma(i, "note", "x")
    outer, inner = stage.split(i, 4)
    assert stage.attr(outer).pragmas == (("note", "x"),)
    stage.pragma(inner, "note", "y")
    fused = stage.fuse(outer, inner)
    stage.bind(fused, te.thread_axis("blockIdx.x"))
    assert stage.attr(fused).pragmas == (("note", "x"),)


def test_a_pragma_of_another_kind_of_value_is_refused(stage):
    with pytest.raises(ScheduleError, match=r"pragma\('i', 'note'\): the value must be an int or"):
        stage.pragma(axes(stage)[0], "note", 1.5)


def test_a_placeholder_has_no_loops():
    a, _, c = matmul()
    stage = te.create_schedule(c.op)[a]
    with pytest.raises(ScheduleError, match="A is a placeholder, which computes nothing"):
        stage.compute_inline()
