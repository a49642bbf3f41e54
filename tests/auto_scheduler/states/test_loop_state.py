"""Loop states: what each primitive makes of the loops, and what bounds say then."""

import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG
from autotune.auto_scheduler.states.loops import ComputeAtKind
from autotune.auto_scheduler.states.state import State
from autotune.errors import ScheduleError
from tests.auto_scheduler.graphs import matmul


def extents(stage):
    return [loop.range.extent for loop in stage.iters]


def product_state(n=512, m=512, k=512):
    tensors = matmul(n, m, k)
    return ComputeDAG(tensors).get_init_state(), tensors


def conv_bn_relu():
    """Data, padding, kernel, convolution, bias, addition, scale, product, offset, sum, ReLU."""
    data = te.placeholder((1, 3, 224, 224), name="Data")
    kernel = te.placeholder((64, 3, 7, 7), name="Kernel")
    bias, scale, offset = (
        te.placeholder((64, 1, 1), name=name) for name in ("Bias", "Bn_scale", "Bn_offset")
    )
    conv = topi.nn.conv2d_nchw(data, kernel, 2, 3, 1)
    shape = conv.shape
    added = te.compute(shape, lambda b, c, y, x: conv[b, c, y, x] + bias[c, 0, 0], name="Add")
    scaled = te.compute(shape, lambda b, c, y, x: added[b, c, y, x] * scale[c, 0, 0], name="Mul")
    moved = te.compute(shape, lambda b, c, y, x: scaled[b, c, y, x] + offset[c, 0, 0], name="Bn")
    return ComputeDAG([data, kernel, bias, offset, scale, topi.nn.relu(moved)])


def test_splits_fuses_and_orders_have_the_extents_of_tvm():
    s, (_, _, c) = product_state()
    i, j, k = s[c].iters
    assert i.range.extent == 512
    io, ii = s.split(c, i, [16])
    assert s[c].iters[:2] == (io, ii)
    assert (io.range.extent, ii.range.extent) == (32, 16)
    jo, ji = s.split(c, j, [8])
    s.reorder(c, [io, jo, k, ji, ii])
    assert extents(s[c]) == [32, 64, 512, 8, 16]
    fused = s.fuse(c, [io, jo])
    assert fused.range.extent == 2048
    assert fused.name == "i.0@j.0@"


def test_a_split_counts_from_either_side():
    s, (_, _, c) = product_state()
    i, j, _ = s[c].iters
    s.split(c, i, [8, 2])
    s.split(c, j, [32, 8], False)
    assert extents(s[c]) == [32, 8, 2, 32, 8, 2, 512]
    assert [loop.name for loop in s[c].iters[3:6]] == ["j.0", "j.1", "j.2"]


def test_a_mark_gives_a_new_loop_with_the_number_of_tvm():
    s, (_, _, c) = product_state()
    parts = s.split(c, s[c].iters[0], [8, 4, 2])
    parts += s.split(c, s[c].iters[4], [8, 4, 2])
    marks = {
        "blockIdx.x": s.bind,
        "vthread": s.bind,
        "threadIdx.y": s.bind,
        "parallel": s.parallel,
        "unroll": s.unroll,
        "vectorize": s.vectorize,
    }
    for at, (name, mark) in enumerate(marks.items()):
        rest = (name,) if mark == s.bind else ()
        marked = mark(c, parts[at], *rest)
        assert marked == s[c].iters[at]
        assert marked.annotation == State.ANNOTATION_TRANS_TABLE[name]
    with pytest.raises(ScheduleError, match=r"is blockIdx\.x already"):
        s.parallel(c, s[c].iters[0])
    with pytest.raises(ScheduleError, match=r"thread_name must be one of .*blockIdx\.x"):
        s.bind(c, s[c].iters[7], "parallel")


def test_a_copy_changes_apart_and_shares_the_other_stages():
    s, (a, _, c) = product_state()
    other = s.copy()
    other.split(c, other[c].iters[0], [4])
    assert extents(s[c]) == [512, 512, 512]
    assert other[a] is s[a]
    assert other[c].iters[2] is s[c].iters[1]
    assert s != other
    again = s.copy()
    again.split(c, again[c].iters[0], [4])
    assert again == other
    assert hash(again) == hash(other)


