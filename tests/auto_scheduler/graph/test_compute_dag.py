"""The graph of computes: its order, its text, its copies."""

import pickle

import pytest

from autotune import te
from autotune.auto_scheduler import ComputeDAG
from autotune.errors import ExpressionError
from tests.auto_scheduler.graphs import matmul, tutorial_layer

TUTORIAL = """\
data = PLACEHOLDER [1, 512, 7, 7]
pad_temp(i0, i1, i2, i3) = tir.if_then_else(((((i2 >= 1) && (i2 < 8)) && (i3 >= 1)) && (i3 < 8)), \
data[i0, i1, (i2 - 1), (i3 - 1)], 0f)
kernel = PLACEHOLDER [512, 512, 3, 3]
compute(nn, ff, yy, xx) += (pad_temp[nn, rc, (yy + ry), (xx + rx)]*kernel[ff, rc, ry, rx])
bias = PLACEHOLDER [1, 512, 1, 1]
T_add(ax0, ax1, ax2, ax3) = (compute[ax0, ax1, ax2, ax3] + bias[ax0, ax1, 0, 0])
compute(i0, i1, i2, i3) = max(T_add[i0, i1, i2, i3], 0f)
"""


def test_the_tutorial_prints_as_in_the_tutorial():
    assert str(ComputeDAG(tutorial_layer())) == TUTORIAL


def test_operations_stand_in_the_order_of_a_plain_schedules_stages():
    tensors = tutorial_layer()
    dag = ComputeDAG(tensors)
    assert [op.name for op in dag.ops] == [
        "data", "pad_temp", "kernel", "compute", "bias", "T_add", "compute"
    ]  # fmt: skip
    assert list(dag.ops) == [each.op for each in te.create_schedule(tensors[-1].op).stages]
    assert dag.tensors == tuple(tensors)


def test_a_copy_has_the_same_text_and_key():
    dag = ComputeDAG(tutorial_layer())
    copy = pickle.loads(pickle.dumps(dag))
    assert (str(copy), copy.hash_key()) == (str(dag), dag.hash_key())
    assert [each.name for each in copy.tensors] == [each.name for each in dag.tensors]


def test_of_a_schedule_every_operation_reads_the_latest_version_of_the_others():
    a, _, c = matmul(16, 16, 8)
    d = te.compute((16, 16), lambda i, j: c[i, j] * 2.0, name="D")
    s = te.create_schedule(d.op)
    s.cache_write(c, "local")
    s.cache_read(a, "shared", [s.stages[2].op])
    dag = ComputeDAG(s)
    assert [op.name for op in dag.ops] == ["A", "A.shared", "B", "C.local", "C", "D"]
    assert all(tensor.op in dag.ops for op in dag.ops for tensor in op.input_tensors)
    assert [each.name for each in dag.tensors] == ["A", "B", "D"]
    assert "C(i, j) = C.local[i, j]" in str(dag)


def test_long_lines_are_cut_in_the_middle():
    a = te.placeholder((8,), name="A")
    value = lambda i: sum((a[i] * float(k) for k in range(2, 60)), a[i])
    line = str(ComputeDAG([a, te.compute((8,), value, name="B")])).splitlines()[-1]
    assert len(line) == 256 + len(" ..(OMITTED).. ")
    assert line[128:143] == " ..(OMITTED).. "


def test_what_is_no_graph_is_refused():
    a, b, c = matmul(8, 8, 8)
    lonely = te.placeholder((3,), name="lonely")
    with pytest.raises(ExpressionError, match="expected a list of te tensors"):
        ComputeDAG([a, "b"])
    with pytest.raises(ExpressionError, match="at least one computed tensor"):
        ComputeDAG([a, b])
    with pytest.raises(ExpressionError, match="lonely is given but no output reads it"):
        ComputeDAG([a, b, lonely, c])


def test_loops_of_one_operation_need_names_of_their_own():
    a = te.placeholder((4, 4), name="A")
    r, other = te.reduce_axis((0, 2), name="r"), te.reduce_axis((0, 2), name="r")
    b = te.compute((4,), lambda i: te.sum(a[i, r + other], axis=[r, other]), name="B")
    with pytest.raises(ExpressionError, match="B: the reduction axis that is r_1 here was given"):
        ComputeDAG([a, b])
    unnamed = [te.reduce_axis((0, 2)), te.reduce_axis((0, 2))]
    c = te.compute((4,), lambda i: te.sum(a[i, unnamed[0] + unnamed[1]], axis=unnamed), name="C")
    assert str(ComputeDAG([a, c])).endswith("C(i) += A[i, (rv + rv1)]\n")
