"""Schedules as recorded steps: printing, comparing, JSON, replay."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autotune
from autotune import te
from autotune.errors import ScheduleError
from tests.te.graphs import chain, matmul, padded_convolution, row_sum


def every_primitive(view=True):
    """Return a schedule in which each primitive was used; those that TVM lacks if asked."""
    a, b, c = matmul()
    d = te.compute((64, 32), lambda i, j: c[i, j] + 1, name="D")
    e = te.compute((64, 32), lambda i, j: d[i, j] * 2, name="E")
    s = te.create_schedule(e.op)
    s[d].compute_inline()
    _, inner = s[c].split(c.op.reduce_axis[0], 16)
    factored = s.rfactor(c, inner, 1)
    if view:
        s.cache_write(e, "local", (0, 8))
    x, y, xi, yi = s[e].tile(*e.op.axis, 8, 4)
    s[e].bind(s[e].fuse(x, y), te.thread_axis("blockIdx.x"))
    s[e].bind(xi, te.thread_axis(8, "threadIdx.x"))
    s[e].vectorize(yi)
    s[c].compute_at(s[e], xi)
    s[c].unroll(s[c].op.reduce_axis[0])
    s[c].set_scope("local")
    local = s.cache_write(factored, "local")
    if view:
        a = s.reindex(a, local, [[0, 1], [2, 3]])
        s[a].compute_inline()
        b = s.permute(b, local, [1, 0])
    shared = s.cache_read(a, "shared", [local])
    s[shared].compute_at(s[local], s[local].op.reduce_axis[0])
    s[shared].storage_align(s[shared].op.axis[0], 32, 1)
    s[shared].double_buffer()
    s[shared].pragma(s[shared].op.axis[0], "auto_unroll_max_step", 16)
    other = s.cache_read(b, "shared", [local])
    s[other].compute_at(s[local], s[local].op.reduce_axis[0])
    s[other].async_copy(3)
    s[other].compute_root()
    s[other].vthread(s[other].op.axis[0])
    s[factored].parallel(s[factored].op.axis[0])
    s[c].set_store_predicate(te.thread_axis("threadIdx.x").var.equal(0))
    return s.normalize()


def test_every_kind_of_step_is_recorded_by_its_primitive():
    recorded = {type(step).tag for step in every_primitive().steps}
    # Which scans have, sums over zeros, sums of 16-bit floats, and loops that are an intrinsic.
    of_few = {"env_threads", "cache_write_phases", "cache_write_wide", "prefetch", "tensorize"}
    assert recorded == {*te.STEPS} - {"", *of_few}


def test_replay_gives_an_equal_schedule_of_the_same_text():
    s = every_primitive()
    again = te.replay(s.outputs, s.steps)
    assert again == s
    assert str(again) == str(s)
    assert te.dag_text([again.stages[-1].op]) == te.dag_text([s.stages[-1].op])


def test_steps_go_through_json():
    s = every_primitive()
    text = json.dumps([step.to_json() for step in s.steps])
    assert tuple(te.step_from_json(row) for row in json.loads(text)) == s.steps


def test_steps_hold_nothing_but_integers_and_strings():
    def plain(value):
        return isinstance(value, int | str) or all(isinstance(v, int | str) for v in value)

    for step in every_primitive().steps:
        assert all(plain(value) for value in step.to_json())
        hash(step)


def test_a_step_prints_what_it_does():
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[1], 8)
    assert str(s.steps[0]) == "Split(stage='2', axis=1, factors=(8,), from_inner=True)"
    assert s.steps[0].to_json() == ["split", "2", 1, [8], True]


def test_a_failed_primitive_leaves_no_step():
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError):
        s[c].bind(c.op.reduce_axis[0], te.thread_axis("blockIdx.x"))
    with pytest.raises(ScheduleError):
        s.cache_read(c, "shared", [c])
    assert s.steps == ()


def test_schedules_of_equal_graphs_and_steps_are_equal():
    def scheduled(n, factor):
        *_, d = chain(n)
        s = te.create_schedule(d.op)
        s[d].split(d.op.axis[0], factor)
        return s

    assert scheduled(64, 8) == scheduled(64, 8)
    assert scheduled(64, 8) != scheduled(64, 4)
    assert scheduled(64, 8) != scheduled(32, 8)
    assert scheduled(64, 8) != "schedule"


def test_tensors_of_one_name_do_not_make_different_graphs_equal():
    def graph(swap):
        a = te.placeholder((4,), name="T")
        b = te.compute((4,), lambda i: a[i] + 1, name="T")
        return te.compute((4,), lambda i: (a if swap else b)[i] - (b if swap else a)[i], name="U")

    one, other = graph(False), graph(True)
    assert te.dag_text([one.op]) != te.dag_text([other.op])
    assert te.create_schedule(one) != te.create_schedule(other)


def test_an_unknown_step_is_refused():
    with pytest.raises(ScheduleError, match="step 'splat' is unknown; expected one of split"):
        te.step_from_json(["splat", 1])
    with pytest.raises(ScheduleError, match="step 'split': expected stage, axis, factors, "):
        te.step_from_json(["split", 1])
    with pytest.raises(ScheduleError, match=r"step '' is unknown; expected .* bind, unroll"):
        te.step_from_json(["", "2", 0])


def test_a_step_for_another_graph_says_what_is_missing():
    _, _, c = matmul()
    with pytest.raises(ScheduleError, match=r"Split\(stage='9'.*is none of .* 2 \(C\)"):
        te.replay(c, [te.step_from_json(["split", "9", 0, [2], True])])
    with pytest.raises(ScheduleError, match=r"Unroll\(stage='2', axis=7\): C has only 3 axes"):
        te.replay(c, [te.step_from_json(["unroll", "2", 7])])


def test_the_text_of_a_schedule_shows_stages_and_loops():
    _, b = row_sum()
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], 4)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].pragma(outer, "note", 1)
    cache = s.cache_read(b.op.input_tensors[0], "shared", [b])
    s[cache].compute_at(s[b], outer)
    s[cache].storage_align(s[cache].op.axis[0], 32, 1)
    expected = """\
