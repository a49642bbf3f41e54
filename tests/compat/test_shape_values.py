"""Scripts of AutoTVM ask the extents of a shape for their ``value``, as TVM's IntImm has it."""

import copy
import json
import pickle

import pytest

from autotune import tvm
from autotune.tvm import autotvm, te


def product(n, k, m):
    a = te.placeholder((n, k), name="A")
    b = te.placeholder((tvm.tir.IntImm("int32", k), m), name="B")
    r = te.reduce_axis((0, a.shape[1].value), name="r")
    shape = (a.shape[0].value, b.shape[1])
    return a, b, te.compute(shape, lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def test_extents_have_a_value_and_are_ints():
    a, b, c = product(4, 6, 8)
    assert [n.value for t in (a, b, c) for n in t.shape] == [4, 6, 6, 8, 4, 8]
    assert all(type(n.value) is int and n.dtype == "int32" for n in c.shape)
    assert c.shape == (4, 8)
    assert str(c.shape) == "(4, 8)"
    assert type(c.shape[0] // 2) is int


def test_extents_are_plain_ints_wherever_they_go():
    shape = product(4, 6, 8)[-1].shape
    for gone in (pickle.loads(pickle.dumps(shape)), copy.deepcopy(shape), json.loads("[4, 8]")):
        assert [type(n) for n in gone] == [int, int]
    assert json.dumps(shape) == "[4, 8]"


def test_extents_that_are_open_have_none():
    n = te.var("n")
    shape = te.placeholder((n, 4)).shape
    assert shape[0] is n
    assert shape[1].value == 4
    with pytest.raises(AttributeError):
        _ = shape[0].value


def test_extents_may_be_choices_of_a_template_that_is_tuned_and_replayed(tmp_path):
    @autotvm.template("compat/shape_values")
    def multiply(n):
        a, b, c = product(n, n, n)
        s = te.create_schedule(c.op)
        cfg = autotvm.get_config()
        y, _ = s[c].op.axis
        whole = c.shape[0]
        cfg.define_split(
            "y", y, num_outputs=2, policy="candidate", candidate=[[1, whole], [whole // 2, 2]]
        )
        cfg.define_knob("step", [1, whole])
        cfg.define_split("x", whole.value, num_outputs=2)
        cfg["y"].apply(s, c, y)
        assert cfg["step"].val in (1, n)
        return s, [a, b, c]

    log = str(tmp_path / "log.json")
    task = autotvm.task.create("compat/shape_values", args=(8,), target="llvm")
    runner = autotvm.LocalRunner(number=1, cooldown_interval=0)
    autotvm.tuner.GridSearchTuner(task).tune(
        n_trial=4,
        measure_option=autotvm.measure_option(builder="local", runner=runner),
        callbacks=[autotvm.callback.log_to_file(log)],
    )
    with autotvm.apply_history_best(log) as best, tvm.target.Target("llvm"):
        found = best.query(task.target, task.workload)
        assert found["step"].val in (1, 8)
        assert tvm.build(*multiply(8))
