"""Primitives that say where a stage is computed and where its result lives."""

import pytest

from autotune import te
from autotune.errors import ScheduleError
from autotune.ir import same
from tests.te.graphs import chain, diamond, matmul, row_sum


def test_compute_at_attaches_a_stage_to_a_loop():
    _, b, c, d = chain()
    s = te.create_schedule(d.op)
    outer, inner = s[d].split(d.op.axis[0], 8)
    s[c].compute_at(s[d], outer)
    stage = s[c]
    assert (stage.attach_type, stage.attach_stage, stage.attach_iter) == ("at", s[d], outer)
    s[b].compute_at(s[d], inner)
    assert s[b].attach_stage is s[d]


def test_compute_root_undoes_compute_at():
    _, _, c, d = chain()
    s = te.create_schedule(d.op)
    s[c].compute_at(s[d], d.op.axis[0])
    s[c].compute_root()
    assert (s[c].attach_type, s[c].attach_stage, s[c].attach_iter) == ("root", None, None)


def test_compute_at_a_stage_that_does_not_read_it_is_refused():
    _, _, c, d, e = diamond()
    s = te.create_schedule(e.op)
    with pytest.raises(ScheduleError, match=r"compute_at\(C\): D does not read C"):
        s[c].compute_at(s[d], d.op.axis[0])
    with pytest.raises(ScheduleError, match=r"compute_at\(C\): C does not read C"):
        s[c].compute_at(s[c], c.op.axis[0])


def test_compute_at_a_stage_of_another_schedule_is_refused():
    _, _, c, d = chain()
    s, other = te.create_schedule(d.op), te.create_schedule(d.op)
    with pytest.raises(ScheduleError, match=r"compute_at\(C\): expected a stage of this schedule"):
        s[c].compute_at(other[d], d.op.axis[0])


def test_compute_at_a_loop_that_is_gone_is_refused():
    _, _, c, d = chain()
    s = te.create_schedule(d.op)
    s[d].split(d.op.axis[0], 8)
    with pytest.raises(ScheduleError, match=r"compute_at\(C\): axis 'i' has been split or fused"):
        s[c].compute_at(s[d], d.op.axis[0])


def test_an_output_stays_at_the_root():
    _, _, c, d = chain()
    s = te.create_schedule([c.op, d.op])
    with pytest.raises(ScheduleError, match=r"compute_at\(C\): it is an output of the schedule"):
        s[c].compute_at(s[d], d.op.axis[0])
    with pytest.raises(ScheduleError, match=r"compute_inline\(D\): it is an output"):
        s[d].compute_inline()


def test_splitting_the_loop_moves_what_is_computed_there_to_the_inner_part():
    _, _, c, d = chain()
    s = te.create_schedule(d.op)
    s[c].compute_at(s[d], d.op.axis[0])
    _, inner = s[d].split(d.op.axis[0], 8)
    assert s[c].attach_iter is inner


def test_fusing_the_loop_moves_what_is_computed_there_if_it_was_innermost():
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j], name="B")
    c = te.compute((4, 4), lambda i, j: b[i, j], name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    s[b].compute_at(s[c], i)
    with pytest.raises(ScheduleError, match=r"fuse\(i, j\): B is computed at 'i'"):
        s[c].fuse(i, j)
    s[b].compute_at(s[c], j)
    fused = s[c].fuse(i, j)
    assert s[b].attach_iter is fused


def test_inlining_puts_the_value_where_it_is_read():
    _, b, c, d = chain()
    s = te.create_schedule(d.op)
    s[b].compute_inline()
    s[c].compute_inline()
    inlined = te.inlined(s)
    assert str(inlined[d].op.body[0]) == "(A[i] + 1.0f) * 2.0f - 3.0f"
    assert str(s[d].op.body[0]) == "C[i] - 3.0f"
    assert inlined.steps == s.steps


def test_inlining_reaches_every_reader_and_substitutes_their_indices():
    _, b, _, d, e = diamond()
    s = te.create_schedule(e.op)
    s[b].compute_inline()
    s[d].compute_inline()
    inlined = te.inlined(s)
    assert str(inlined[e].op.body[0]) == "C[i] + (A[i] + 1.0f) * 3.0f"


def test_inlining_goes_into_reductions_and_indices():
    a = te.placeholder((8,), "int32", name="A")
    b = te.compute((8,), lambda i: a[7 - i], name="B")
    k = te.reduce_axis((0, 4), name="k")
    c = te.compute((2,), lambda i: te.sum(b[b[i + k]], axis=k, where=b[k] > 0), name="C")
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    body = te.inlined(s)[c].op.body[0]
    assert str(body) == "sum(A[7 - A[7 - (i + k)]], axis=[k], where=A[7 - k] > 0)"
    assert body.axes == c.op.reduce_axis


def test_a_reduction_cannot_be_inlined():
    _, b = row_sum()
    c = te.compute((16,), lambda i: b[i] + 1, name="C")
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match=r"compute_inline\(B\): it is a reduction"):
        s[b].compute_inline()


