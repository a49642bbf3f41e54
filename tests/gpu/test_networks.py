"""Networks on a GPU, untuned: every kernel, and one CUDA graph of them."""

import numpy as np
import pytest

from autotune.network import History, compile_network, tune_network
from autotune.network.tuning.tuning_log import NetworkLog
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


def test_many_inputs_take_turns_without_a_capture_and_runs_queue_on_a_given_stream(monkeypatch):
    torch = pytest.importorskip("torch")
    graph = bound("mlp")
    instance = compile_network(graph, "cuda").instance()
    (first,) = inputs_of(graph)
    captured = []
    monkeypatch.setattr(type(instance.program), "_captured", lambda self: captured.append(self))
    places = [torch.tensor(scale * first, device="cuda") for scale in range(1, 9)]
    stream = torch.cuda.Stream()
    for place in places * 2:
        want = graph.run(place.cpu().numpy())[0]
        instance.bind_input(0, place)
        with torch.cuda.stream(stream):
            place *= 1.0  # what is queued before the network
            instance.start(stream)
        instance.wait()
        np.testing.assert_allclose(instance.outputs[0].numpy(), want, rtol=1e-4, atol=1e-6)
    assert not captured
    seconds = [sum(instance.step_seconds()) for _ in range(3)]
    assert min(seconds) > 0
