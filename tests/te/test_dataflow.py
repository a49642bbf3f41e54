"""cache_read, cache_write and rfactor: the stages they make and what these compute."""

import pytest

from autotune import te
from autotune.errors import ScheduleError
from autotune.te.stage_state import StageState
from tests.te.graphs import chain, diamond, matmul, row_sum


def names(schedule):
    return [stage.name for stage in schedule.stages]


def body(schedule, key):
    return str(schedule[key].op.body[0])


def test_stages_stand_in_the_order_of_computation():
    *_, e = diamond()
    assert names(te.create_schedule(e.op)) == ["A", "B", "C", "D", "E"]


def test_a_schedule_finds_a_stage_by_tensor_or_operation():
    _, b, _, d = chain()
    s = te.create_schedule(d.op)
    assert s[b] is s[b.op] is s.stage_of(b)
    assert s[d].is_output
    with pytest.raises(ScheduleError, match=r"'B' is no tensor .* which has A, B, C, D"):
        s[chain()[1]]


def test_create_schedule_takes_tensors_and_lists():
    _, b, _, d = chain()
    assert te.create_schedule(d) == te.create_schedule([d.op])
    assert len(te.create_schedule([b, d]).outputs) == 2
    with pytest.raises(ScheduleError, match="create_schedule: expected operations or tensors"):
        te.create_schedule("C")
    with pytest.raises(ScheduleError, match="expected at least one operation"):
        te.create_schedule([])


def test_cache_read_puts_a_copy_between_a_tensor_and_its_readers():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    cache = s.cache_read(a, "shared", [c])
    assert names(s) == ["A", "A.shared", "B", "C"]
    assert body(s, cache) == "A[ax0, ax1]"
    assert body(s, c) == "sum(A.shared[i, k] * B[k, j], axis=[k])"
    assert s[cache].scope == "shared"
    assert s[c].op.input_tensors == (cache, b)


def test_cache_read_keeps_the_loops_of_the_readers():
    a, _, c = matmul()
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 8)
    s.cache_read(a, "shared", c)
    assert s[c].leaf_iter_vars[:2] == [outer, inner]
    assert s[c].op.axis == c.op.axis


def test_cache_read_of_a_cache_makes_a_chain():
    a, _, c = matmul()
    s = te.create_schedule(c.op)
    shared = s.cache_read(a, "shared", [c])
    local = s.cache_read(shared, "local", [c])
    assert names(s) == ["A", "A.shared", "A.shared.local", "B", "C"]
    assert body(s, local) == "A.shared[ax0, ax1]"
    assert body(s, c) == "sum(A.shared.local[i, k] * B[k, j], axis=[k])"


def test_a_second_copy_of_a_tensor_in_one_scope_has_a_name_of_its_own():
    _, b, c, d, e = diamond()
    s = te.create_schedule(e.op)
    for reader in (c, d):
        s.cache_read(b, "shared", [reader])
    assert [name for name in names(s) if "." in name] == ["B.d.shared", "B.shared"]
    assert body(s, c) == "B.shared[i] * 2.0f"
    assert body(s, d) == "B.d.shared[i] * 3.0f"


def test_cache_read_serves_several_readers_and_leaves_the_others():
    _, b, c, d, e = diamond()
    s = te.create_schedule(e.op)
    both = s.cache_read(b, "shared", [c, d.op])
    assert body(s, c) == "B.shared[i] * 2.0f"
    assert body(s, d) == "B.shared[i] * 3.0f"
    s.cache_read(both, "local", [d])
    assert body(s, c) == "B.shared[i] * 2.0f"
    assert body(s, d) == "B.shared.local[i] * 3.0f"


def test_a_reader_may_be_rewritten_many_times_and_still_be_found():
    a, b, c = matmul()
    d = te.compute((64, 32), lambda i, j: c[i, j] + 1, name="D")
    s = te.create_schedule(d.op)
    s.cache_read(a, "shared", [c])
    s.cache_read(b, "shared", [c])
    cache = s.cache_read(c, "local", [d])
    assert body(s, cache) == "C[ax0, ax1]"
    assert s[s[c].op] is s[c] is s[c.op]
    assert s[s[d].op.input_tensors[0]] is s[cache]
    assert s[d].reads_from(s[c])