def test_what_is_computed_at_a_loop_of_an_inlined_stage_is_reported():
    _, b, c, d = chain()
    s = te.create_schedule(d.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].compute_inline()
    with pytest.raises(ScheduleError, match=r"compute_inline\(C\): B is computed at one of its"):
        te.inlined(s)


def test_normalize_gives_a_copy_with_the_bodies_inlined_and_a_step():
    _, b, c, d = chain()
    s = te.create_schedule(d.op)
    s[c].compute_inline()
    n = s.normalize()
    assert str(n[d].op.body[0]) == "B[i] * 2.0f - 3.0f"
    assert str(s[d].op.body[0]) == "C[i] - 3.0f"
    assert [str(step) for step in n.steps] == ["ComputeInline(stage='2')", "Normalize(stage='')"]
    cache = n.cache_read(b, "local", [d])
    assert str(n[d].op.body[0]) == "B.local[i] * 2.0f - 3.0f"
    assert n[cache].scope == "local"


def test_scopes_are_set_and_checked():
    _, _, c, d = chain()
    s = te.create_schedule(d.op)
    s[c].set_scope("shared")
    assert s[c].scope == "shared"
    with pytest.raises(ScheduleError, match=r"set_scope\(C\): expected one of global, shared"):
        s[c].set_scope("texture")
    with pytest.raises(ScheduleError, match=r"set_scope\(D\): an output .* lives in global"):
        s[d].set_scope("local")


def test_storage_align_names_a_dimension_of_the_result():
    a, _, c = matmul()
    s = te.create_schedule(c.op)
    cache = s.cache_read(a, "shared", [c])
    first, second = s[cache].op.axis
    s[cache].storage_align(first, 32, 8)
    assert s[cache].alignments == {0: (32, 8)}
    outer, _ = s[cache].split(second, 4)
    with pytest.raises(ScheduleError, match=r"storage_align\(A\.shared\): expected one of"):
        s[cache].storage_align(outer, 32, 8)
    with pytest.raises(ScheduleError, match="0 <= offset < factor, got factor=32, offset=32"):
        s[cache].storage_align(second, 32, 32)


def test_double_buffering_is_for_stages_between():
    a, _, c = matmul()
    s = te.create_schedule(c.op)
    cache = s.cache_read(a, "shared", [c])
    s[cache].double_buffer()
    assert s[cache].double_buffered
    with pytest.raises(ScheduleError, match=r"double_buffer\(C\): an output of the schedule"):
        s[c].double_buffer()


def test_asynchronous_copies_fill_a_shared_stage():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    shared, local = s.cache_read(a, "shared", [c]), s.cache_read(b, "local", [c])
    s[shared].async_copy(stages=3)
    assert s[shared].pipeline_stages == 3
    with pytest.raises(ScheduleError, match=r"async_copy\(B\.local\): expected a stage in shared"):
        s[local].async_copy()
    with pytest.raises(ScheduleError, match="stages must be an int of at least 2, got 1"):
        s[shared].async_copy(1)


def test_a_store_predicate_is_a_condition_on_axes():
    _, b = row_sum()
    s = te.create_schedule(b.op)
    thread = te.thread_axis("threadIdx.x")
    s[b].set_store_predicate(thread.var.equal(0))
    assert same(s[b].store_predicate, thread.var.equal(0))
    s[b].set_store_predicate(te.all(thread < 4, b.op.axis[0] % 2 == 0))
    text = s.steps[-1].condition
    assert text == ('["&&", ["<", "threadIdx.x", 4], ["==", ["%", "axis 0", 2], 0]]')
    assert str(s[b].read_condition(text)) == str(s[b].store_predicate)


def test_a_store_predicate_on_anything_else_is_refused():
    a, b = row_sum()
    s = te.create_schedule(b.op)
    with pytest.raises(ScheduleError, match=r"set_store_predicate\(B\): 'n' is neither a thread"):
        s[b].set_store_predicate(te.var("n") < 3)
    with pytest.raises(ScheduleError, match=r"set_store_predicate\(B\): expected a condition on"):
        s[b].set_store_predicate(a[0, 0] < 3.0)
