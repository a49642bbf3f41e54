"""Networks on a GPU, untuned: every kernel, and one CUDA graph of them."""

import numpy as np
import pytest

from autotune.network import History, compile_network, tune_network
from autotune.network.tuning_log import NetworkLog
from autotune.runtime.timing import TimeOptions
from tests.graph.networks import SMALL, bound, inputs_of
from tests.network.test_tune import small as tune_small

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", SMALL)
def test_every_network_of_the_zoo_is_right_on_the_gpu_untuned(name):
    graph = bound(name)
    arrays = inputs_of(graph)
    instance = compile_network(graph, "cuda").instance()
    got = [each.numpy() for each in instance(*arrays)]
    for one, want in zip(got, graph.run(*arrays), strict=True):
        assert np.linalg.norm(one - want) / np.linalg.norm(want) < 1e-5
    assert instance.time(TimeOptions(number=3, repeat=3)).median > 0


def test_steps_are_timed_within_a_graph_and_add_up_to_a_run():
    graph = bound("mlp")
    instance = compile_network(graph, "cuda").instance()
    instance(*inputs_of(graph))
    whole = instance.time(TimeOptions(number=20, repeat=5)).median
    steps = [sum(instance.step_seconds()) for _ in range(9)]
    assert sorted(steps)[4] == pytest.approx(whole, rel=0.5)


def test_a_network_is_tuned_on_the_gpu_and_its_log_chooses_the_same_kernels(tmp_path):
    graph, log = tune_small(), tmp_path / "net.log"
    arrays, told = inputs_of(graph), []
    network = tune_network(graph, None, "cuda", budget_s=20, log=log, on_round=told.append)
    (got,), (want,) = network.instance()(*arrays), graph.run(*arrays)
    assert np.linalg.norm(got.numpy() - want) < 1e-5 * np.linalg.norm(want)
    assert told
    assert any("race" in note for note in NetworkLog.read(log).notes)
    again = compile_network(graph, "cuda", choose=History(log).choose)
    assert [unit.key for unit in again.plan.kernels] == [u.key for u in network.plan.kernels]