def test_cache_read_by_a_stage_that_does_not_read_is_refused():
    a, b, c, d = chain()
    s = te.create_schedule(d.op)
    with pytest.raises(ScheduleError, match=r"cache_read\(A\): C does not read A"):
        s.cache_read(a, "shared", [b, c])
    assert (names(s), s.steps, body(s, b)) == (["A", "B", "C", "D"], (), "A[i] + 1.0f")
    with pytest.raises(ScheduleError, match=r"cache_read\(A\): expected at least one reader"):
        s.cache_read(a, "shared", [])
    with pytest.raises(ScheduleError, match=r"cache_read\(A\): expected a scope of"):
        s.cache_read(a, "texture", [b])


def test_cache_write_moves_the_computation_to_the_cache():
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "local")
    assert names(s) == ["A", "B", "C.local", "C"]
    assert body(s, cache) == "sum(A[i.c, k] * B[k, j.c], axis=[k])"
    assert body(s, c) == "C.local[i, j]"
    assert s[cache].scope == "local"
    assert s[cache].op.reduce_axis == c.op.reduce_axis


def test_after_cache_write_the_tensor_keeps_its_data_axes_and_loses_the_reduction():
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "local")
    assert s[c].op.axis == c.op.axis
    assert s[c].op.reduce_axis == ()
    assert [axis.name for axis in s[c].leaf_iter_vars] == ["i", "j"]
    assert [axis.name for axis in s[cache].leaf_iter_vars] == ["i.c", "j.c", "k"]
    s[cache].compute_at(s[c], c.op.axis[1])
    assert s[c].is_output
    assert not s[cache].is_output


def test_cache_write_in_the_middle_of_a_chain_serves_its_readers():
    _, b, c, d = chain()
    s = te.create_schedule(d.op)
    cache = s.cache_write(c, "shared")
    assert body(s, cache) == "B[i.c] * 2.0f"
    assert s[d].reads_from(s[cache])
    assert s[cache].reads_from(s[b])


def test_cache_write_of_several_outputs_takes_them_all():
    a = te.placeholder((4,), name="A")
    b, c = te.compute((4,), lambda i: (a[i] + 1, a[i] * 2), name="B")
    s = te.create_schedule(b.op)
    with pytest.raises(ScheduleError, match=r"cache_write\(B\): expected a list of all 2 outputs"):
        s.cache_write(b, "local")
    first, second = s.cache_write([b, c], "local")
    assert first.op is second.op
    assert [str(value) for value in s[b].op.body] == ["B.local.v0[i]", "B.local.v1[i]"]
    assert s[c] is s[b]


def test_cache_write_of_a_list_of_one_gives_a_list_of_one():
    _, _, c, d = chain()
    s = te.create_schedule(d.op)
    (cache,) = s.cache_write([c], "shared")
    assert cache.name == f"{c.name}.shared"


def test_cache_write_of_a_reduction_of_tuples_keeps_it_one_reduction():
    index = te.placeholder((4, 8), "int32", name="index")
    value = te.placeholder((4, 8), "float32", name="value")
    k = te.reduce_axis((0, 8), "k")
    larger = te.comm_reducer(
        lambda x, y: (te.Select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
    )
    at, most = te.compute((4,), lambda i: larger((index[i, k], value[i, k]), axis=k), name="T")
    s = te.create_schedule(at.op)
    first, _ = s.cache_write([at, most], "local")
    one, two = s[first].op.body
    assert one.sources is two.sources
    assert str(two.sources[1]) == "value[i.c, k]"


def test_cache_write_of_a_scheduled_stage_is_refused():
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], 4)
    with pytest.raises(ScheduleError, match=r"cache_write\(C\): its loops are scheduled already"):
        s.cache_write(c, "local")
    s = te.create_schedule(c.op)
    s[c].reorder(c.op.axis[1], c.op.axis[0])
    with pytest.raises(ScheduleError, match="its loops are scheduled already"):
        s.cache_write(c, "local")


def test_cache_write_of_a_placeholder_is_refused():
    a, *_, d = chain()
    with pytest.raises(ScheduleError, match="cache_write: A is a placeholder"):
        te.create_schedule(d.op).cache_write(a, "local")