def test_a_step_that_cannot_be_taken_leaves_the_state_as_it_was():
    s, (a, _, c) = product_state()
    i, j, k = s[c].iters
    before = s.state_object
    for wrong in (
        lambda: s.fuse(c, [i, k]),
        lambda: s.reorder(c, [j, i]),
        lambda: s.split(c, i, [0]),
        lambda: s.parallel(a, i),
        lambda: s.compute_at(c, c, i),
        lambda: s.follow_split(c, i, 0, 1),
        lambda: s.pragma(c, i, "auto_unroll_max_step$x"),
        lambda: s[9],
        lambda: s.rfactor(c, i, 0),
    ):
        with pytest.raises(ScheduleError):
            wrong()
    assert s.state_object is before


def test_inlining_attaching_and_detaching_of_a_convolution():
    dag = conv_bn_relu()
    s = dag.get_init_state()
    conv, add, mul, bn, relu = (s.stage_ops[i] for i in (3, 5, 7, 9, 10))
    for op in (bn, mul, add):
        s.compute_inline(op)
        assert s[op].compute_at == 1
    assert extents(s[conv]) == [1, 64, 112, 112, 3, 7, 7]
    s.compute_at(conv, relu, s[relu].iters[2])
    assert s[conv].compute_at == 2
    assert all(loop.range is None for loop in s[conv].iters)
    s = dag.infer_bound_from_state(s)
    assert extents(s[conv]) == [1, 1, 1, 112, 3, 7, 7]
    s.compute_root(mul)
    assert s[mul].compute_at == ComputeAtKind.ROOT
    s.compute_root(conv)
    s = dag.infer_bound_from_state(s)
    assert extents(s[conv]) == [1, 64, 112, 112, 3, 7, 7]


def test_nothing_is_inlined_at_whose_loops_something_hangs():
    dag = conv_bn_relu()
    s = dag.get_init_state()
    s.compute_at(5, 7, s[7].iters[1])
    with pytest.raises(ScheduleError, match="Add is computed at a loop of Mul"):
        s.compute_inline(7)


def split_kernel_graph():
    data = te.placeholder((4, 512, 7, 7), name="Data")
    given = te.placeholder((512, 512, 3, 3), name="Kernel_data")
    k0, k1 = te.compute(
        given.shape, lambda *i: (given(*i) + 1, given(*i) / 2), name="Kernel_split"
    )
    kernel = te.compute(given.shape, lambda *i: k0(*i) + k1(*i), name="Kernel")
    conv = topi.nn.conv2d_nchw(data, kernel, (1, 1), (1, 1), dilation=1)
    relu = topi.nn.relu(conv)
    out = topi.add(data, relu)
    return ComputeDAG([data, given, out]), (data, k0, kernel, conv, relu, out)


def test_caches_of_every_kind_in_one_state():
    dag, (data, k0, kernel, conv, relu, out) = split_kernel_graph()
    s = dag.get_init_state()
    pad = s.stage_ops[1]
    first, *rest = s[out].iters
    outer, inner = s.split(out, first, [2])
    s.reorder(out, [outer, rest[0], inner, *rest[1:]])
    s.compute_inline(relu)
    cache = s.cache_write(conv, "global")
    s.compute_at(cache, conv, s[conv].iters[3])
    kernel_copy = s.cache_read(kernel, "global", [cache])
    s.compute_at(kernel_copy, cache, s[cache].iters[4])
    far = s.cache_read(pad, "global", [cache])
    near = s.cache_read(far, "shared", [cache])
    s.compute_at(far, cache, s[cache].iters[2])
    s.compute_at(near, cache, s[cache].iters[4])
    s.cache_read(data, "global", [pad, out])
    s.cache_write(k0, "global")
    names = [stage.name for stage in s.stages]
    assert names == [
        "Data", "Data.global", "pad_temp", "pad_temp.global", "pad_temp.global.shared",
        "Kernel_data", "Kernel_split.global", "Kernel_split", "Kernel", "Kernel.global",
        "compute.global", "compute", "compute", "T_add",
    ]  # fmt: skip
    s = dag.infer_bound_from_state(s)
    assert extents(s[cache]) == [1, 1, 1, 1, 512, 3, 3]
    assert extents(s[kernel_copy]) == [1, 1, 3, 3]
    assert extents(s[far]) == [1, 512, 3, 3]
    assert extents(s[near]) == [1, 1, 3, 3]
    assert extents(s[data]) == []
    assert extents(s[k0]) == [512, 512, 3, 3]
    schedule, tensors = dag.apply_steps_from_state(s)
    assert [stage.op.name for stage in schedule.stages] == names
    assert tensors == dag.tensors


