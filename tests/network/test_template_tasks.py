"""AutoTVM's tasks of networks, over the templates that come with autotune."""

import subprocess
import sys
from collections import Counter

import autotune.templates  # noqa: F401 - registers them
import pytest

from autotune.network import template_tasks
from autotune.tvm import autotvm
from autotune.tvm.relay import testing


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_the_twelve_convolutions_of_resnet_18_are_tasks_as_in_tvm(kind):
    module, params = testing.resnet.get_workload()
    target = "cuda" if kind == "cuda" else "llvm"
    tasks = autotvm.task.extract_from_program(module["main"], params, target)
    names = Counter(task.name for task in tasks)
    assert names == {f"conv2d_nchw.{kind}": 12, f"te/dense.{kind}": 1}
    assert tasks[0].args == (1, 224, 224, 64, 3, 7, 7, (2, 2), (3, 3))
    assert not any(task.config_space.has_at_most(1) for task in tasks)
    _, weights = template_tasks(module["main"].graph, params, target)
    assert sum(weights) == 22  # 21 convolutions and a dense layer


def test_operators_can_be_chosen_and_networks_share_their_tasks():
    resnet, a = testing.resnet.get_workload()
    mobilenet, b = testing.mobilenet.get_workload()
    only = autotvm.task.extract_from_program(mobilenet, b, "llvm", ops=["nn.dense"])
    assert [task.name for task in only] == ["te/dense.cpu"]
    both = autotvm.task.extract_from_multiple_program([resnet, mobilenet], [a, b], "llvm")
    each = autotvm.task.extract_from_program(mobilenet, b, "llvm")

    def convolutions(tasks):
        return sum("conv2d" in task.name for task in tasks)

    # TVM's own tests have 31 and 19; it has two templates for dense layers on the CPU, we one.
    assert (convolutions(both), convolutions(each), len(each)) == (31, 19, 20)


def test_without_templates_it_is_said_what_to_import():
    code = (
        "from autotune.tvm import autotvm, relay\n"
        "m, p = relay.testing.mlp.get_workload(1)\n"
        "autotvm.task.extract_from_program(m, p, 'llvm')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "`import autotune.templates` registers those that come with" in ended.stderr
