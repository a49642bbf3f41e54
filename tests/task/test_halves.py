"""Templates of two halves, a compute and a schedule, and the hash of their source."""

from types import SimpleNamespace

import pytest

from autotune import te
from autotune.errors import TemplateError
from autotune.target import Target
from autotune.task import (
    ApplyConfig,
    attach_code_hash,
    attach_code_hash_to_arg,
    create,
    get_config,
    get_workload,
    register_topi_compute,
    register_topi_schedule,
    template,
)
from tests.task.test_templates import config_of

pytestmark = pytest.mark.usefixtures("own_registry")


def make_halves():
    @register_topi_compute("test.halves")
    def double(cfg, a):
        cfg.define_split("tile", a.shape[0], num_outputs=2)
        return te.compute(a.shape, lambda i: a[i] * 2.0, name="double")

    @register_topi_schedule("test.halves")
    def schedule(cfg, outs):
        s = te.create_schedule([t.op for t in outs])
        cfg["tile"].apply(s, outs[0], outs[0].op.axis[0])
        return s

    return double, schedule


def test_two_halves_make_one_task():
    double, schedule = make_halves()
    a = te.placeholder((16,), name="A")
    task = create("test.halves", (a,), "llvm")
    assert task.config_space.dims == [5]
    s, tensors = task.instantiate(task.config_space.get(2))
    assert [t.shape for t in tensors] == [(16,), (16,)]
    with Target("llvm"), ApplyConfig(config_of(index=3, tile=[-1, 8])):
        s = schedule([double(a)])
    assert len(s.stages[-1].leaf_iter_vars) == 2


def test_a_schedule_half_wants_outputs_of_its_compute_half():
    double, schedule = make_halves()
    a = te.placeholder((16,), name="A")
    with pytest.raises(RuntimeError, match=r"Cannot find TOPI workload test.halves"):
        schedule([te.compute((16,), lambda i: a[i])])
    behind = te.compute((16,), lambda i: double(a)[i] + 1.0)
    assert get_workload(behind, "test.halves") == ("test.halves", ("TENSOR", (16,), "float32"))
    with pytest.raises(TemplateError, match=r"compute half of task 'test.halves' is registered"):
        make_halves()


def test_a_task_with_one_half_says_which_is_missing():
    register_topi_compute("test.half", lambda cfg: None)
    with pytest.raises(TemplateError, match="has no schedule half"):
        create("test.half", (), "llvm")


def test_a_source_hash_travels_from_schedule_to_space_to_configuration():
    @template("test.hashed")
    def hashed(n):
        a = te.placeholder((n,), name="A")
        c = te.compute((n,), lambda i: a[i] + 1.0, name="C")
        s = te.create_schedule(c.op)

        @attach_code_hash(s)
        def fill():
            get_config().define_knob("k", [1])

        fill()
        return s, [a, c]

    config = create("test.hashed", (4,), "llvm").config_space.get(0)
    assert int(config.code_hash, 16) > 0
    assert config.to_json_dict()["code_hash"] == config.code_hash

    @attach_code_hash_to_arg(1)
    def other(cfg, s):
        pass

    marked = SimpleNamespace()
    other(None, marked)
    assert marked.code_hash != config.code_hash


def test_halves_for_an_operator_and_targets_are_told_of_names():
    def dense(cfg, data, weight):
        """An operator."""

    for register in (register_topi_compute, register_topi_schedule):
        for arguments in ((dense, "cpu", "direct"), (dense, ["cpu"], ["direct"], dense)):
            with pytest.raises(TemplateError, match=r"got \['dense', .*_compute.'my_dense'"):
                register(*arguments)
