"""One budget for a whole network: what is tried when, what is kept, and what a kill leaves."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from autotune.auto_scheduler import RecordReader
from autotune.errors import GraphError, ScheduleError, SpaceError
from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import partition
from autotune.measure import Session
from autotune.network import History, compile_network, tune_network
from autotune.network.choice import RULE, choose_untuned
from autotune.network.choice_json import choice_from_json, choice_hashes, choice_to_json
from autotune.network.tuning import arms, tune
from autotune.network.tuning.arms import tuned_functions
from autotune.network.tuning.program_race import race
from autotune.network.tuning.tuning_log import NETWORK_NOTE, NetworkLog, write_note
from autotune.record import load_from_file
from autotune.target import Target
from autotune.task import ConfigEntity
from tests.graph.networks import inputs_of
from tests.network.rounds import tune_rounds

CPU = Target("llvm")
# Of what is waited for in vain only where something is broken.
_LONGEST_S = 300


def small():
    rng = np.random.default_rng(0)

    def constant(*shape):
        return Constant.of(rng.normal(size=shape).astype("float32"))

    data = Variable(TensorType((1, 4, 8, 8)), "data")
    x = apply(ops.Conv2d(padding=(1,)), data, constant(8, 4, 3, 3))
    x = apply(ops.Relu(), apply(ops.Add(), x, constant(8, 1, 1)))
    x = apply(ops.Dense(), apply(ops.BatchFlatten(), x), constant(5, 512))
    return Graph.of(apply(ops.Add(), x, constant(5)))


def is_right(network, graph):
    arrays = inputs_of(graph)
    (got,), (want,) = network.instance()(*arrays), graph.run(*arrays)
    return np.linalg.norm(got.numpy() - want) < 1e-5 * np.linalg.norm(want)


def keys(network):
    return [unit.key for unit in network.plan.kernels]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    log, told = tmp_path_factory.mktemp("tune") / "net.log", []
    graph = small()
    network = tune_rounds(4, graph, CPU, log, on_round=told.append, seed=1)
    return SimpleNamespace(log=log, told=told, graph=graph, network=network)


def test_a_tuned_network_is_right_and_its_log_chooses_the_same_kernels_ever_after(tuned):
    assert is_right(tuned.network, tuned.graph)
    for _ in range(2):
        again = compile_network(small(), CPU, choose=History(tuned.log).choose)
        assert keys(again) == keys(tuned.network)
    assert is_right(again, tuned.graph)


def test_each_round_is_told_and_no_best_becomes_slower(tuned):
    assert tuned.told
    assert all(each.elapsed_s > 0 for each in tuned.told)
    trials = [each.trials for each in tuned.told]
    assert trials == sorted(trials)  # on a busy machine a round may end before a trial does
    best: dict[str, float] = {}
    for each in tuned.told:
        assert each.best_s <= best.get(each.function, math.inf)
        best[each.function] = each.best_s
    assert "trials, network" in str(tuned.told[-1])


def test_the_race_within_the_network_stands_in_the_log_with_its_proof(tuned):
    notes = [note for note in NetworkLog.read(tuned.log).notes if "race" in note]
    assert {note["name"] for note in notes} >= {"fused_nn_conv2d_add_nn_relu"}
    for note in notes:
        seconds = dict(note["race"])
        assert note["rounds"] >= 4
        assert all(each > 0 for each in seconds.values())
        assert len(seconds) >= 1


def test_readers_of_either_kind_of_log_take_their_own_lines(tuned):
    log = NetworkLog.read(tuned.log)
    assert len(list(load_from_file(tuned.log, races=True))) == len(log.templates) > 0
    assert len(list(RecordReader(tuned.log, races=True))) == len(log.states)
    assert log.unreadable == 0


def test_a_budget_that_is_spent_buys_no_more_trials(tuned):
    before = tuned.log.read_bytes()
    network = tune_network(small(), None, CPU, budget_s=1, log=tuned.log, on_round=None)
    assert tuned.log.read_bytes() == before
    assert keys(network) == keys(tuned.network)


def won_by_templates(tuned, path):
    """Return a log in which templates won all races, and what won: races differ in what wins."""
    path.write_text(tuned.log.read_text())
    untuned = compile_network(small(), CPU).plan.kernels
    won = [(unit.whole, unit.choice) for unit in untuned if unit.choice is not RULE]
    for function, choice in won:
        known = {"function": function.signature, "name": function.name, "target": str(CPU)}
        kernel = next(choice_hashes(choice, CPU))
        write_note(path, known | {"choice": choice_to_json(choice), "kernel": kernel})
    return path.read_text(), [choice for _, choice in won]


def test_lines_cut_short_and_choices_that_no_longer_hold_cost_a_warning(tuned, tmp_path, caplog):
    text, _ = won_by_templates(tuned, tmp_path / "won.log")
    for old, new in (
        ('"kernel": "', '"kernel": "0'),
        ('"candidate": ', '"candidate": 5, "x": '),
    ):
        other = tmp_path / f"{len(new)}.log"
        other.write_text(text.replace(old, new) + '{"i": [["cut')
        network = compile_network(small(), CPU, choose=History(other).choose)
        assert is_right(network, tuned.graph)
        assert "what won the race for" in caplog.text
        assert "1 lines are no records" in caplog.text
        caplog.clear()


def test_races_of_logs_that_have_hashes_of_generated_text_hold(tuned, tmp_path, caplog):
    text, won = won_by_templates(tuned, tmp_path / "won.log")
    for choice in won:
        now, *_, former = choice_hashes(choice, CPU)
        assert now != former
        assert f'"kernel": "{now}"' in text
        text = text.replace(f'"kernel": "{now}"', f'"kernel": "{former}"')
    other = tmp_path / "former.log"
    other.write_text(text)
    network = compile_network(small(), CPU, choose=History(other).choose)
    chosen = [unit.choice for unit in network.plan.kernels if unit.choice is not RULE]
    assert [choice.key for choice in chosen] == [choice.key for choice in won]
    assert "what won the race for" not in caplog.text


def test_choices_survive_their_way_through_a_log(tuned):
    for unit in tuned.network.plan.kernels:
        row = json.loads(json.dumps(choice_to_json(unit.choice)))
        assert choice_from_json(row, unit.whole, CPU).key == unit.choice.key


def test_an_interrupt_ends_the_tuning_and_leaves_a_working_network(tmp_path):
    def interrupt(progress):
        raise KeyboardInterrupt

    log = tmp_path / "net.log"
    network = tune_network(small(), None, CPU, budget_s=1000, log=log, on_round=interrupt)
    assert is_right(network, small())
    assert NetworkLog.read(log).templates


def test_an_interrupted_tuning_holds_no_race(tmp_path, monkeypatch):
    def interrupt(progress):
        raise KeyboardInterrupt

    monkeypatch.setattr(tune, "race", lambda *_: pytest.fail("a race takes long"))
    log = tmp_path / "net.log"
    network = tune_network(small(), None, CPU, budget_s=1000, log=log, on_round=interrupt)
    fastest = compile_network(small(), CPU, choose=History(log).choose)
    assert keys(network) == keys(fastest)


CHILD = """
import sys
from autotune.network import tune_network
from tests.network.test_tune import small
if __name__ == "__main__":
    tune_network(small(), None, "llvm", budget_s=1000, log=sys.argv[1], seed=0)