def test_a_second_copy_of_a_tensor_has_a_name_of_its_own():
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((8, 8), lambda i, j: a[i, j] + b[i, j], name="C")
    s = ComputeDAG([a, c]).get_init_state()
    s.cache_read(a, "shared", [b])
    s.cache_read(a, "shared", [c])
    assert [op.name for op in s.stage_ops] == ["A", "A.d.shared", "A.shared", "B", "C"]


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 5])
def test_a_following_split_has_the_leading_extents_of_its_source(levels):
    tensors = matmul(512, 512, 512)
    relu = topi.nn.relu(tensors[2])
    s = ComputeDAG([*tensors[:2], relu]).get_init_state()
    s.split(2, s[2].iters[0], [4, 2, 8, 4], True)
    source = len(s.transform_steps) - 1
    s.split(relu, s[relu].iters[1], [1])
    made = s.follow_split(relu, s[relu].iters[0], source, levels)
    assert len(made) == levels + 1
    want = extents(s[2])[:5]
    for i, loop in enumerate(made[:levels]):
        assert loop.range.extent == want[i]


def test_a_following_fused_split_takes_the_product_of_a_level():
    tensors = matmul(512, 512, 512)
    a, _, c = tensors
    dag = ComputeDAG(tensors)
    base = dag.get_init_state()
    steps = []
    for at in (1, 0):
        base.split(c, base[c].iters[at], [16, 8, 4, 2])
        steps.append(len(base.transform_steps) - 1)
    for level in range(4):
        product = [16, 8, 4, 2][level] ** 2
        for by_factor in (True, False):
            s = base.copy()
            copy = s.cache_read(a, "shared", [c])
            fused = s.fuse(copy, s[copy].iters)
            outer, inner = s.follow_fused_split(copy, fused, steps, level, by_factor)
            assert (inner if by_factor else outer).range.extent == product


