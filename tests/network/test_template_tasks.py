"""AutoTVM's tasks of networks, over the templates that come with autotune."""

import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import autotune.templates  # registers them
import pytest

import autotune
from autotune import te, topi, tvm
from autotune.errors import TemplateError
from autotune.network import template_tasks
from autotune.target import Target
from autotune.task import (
    TASK_TABLE,
    register_operator,
    register_topi_compute,
    register_topi_schedule,
)
from autotune.tvm import autotvm, relay
from autotune.tvm.relay import testing

TVM = {
    # What TVM's own tests count, and on a GPU what its strategies add.
    "llvm": {"conv2d_NCHWc.x86": 12, "dense_nopack.x86": 1, "dense_pack.x86": 1},
    "cuda": {
        "conv2d_nchw.cuda": 12,
        "conv2d_nchw_winograd.cuda": 4,
        "dense_small_batch.gpu": 1,
    },
}
FIRST = (("TENSOR", (1, 3, 224, 224), "float32"), ("TENSOR", (64, 3, 7, 7), "float32"),
         (2, 2), (3, 3, 3, 3), (1, 1))  # fmt: skip


@pytest.mark.parametrize("target", ["cuda", "llvm"])
def test_the_tasks_of_resnet_18_have_the_names_arguments_and_counts_of_tvm(target):
    module, params = testing.resnet.get_workload()
    tasks = autotvm.task.extract_from_program(module["main"], params, target)
    assert Counter(task.name for task in tasks) == TVM[target]
    rest = ("float32",) if target == "cuda" else ("NCHW", "NCHW", "float32")
    assert tasks[0].args == (*FIRST, *rest)
    assert tasks[-1].args == (
        ("TENSOR", (1, 512), "float32"), ("TENSOR", (1000, 512), "float32"), None, "float32",
    )  # fmt: skip
    assert not any(task.config_space.has_at_most(1) for task in tasks)
    _, weights = template_tasks(module["main"].graph, params, target)
    # 21 convolutions, of which 13 suit Winograd on a GPU, and a dense layer.
    assert sum(weights) == (21 + 13 + 1 if target == "cuda" else 21 + 2)


def test_operators_can_be_chosen_and_networks_share_their_tasks():
    resnet, a = testing.resnet.get_workload()
    mobilenet, b = testing.mobilenet.get_workload()
    only = autotvm.task.extract_from_program(mobilenet, b, "llvm", ops=["nn.dense"])
    assert [task.name for task in only] == ["dense_nopack.x86", "dense_pack.x86"]
    before_0_7 = autotvm.task.extract_from_program(mobilenet, b, ["nn.dense"], "llvm")
    assert [task.workload for task in before_0_7] == [task.workload for task in only]
    both = autotvm.task.extract_from_multiple_program([resnet, mobilenet], [a, b], "llvm")
    each = autotvm.task.extract_from_program(mobilenet, b, "llvm")

    def convolutions(tasks):
        return sum("conv2d" in task.name for task in tasks)

    # As in TVM's own tests.
    assert (convolutions(both), convolutions(each), len(each)) == (31, 19, 21)


FRESH = """
import tvm
from tvm import autotvm, relay
mod, params = relay.testing.mlp.get_workload(1, image_shape=(1, 4, 4))
dense = (relay.op.get("nn.dense"),)
print(len(autotvm.task.extract_from_program(mod["main"], params, "llvm", ops=dense)))
"""