def test_cache_write_of_no_dimensions():
    a = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((), lambda: te.sum(a[k], axis=k), name="B")
    s = te.create_schedule(b.op)
    cache = s.cache_write(b, "local")
    assert body(s, cache) == "sum(A[k], axis=[k])"
    assert body(s, b) == "B.local[]"


def test_rfactor_makes_a_reduction_for_each_value_of_the_axis():
    _, b = row_sum()
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], 4)
    factored = s.rfactor(b, inner)
    assert names(s) == ["A", "B.rf", "B"]
    assert factored.shape == (4, 16)
    assert body(s, factored) == "sum(A[i, k.outer * 4 + k.inner], axis=[k.outer])"
    assert body(s, b) == "sum(B.rf[k.inner.v, i], axis=[k.inner.v])"
    assert [a.name for a in s[factored].leaf_iter_vars] == ["k.inner", "i", "k.outer"]
    assert [a.name for a in s[b].leaf_iter_vars] == ["i", "k.inner.v"]
    s[b].bind(s[b].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    s[factored].compute_at(s[b], s[b].op.reduce_axis[0])


def test_rfactor_over_the_outer_part():
    _, b = row_sum()
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.reduce_axis[0], nparts=5)
    factored = s.rfactor(b, outer)
    assert factored.shape == (5, 16)
    assert body(s, factored) == "sum(A[i, k.outer * 20 + k.inner], axis=[k.inner])"


@pytest.mark.parametrize(
    ("factor_axis", "shape"), [(0, (4, 16)), (1, (16, 4)), (-1, (16, 4)), (-2, (4, 16))]
)
def test_rfactor_puts_the_new_dimension_where_it_is_asked_to(factor_axis, shape):
    _, b = row_sum()
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], 4)
    assert s.rfactor(b, inner, factor_axis).shape == shape


def test_rfactor_guards_what_runs_past_the_end():
    _, b = row_sum(m=10)
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], 4)
    factored = s.rfactor(b, inner)
    assert body(s, factored) == (
        "sum(A[i, k.outer * 4 + k.inner], axis=[k.outer], where=k.outer * 4 + k.inner < 10)"
    )


def test_rfactor_guards_a_part_of_a_part_that_runs_past_its_own_end():
    _, b = row_sum(m=8)
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], 4)
    _, innermost = s[b].split(inner, 3)
    factored = s.rfactor(b, innermost)
    assert str(s[factored].op.body[0].condition) == "k.inner.outer * 3 + k.inner.inner < 4"


def test_rfactor_of_a_whole_axis_leaves_no_reduction_in_between():
    _, b = row_sum()
    s = te.create_schedule(b.op)
    factored = s.rfactor(b, b.op.reduce_axis[0])
    assert body(s, factored) == "A[i, k]"
    assert s[factored].op.reduce_axis == ()


def test_rfactor_of_a_fused_axis():
    a = te.placeholder((4, 6, 8), name="A")
    k, m = te.reduce_axis((0, 6), "k"), te.reduce_axis((0, 8), "m")
    b = te.compute((4,), lambda i: te.sum(a[i, k, m], axis=[k, m]), name="B")
    s = te.create_schedule(b.op)
    fused = s[b].fuse(k, m)
    _, inner = s[b].split(fused, 16)
    factored = s.rfactor(b, inner)
    at = "k.m.fused.outer * 16 + k.m.fused.inner"
    assert body(s, factored) == (
        f"sum(A[i, floordiv({at}, 8), floormod({at}, 8)], axis=[k.m.fused.outer])"
    )