A: placeholder
A.shared: at i.outer of B, shared, align 0 to 32 + 1
  for ax0
    for ax1
B: root
  for i.outer  # blockIdx.x, note=1
    for i.inner
      for k  # reduce"""
    assert str(s) == expected
    assert repr(s) == "Schedule(B: 3 stages, 6 steps)"


STAGES = st.integers(0, 20)
PICK = st.integers(0, 20)


KINDS = [
    *("split", "nparts", "fuse", "reorder", "bind", "unroll", "vectorize", "pragma"),
    *("at", "inline", "root", "read", "write", "rfactor", "align"),
]
MOVES = st.lists(st.tuples(st.sampled_from(KINDS), STAGES, PICK, PICK), min_size=1, max_size=12)


def _readers(s, stage):
    return [other for other in s.stages if any(s[t] is stage for t in other.op.input_tensors)]


def _move(s, kind, which, one, two):
    """Try one primitive on what the numbers pick; most are legal, the rest raise."""
    stage = s.stages[which % len(s.stages)]
    leaves = stage.leaf_iter_vars
    first = one % max(1, len(leaves))
    if kind == "read":
        readers = _readers(s, stage)
        s.cache_read(stage.op.outputs[0], "local", [x.op for x in readers[: 1 + two % 2]])
    elif kind == "at":
        target = _readers(s, stage)[0]
        stage.compute_at(target, target.leaf_iter_vars[one % max(1, len(target.leaf_iter_vars))])
    elif kind == "write":
        s.cache_write(list(stage.op.outputs), "local")
    elif kind == "rfactor":
        s.rfactor(stage.op.outputs[0], leaves[-1 - two % 3], one % 3 - 1)
    elif kind == "align":
        stage.storage_align(stage.op.axis[0], 8, two % 8)
    elif kind in ("inline", "root"):
        getattr(stage, f"compute_{kind}")()
    elif kind == "fuse":
        stage.fuse(*leaves[first : first + 1 + two % 3])
    elif kind == "reorder":
        stage.reorder(leaves[first], leaves[two % len(leaves)])
    elif kind == "bind":
        threads = ("threadIdx.x", "threadIdx.y", "blockIdx.x", "vthread")
        stage.bind(leaves[first], te.thread_axis(threads[two % 4]))
    elif kind == "pragma":
        stage.pragma(leaves[first], "auto_unroll_max_step", two)
    elif kind == "split":
        stage.split(leaves[first], 1 + two)
    elif kind == "nparts":
        stage.split(leaves[first], nparts=1 + two)
    else:
        getattr(stage, kind)(leaves[first])