"""


def test_what_is_killed_goes_on_where_it_was(tmp_path):
    log, told = tmp_path / "net.log", []
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(log)], stderr=subprocess.DEVNULL, cwd=os.getcwd()
    )
    try:
        deadline = time.monotonic() + _LONGEST_S
        while not trials_of(log) and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(_LONGEST_S)
    before, known = log.read_text(), trials_of(log)
    spent = NetworkLog.read(log).spent_s(name_of())
    assert known
    assert spent > 0
    network = tune_rounds(1, small(), CPU, log, on_round=told.append, spent_s=spent, seed=0)
    assert is_right(network, small())
    assert log.read_text().startswith(before)
    assert spent < told[0].elapsed_s < spent + 1  # by the clock of rounds
    assert len(told) == 1
    tried = trials_of(log)
    assert len(tried) > len(known)
    assert max(Counter(tried).values()) == 1


def trials_of(log):
    """Return what was tried until now, by templates and by the auto-scheduler."""
    read = NetworkLog.read(log)
    return [(inp.task.key, inp.key) for inp, _ in (*read.templates, *read.states)]


def name_of():
    from autotune.graph.text import digest
    from autotune.network.compile import simplify_graph

    return digest(simplify_graph(small(), CPU))


def test_relatives_try_what_is_best_of_each_other_and_the_default_first(tmp_path):
    rng = np.random.default_rng(0)

    def constant(*shape):
        return Constant.of(rng.normal(size=shape).astype("float32"))

    data = Variable(TensorType((1, 8, 6, 6)), "data")
    x = apply(ops.Relu(), apply(ops.Conv2d(padding=(1,)), data, constant(8, 8, 3, 3)))
    y = apply(ops.Conv2d(padding=(1,)), x, constant(8, 8, 3, 3))
    graph = Graph.of(apply(ops.Add(), y, constant(8, 1, 1)))
    first, second = tuned_functions(partition(graph), CPU, NetworkLog.read(tmp_path / "l"), 0)
    one, two = first.arms[0], second.arms[0]
    assert two in one.relatives
    assert one in two.relatives
    assert not set(one.relatives) & {first.arms[-1], second.arms[-1]}
    with Session() as session:
        one.advance(session, 3, _LONGEST_S, time.monotonic)
        assert one.run.best_candidates(9)
        two.advance(session, 2, _LONGEST_S, time.monotonic)
    tried = [inp.config for inp, _ in NetworkLog.read(tmp_path / "l").templates]
    mine = [each.key for each in tried[:3]]
    assert one.offer.task.default().key in mine
    borrowed = one.run.best_candidates(1)[0].key
    assert borrowed in mine
    assert borrowed in {each.key for each in tried[3:]}
    assert len({each.key for each in tried[3:]}) == 2


def test_what_is_best_of_a_layer_is_a_guess_for_layers_of_other_extents(tmp_path):
    rng = np.random.default_rng(0)

    def weight(*shape):
        return Constant.of(rng.normal(size=shape).astype("float32"))

    data = Variable(TensorType((1, 8, 6, 6)), "data")
    x = apply(ops.Conv2d(padding=(1,)), data, weight(16, 8, 3, 3))
    y = apply(ops.Conv2d(padding=(1,)), apply(ops.Relu(), x), weight(4, 16, 3, 3))
    graph = Graph.of(y)
    log = NetworkLog.read(tmp_path / "l")
    first, second = tuned_functions(partition(graph), Target("cuda -emulate"), log, 0)
    one, other = first.arms[0], second.arms[0]
    assert one.name == other.name == "conv2d_nchw.cuda"
    assert (one.cousins, one.relatives) == ([other], [])
    mine, theirs = one.offer.task, other.offer.task

    found = []
    points = map(theirs.config_space.get, theirs.config_space.sample(50, rng))
    both = next(each for each in points if offered_by(mine, each) is not None)
    one.run = SimpleNamespace(best_candidates=lambda most: [offered_by(mine, both)])
    other.run = SimpleNamespace(suggest=found.extend)
    other._suggest()
    assert [each.key for each in found] == [theirs.default().key]  # of the other nothing is known
    one.best_by_round.append(1.0)
    other._suggest()
    assert found[-1].key == both.key != found[0].key


def offered_by(task, candidate):
    try:
        return task.own(ConfigEntity(0, None, candidate.recorded))
    except SpaceError:
        return None


def test_what_the_auto_scheduler_refuses_is_tuned_by_templates(tmp_path, monkeypatch, caplog):
    def refuse(function, target):
        raise ScheduleError("no loops")

    monkeypatch.setattr(arms, "search_task", refuse)
    conv, dense = tuned_functions(partition(small()), CPU, NetworkLog.read(tmp_path / "l"), 0)
    assert {each.name for each in (*conv.arms, *dense.arms)} >= {"conv2d_nchw.cpu", "te/dense.cpu"}
    assert caplog.text.count("is not searched for by the auto-scheduler: no loops") == 2


def test_the_searches_of_all_functions_rank_and_learn_from_each_other(tmp_path):
    found = tuned_functions(partition(small()), CPU, NetworkLog.read(tmp_path / "l"), 0)
    policies = [
        arm.run.strategy._tuner.policy for one in found for arm in one.arms if not arm.offer
    ]
    assert len(policies) == 2
    assert policies[0].program_cost_model is policies[1].program_cost_model
    assert all(policy.proposer.ranks for policy in policies)
    assert policies[0].proposer.member.group is policies[1].proposer.member.group


def test_a_log_says_whether_kernels_ran_side_by_side(tmp_path):
    log = tmp_path / "net.log"
    note = {"network": name_of(), "target": str(CPU), "branches": True}
    log.write_text(NETWORK_NOTE + json.dumps(note) + "\n")
    assert History(log).branches(small(), CPU)
    assert not History(log).branches(small(), "cuda")
    write_note(log, note | {"branches": False})
    assert not History(log).branches(small(), CPU)


# ---- the race


class Instance:
    """A network of one function whose kernel takes as long as it says."""

    def __init__(self, seconds):
        self.seconds = iter(seconds)
        whole = SimpleNamespace(signature="f", name="conv")
        step = SimpleNamespace(unit=SimpleNamespace(whole=whole, within=None))
        self.network = SimpleNamespace(plan=SimpleNamespace(steps=[step]))

    def run(self):
        pass

    def step_seconds(self):
        return [next(self.seconds)]


def test_the_race_goes_to_the_median_and_ties_go_to_the_first():
    first, second = choose_untuned(partition(small())[0], CPU), RULE
    lucky = Instance([1.0, 0.1, 1.0, 1.0, 1.0])
    (won,) = race({"f": [first, second]}, [lucky, Instance([0.9] * 5)], lambda: 0)
    assert won.winner is second
    assert won.rounds == 4
    (won,) = race({"f": [first, second]}, [Instance([1.0] * 5), Instance([0.995] * 5)], lambda: 0)
    assert won.winner is first
    assert won.seconds == (1.0, 0.995)


def test_wrong_calls_are_refused(tmp_path):
    with pytest.raises(GraphError, match="budget_s must be"):
        tune_network(small(), None, CPU, budget_s=-1, log=tmp_path / "l")
    with pytest.raises(GraphError, match="network must be a graph, or a module"):
        tune_network("resnet", None, CPU, budget_s=1, log=tmp_path / "l")
    assert NETWORK_NOTE.startswith("#")