def test_rfactor_keeps_the_loops_over_other_reduction_axes():
    a = te.placeholder((4, 6, 8), name="A")
    k, m = te.reduce_axis((0, 6), "k"), te.reduce_axis((0, 8), "m")
    b = te.compute((4,), lambda i: te.sum(a[i, k, m], axis=[k, m]), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(k, 2)
    s[b].reorder(inner, m, outer)
    factored = s.rfactor(b, m)
    leaves = [axis.name for axis in s[factored].leaf_iter_vars]
    assert leaves == ["m", "i", "k.inner", "k.outer"]
    assert len(s[factored].relations) == 1
    assert s[factored].op.reduce_axis == (k,)


def test_rfactor_of_a_range_that_does_not_begin_at_zero():
    a = te.placeholder((10,), name="A")
    k = te.reduce_axis((2, 10), "k")
    b = te.compute((), lambda: te.sum(a[k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(k, 4)
    factored = s.rfactor(b, inner)
    assert body(s, factored) == "sum(A[k.outer * 4 + k.inner + 2], axis=[k.outer])"


def test_rfactor_reads_nothing_past_the_end_to_see_what_counts():
    a, use = te.placeholder((16, 7), name="A"), te.placeholder((7,), "int32", name="use")
    k = te.reduce_axis((0, 7), "k")
    b = te.compute((16,), lambda i: te.sum(a[i, k], axis=k, where=use[k] > 0), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(k, 4)
    factored = s.rfactor(b, inner)
    where = "k.outer * 4 + k.inner < 7 && use[k.outer * 4 + k.inner] > 0"
    assert f"where={where})" in body(s, factored)


def test_rfactor_computes_nothing_that_a_condition_now_keeps_from_it():
    a = te.placeholder((16,), "int32", name="A")
    k = te.reduce_axis((0, 1), "k")
    value = lambda i: te.if_then_else(k != 0, te.truncdiv(a[i], k), 7)
    b = te.compute((16,), lambda i: te.sum(value(i), axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(k, 1)
    assert body(s, s.rfactor(b, outer)) == "sum(7, axis=[k.inner])"


def test_rfactor_leaves_the_beginning_to_the_last_reduction():
    a = te.placeholder((16, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((16,), lambda i: te.sum(a[i, k], axis=k, init=i), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(k, 4)
    factored = s.rfactor(b, inner)
    assert "init" not in body(s, factored)
    assert body(s, b) == "sum(B.rf[k.inner.v, i], axis=[k.inner.v], init=[float32(i)])"


def test_rfactor_wants_a_reduction_axis_of_an_unscheduled_stage():
    _, b = row_sum()
    s = te.create_schedule(b.op)
    with pytest.raises(ScheduleError, match=r"rfactor\(B\): expected a reduction axis, got 'i'"):
        s.rfactor(b, b.op.axis[0])
    with pytest.raises(ScheduleError, match=r"factor_axis must be in -2\.\.1, got 2"):
        s.rfactor(b, b.op.reduce_axis[0], 2)
    s[b].split(b.op.axis[0], 4)
    with pytest.raises(ScheduleError, match=r"rfactor\(B\): its data axes are scheduled already"):
        s.rfactor(b, b.op.reduce_axis[0])


def test_a_copy_is_independent_and_shares_the_axes():
    a, _, c = matmul()
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 8)
    cache = s.cache_read(a, "shared", [c])
    s[cache].compute_at(s[c], outer)
    t = s.copy()
    assert t == s
    assert str(t) == str(s)
    t[c].unroll(inner)
    assert s[c].iter_attrs == {}
    assert t != s
    assert t[cache].attach_stage is t[c]
    assert s[cache].attach_stage is s[c]


def test_a_stage_of_a_copy_has_every_field_of_its_own():
    a, _, c = matmul()
    s = te.create_schedule(c.op)
    t = s.copy()
    for name in set(StageState.__slots__) - {"schedule"}:
        mine, theirs = getattr(s[a], name), getattr(t[a], name)
        assert mine == theirs, name
        assert mine is not theirs or not isinstance(mine, list | dict), name
    assert t[a].schedule is t


def test_a_factored_reduction_may_be_computed_in_a_cache():
    a = te.placeholder((8, 16, 3), name="A")
    k, r = te.reduce_axis((0, 16), "k"), te.reduce_axis((0, 3), "r")
    b = te.compute((8,), lambda i: te.sum(a[i, k, r], axis=[k, r]), name="B")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(k, nparts=4)
    part = s.rfactor(b, outer)
    cache = s.cache_write(part, "local")
    assert [axis.name for axis in s[cache].op.reduce_axis] == ["r", "k.inner"]
    s[cache].reorder(*s[cache].op.axis[::-1])
    with pytest.raises(ScheduleError, match="scheduled already"):
        s.cache_write(cache, "local")
