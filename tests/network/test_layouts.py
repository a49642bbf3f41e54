"""The layout of a network's images is raced on a GPU, and the log says who won."""

from types import SimpleNamespace

import numpy as np
import pytest

from autotune.errors import DeviceError
from autotune.graph import Constant, Graph, TensorType, Variable, apply, digest, ops
from autotune.graph.passes import OWN
from autotune.network import History, layouts, tune_network
from autotune.network.layouts import race_layouts
from autotune.network.plan import plan_network
from autotune.network.tuning import tune
from autotune.network.tuning.tuning_log import NetworkLog, write_note
from autotune.target import Target
from tests.network.test_tune import CPU, is_right, small


def nhwc():
    """Return a network of NHWC images that computes much for each of them."""
    rng = np.random.default_rng(0)
    data = Variable(TensorType((1, 4, 5, 16)), "data")
    op = ops.Conv2d(padding=(1,), data_layout="NHWC", kernel_layout="HWIO")
    for _ in range(2):
        weight = Constant.of(rng.normal(size=(3, 3, 16, 16)).astype("float32"))
        data = apply(op, data, weight)
    return Graph.of(data)


@pytest.mark.parametrize("faster", [0, 1])
def test_the_layout_that_runs_faster_is_kept_and_told(tmp_path, monkeypatch, faster):
    target, log, raced = Target("cuda -emulate"), tmp_path / "net.log", []

    def compare(*instances):
        raced.append([len(each.plan.steps) for each in instances])
        return (1.0, 2.0)[:: 1 - 2 * faster]

    monkeypatch.setattr(layouts, "compare_in_turns", compare)
    monkeypatch.setattr(layouts.Variants, "of", lambda self, choices: planned(self))
    graph = race_layouts(nhwc(), target, NetworkLog.read(log))
    shapes = {node.output.shape for node in graph.nodes}
    assert ((1, 16, 4, 5) in shapes) != bool(faster)
    assert len(raced) == 1
    # Ever after: the same, without a race.
    again = race_layouts(nhwc(), target, NetworkLog.read(log))
    assert digest(again) == digest(graph)
    assert len(raced) == 1
    pipeline = History(log).pipeline(nhwc(), target)
    assert digest(pipeline(nhwc())) == digest(graph)
    assert History(log).pipeline(nhwc(), "llvm") is OWN


def planned(variants):
    """Return what is planned of a network, without a compiler."""
    choose = lambda function, target: variants.untuned[function.signature]
    plan = plan_network(variants.graph, 3, variants.target, choose)
    return SimpleNamespace(instance=lambda where: SimpleNamespace(plan=plan))


def test_a_network_that_was_tuned_before_keeps_its_layout(tmp_path):
    log = tmp_path / "net.log"
    graph = OWN(nhwc())
    write_note(log, {"network": digest(graph), "spent_s": 3.0})
    assert digest(race_layouts(nhwc(), Target("cuda -emulate"), NetworkLog.read(log))) == digest(
        graph
    )


def test_layouts_are_not_raced_where_templates_know_one_only(tmp_path):
    log = NetworkLog.read(tmp_path / "net.log")
    for graph, target in ((nhwc(), CPU), (small(), Target("cuda -emulate"))):
        race_layouts(graph, target, log)
    assert not log.path.exists()


def test_a_layout_that_does_not_run_ends_no_tuning_and_an_interrupt_leaves_a_network(
    tmp_path, monkeypatch, caplog
):
    target, log = Target("cuda -emulate"), tmp_path / "net.log"

    def broken(*instances):
        raise DeviceError("out of memory")

    monkeypatch.setattr(layouts, "compare_in_turns", broken)
    monkeypatch.setattr(layouts.Variants, "of", lambda self, choices: planned(self))
    graph = race_layouts(nhwc(), target, NetworkLog.read(log))
    assert digest(graph) == digest(OWN(nhwc()))
    assert "layouts were not raced: out of memory" in caplog.text
    # Without time nothing is run at all.
    monkeypatch.setattr(layouts, "compare_in_turns", None)
    race_layouts(nhwc(), target, NetworkLog.read(log), in_time=False)
    assert not log.exists()

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(tune, "race_layouts", interrupted)
    network = tune_network(small(), None, CPU, budget_s=1000, log=log, on_round=None)
    assert is_right(network, small())


def test_a_note_of_a_layout_without_its_passes_says_nothing(tmp_path):
    log = tmp_path / "net.log"
    write_note(log, {"layout_of": digest(nhwc()), "target": str(Target("cuda"))})
    assert History(log).pipeline(nhwc(), "cuda") is OWN