@pytest.mark.parametrize(("part", "names"), [(0, ["k_i"]), (1, ["k_o"])])
def test_a_reduction_is_factored_on_either_part(part, names):
    a = te.placeholder((8, 1024), name="A")
    b = te.placeholder((1024, 8), name="B")
    r = te.reduce_axis((0, 1024), name="k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, r] * b[r, j], axis=[r]), name="C")
    dag = ComputeDAG([a, b, c])
    s = dag.get_init_state()
    parts = s.split(c, s[c].iters[2], [16])
    first = s.rfactor(c, parts[part], 1)
    kept, left = ((64, 16), (16, 64))[part]
    assert extents(s[first]) == [8, kept, 8, left]
    assert [loop.name for loop in s[first].iters if loop.iter_kind == 1] == names
    assert extents(s[c]) == [8, 8, kept]
    assert [op.name for op in s.stage_ops] == ["A", "B", "C.rf", "C.repl"]
    assert [loop.name for loop in s[c].iters][:2] == ["ax0", "ax1"]
    bounded = dag.infer_bound_from_state(s)
    assert extents(bounded[first]) == [8, kept, 8, left]


def test_what_hangs_at_a_loop_follows_it():
    tensors = matmul(64, 64, 64)
    relu = topi.nn.relu(tensors[2])
    s = ComputeDAG([*tensors[:2], relu]).get_init_state()
    i, j = s[relu].iters
    s.compute_at(2, relu, j)
    assert s.state_object.attach == {2: (3, 1)}
    outer, inner = s.split(relu, i, [8])
    assert s.state_object.attach == {2: (3, 2)}
    s.split(relu, s[relu].iters[2], [4])
    assert s.state_object.attach == {2: (3, 3)}
    s.reorder(relu, [outer, s[relu].iters[2], s[relu].iters[3], inner])
    assert s.state_object.attach == {2: (3, 2)}
    with pytest.raises(ScheduleError, match="at one of its loops but the last"):
        s.fuse(relu, s[relu].iters[2:])
    s.fuse(relu, [outer, s[relu].iters[1], s[relu].iters[2]])
    assert s.state_object.attach == {2: (3, 0)}


def test_undecided_lengths_leave_what_is_beyond_unknown():
    s, (_, _, c) = product_state()
    parts = s.split(c, s[c].iters[0], [4, None, 2])
    assert [loop.extent for loop in parts] == [None, None, None, 2]
    assert not s.concrete
    with pytest.raises(ScheduleError, match="not decided yet"):
        s.compute_dag.apply_steps_from_state(s)


def test_the_text_leaves_out_single_iterations_and_shows_what_hangs_where():
    tensors = matmul(512, 512, 512)
    relu = topi.nn.relu(tensors[2])
    s = ComputeDAG([*tensors[:2], relu]).get_init_state()
    _, inner = s.split(relu, s[relu].iters[0], [512])
    s.compute_at(2, relu, inner)
    s.pragma(2, s[2].iters[0], "auto_unroll_max_step$64")
    s.vectorize(relu, s[relu].iters[2])
    assert str(s) == (
        "Placeholder: A, B\n"
        "for i0.1 (0,512)\n"
        "  C auto_unroll: 64\n"
        "  for i (None)\n"
        "    for j (None)\n"
        "      for k (None)\n"
        "        C = ...\n"
        "  vectorize i1 (0,512)\n"
        "    compute = ...\n"
    )


def test_weights_that_no_operation_sets_free_keep_their_layout():
    s, _ = product_state(8, 8, 8)
    dag = s.compute_dag
    (plain, tensors), *same = (dag.apply_steps_from_state(s, option) for option in (0, 1, 2))
    assert all((each.steps, given) == (plain.steps, tensors) for each, given in same)


def test_aligning_a_loop_that_is_no_dimension_does_nothing():
    a, b, c = matmul(8, 8, 64)
    dag = ComputeDAG([a, b, c])
    s = dag.get_init_state()
    s.storage_align(c, s[c].iters[2], 8, 4)
    plain, aligned = (dag.apply_steps_from_state(each)[0] for each in (dag.init_state, s))
    assert plain == aligned
    assert "storage_align" not in dag.print_python_code_from_state(s)
    assert dag.infer_bound_from_state(s)[c].iters[2].range.extent == 64


def test_stages_are_not_computed_in_loops_of_each_other():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((8,), lambda i: b[i] * 2.0, name="C")
    d = te.compute((8,), lambda i: c[i] - 3.0, name="D")
    s = ComputeDAG([a, d]).get_init_state()
    s.compute_at(b, c, s[c].iters[0])
    s.compute_at(c, d, s[d].iters[0])
    with pytest.raises(ScheduleError, match="B is computed in a loop of D itself"):
        s.compute_at(d, b, s[b].iters[0])
    assert "for i (0,8)\n  for i (None)\n    for i (None)\n      B = ...\n" in str(s)


def test_a_cache_is_written_before_anything_else_is_done_to_the_loops():
    s, (_, _, c) = product_state(8, 8, 8)
    s.split(c, s[c].iters[0], [2])
    before = str(s)
    with pytest.raises(ScheduleError, match="before all steps on loops of C"):
        s.cache_write(c, "local")
    assert str(s) == before
    s, (a, _, c) = product_state(8, 8, 8)
    copy = s.cache_read(a, "shared", [c])
    s.compute_at(copy, c, s[c].iters[0])
    with pytest.raises(ScheduleError, match="before all steps on loops of C"):
        s.cache_write(c, "local")
    s.split(c, s[c].iters[2], [2])
    with pytest.raises(ScheduleError, match="stages are computed in loops of C"):
        s.rfactor(c, s[c].iters[2], 2)


@pytest.mark.parametrize("between", [False, True])
def test_a_reduction_is_factored_along_a_loop_however_it_came_about(between):
    s, (a, _, c) = product_state(8, 8, 64)
    s.split(c, s[c].iters[2], [16])
    if between:
        s.cache_read(a, "global", [c])
    s.follow_split(c, s[c].iters[3], 0, 1)  # 16 by 16
    s.split(c, s[c].iters[2], [2])
    rf = s.rfactor(c, s[c].iters[3], 2)
    assert extents(s[rf]) == [8, 8, 2, 2, 1, 16]
    assert extents(s[c]) == [8, 8, 2]
    bound = s.compute_dag.infer_bound_from_state(s)
    assert extents(bound[rf]) == [8, 8, 2, 2, 1, 16]