def test_a_script_of_tvm_that_loads_no_templates_gets_those_of_autotune(tmp_path):
    (tmp_path / "fresh.py").write_text(FRESH)
    command = [sys.executable, "-m", "autotune.tvm", str(tmp_path / "fresh.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_networks_of_other_convolutions_have_as_many_tasks_as_in_tvm():
    names = {}
    for what in ("conv3d", "conv2d_transpose"):
        network = testing.resnet_3d if what == "conv3d" else testing.dcgan
        module, params = network.get_workload(1)
        for target in ("llvm", "cuda"):
            tasks = autotvm.task.extract_from_program(module, params, target, ops=[f"nn.{what}"])
            names[what, target] = Counter(task.name for task in tasks)
    assert names == {
        ("conv3d", "llvm"): {"conv3d_ncdhw.x86": 12},
        ("conv3d", "cuda"): {"conv3d_ncdhw.cuda": 12},
        ("conv2d_transpose", "llvm"): {"conv2d_NCHWc.x86": 4},
        ("conv2d_transpose", "cuda"): {"conv2d_transpose_nchw.cuda": 4},
    }


def rows(name):
    with open("tests/data/logs/tophub_cuda_v0.10.log") as log:
        return [line for line in log if f'"{name}"' in line]


@pytest.mark.parametrize("name", ["conv2d_nchw.cuda", "depthwise_conv2d_nchw.cuda"])
def test_a_task_finds_the_record_that_tvm_published_for_it_and_replays_it(name, tmp_path):
    log = tmp_path / "tophub.log"
    log.write_text(rows(name)[0])
    ((published, _),) = autotvm.record.load_from_file(log)
    task = autotvm.task.create(name, published.task.args, "cuda")
    assert task.workload == published.task.workload
    with autotvm.apply_history_best(str(log)), Target("cuda -model=titanx") as target:
        found = autotvm.task.DispatchContext.current.query(target, task.workload)
        schedule, arguments = task.instantiate(found)
    # TVM's knobs replay by the expression that has them; the space is that of our own kernel.
    assert [each.shape for each in arguments][:2] == [each[1] for each in task.args[:2]]
    assert schedule is not None
    assert "tile_f" not in task.config_space.space_map


def test_tensors_and_numbers_are_arguments_of_one_name_and_mistakes_say_which(monkeypatch):
    numbers = autotune.create("conv2d_nchw.cuda", (1, 8, 8, 4, 4, 3, 3, 1, 1), "cuda")
    data, kernel = te.placeholder((1, 4, 8, 8)), te.placeholder((4, 4, 3, 3))
    moves = ((1, 1), (1, 1, 1, 1), (1, 1), "float32")
    tensors = autotune.create("conv2d_nchw.cuda", (data, kernel, *moves), "cuda")
    assert [*numbers.config_space.space_map] == [*tensors.config_space.space_map]
    assert pickle.loads(pickle.dumps(tensors)) == tensors
    with pytest.raises(TemplateError, match="takes arguments that begin with a tensor"):
        autotune.create("dense_nopack.x86", (1, 2, 3), "llvm")
    with pytest.raises(TemplateError, match="cannot take the arguments"):
        autotune.create("conv2d_nchw.cuda", (data, kernel), "cuda")
    with pytest.raises(TemplateError, match="has a function for tensors already"):
        register_operator("conv2d_nchw.cuda")(lambda data: None)
    # Halves that a script registers under TVM's name come before ours.
    name = "dense_nopack.x86"
    monkeypatch.setitem(TASK_TABLE, name, replace(TASK_TABLE[name]))
    register_topi_compute(name, lambda cfg, a, b, bias, dtype: topi.nn.dense(a, b))
    register_topi_schedule(name, own_schedule)
    a, b = te.placeholder((2, 4)), te.placeholder((3, 4))
    task = autotune.create(name, (a, b, None, "float32"), "llvm")
    assert [*task.config_space.space_map] == ["mine"]


def own_schedule(cfg, outs):
    cfg.define_knob("mine", [1, 2])
    return te.create_schedule([outs[0].op])


def test_layers_that_no_kernel_takes_are_told_and_left_out(caplog):
    data, weight = (
        relay.var("data", shape=(1, 8), dtype="int8"),
        relay.var("weight", shape=(4, 8), dtype="int8"),
    )
    graph = tvm.IRModule.from_expr(relay.nn.dense(data, weight))["main"].graph
    names = [task.name for task in template_tasks(graph, None, "llvm")[0]]
    assert "dense_nopack.x86" in names
    large = relay.nn.dense(relay.var("d", shape=(64, 8), dtype="int8"), weight)
    graph = tvm.IRModule.from_expr(large)["main"].graph
    assert [t.name for t in template_tasks(graph, None, "cuda")[0]] == ["dense_small_batch.gpu"]
    assert "no task of dense_large_batch.gpu" in caplog.text