@settings(max_examples=150, deadline=None)
@given(MOVES)
def test_replay_of_any_schedule_gives_an_equal_one(moves):
    *_, relu = padded_convolution()
    s = te.create_schedule(relu.op)
    for move in moves:
        try:
            _move(s, *move)
        except (ScheduleError, IndexError, ZeroDivisionError):
            continue
    steps = tuple(te.step_from_json(json.loads(json.dumps(step.to_json()))) for step in s.steps)
    again = te.replay(s.outputs, steps)
    assert again == s
    assert str(again) == str(s)
    assert [te.dag_text([x.op]) for x in again.stages] == [te.dag_text([x.op]) for x in s.stages]
    copied = s.copy()
    assert copied == s
    assert str(copied) == str(s)


def test_a_stage_keeps_its_key_while_others_are_put_before_it():
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    key = s[c].key
    local = s.cache_write(c, "local")
    first = s.cache_read(c.op.input_tensors[0], "shared", [local])
    again = s.cache_read(c.op.input_tensors[0], "shared", [first])
    assert s[c].key == key == "2"
    assert [s[each].key for each in (local, first, again)] == ["2.local", "0.shared", "0.shared.1"]
    assert s.stage_by_key("2.local") is s[local]


def test_steps_on_other_stages_hold_when_a_step_that_adds_a_stage_is_left_out():
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    s.cache_read(c.op.input_tensors[0], "shared", [c])
    s[c].split(c.op.axis[0], 8)
    fewer = te.replay(c, s.steps[1:])
    assert len(fewer.stages) == len(s.stages) - 1
    assert [axis.name for axis in fewer[c].leaf_iter_vars] == ["i.outer", "i.inner", "j", "k"]


@pytest.mark.parametrize("from_inner", [True, False])
def test_a_split_in_several_is_one_step_and_the_loops_of_splits_in_two(from_inner):
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    loops = s[c].multi_split(c.op.axis[0], [2, 4], from_inner)
    assert len(s.steps) == 1
    two = te.create_schedule(c.op)
    _, rest = two[c].split(c.op.axis[0], **({"factor": 8} if from_inner else {"nparts": 2}))
    two[c].split(rest, **({"factor": 4} if from_inner else {"nparts": 4}))
    assert str(s) == str(two)
    assert [axis.name for axis in loops] == [
        axis.name for axis in two[c].leaf_iter_vars[: len(loops)]
    ]
    assert str(autotune.lower(s, [*c.op.input_tensors, c])) == str(
        autotune.lower(two, [*c.op.input_tensors, c])
    )


def test_what_is_attached_to_a_split_loop_moves_to_its_innermost_part():
    *_, c, d = chain()
    s = te.create_schedule(d.op)
    s[c].compute_at(s[d], d.op.axis[0])
    *_, inner = s[d].multi_split(d.op.axis[0], [2, 2])
    assert s[c].attachment == (s[d], inner)


def test_an_open_split_is_filled_before_it_is_taken():
    _, _, c = matmul()
    step = te.Split("2", 0, (None, 4))
    assert step.is_open
    assert te.step_from_json(json.loads(json.dumps(step.to_json()))) == step
    with pytest.raises(ScheduleError, match=r"has open factors; Split\.fill"):
        te.replay(c, [step])
    with pytest.raises(ScheduleError, match=r"expected 1 factors .* got \[2, 3\]"):
        step.fill([2, 3])
    filled = step.fill([2])
    assert filled == te.Split("2", 0, (2, 4))
    assert te.replay(c, [filled]).steps == (filled,)


@pytest.mark.parametrize("factor", [0, -1, 2.5, "8", None])
def test_a_factor_that_is_no_positive_number_is_refused(factor):
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match=r"split\('i'\): a factor must be"):
        s[c].multi_split(c.op.axis[0], [2, factor])
    assert s.steps == ()
