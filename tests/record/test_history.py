"""Which record a workload gets, and what is said when there is none."""

import io
import logging

import pytest

from autotune.errors import RecordError
from autotune.kernel import SourceKernel, arg
from autotune.measure.objective import ENERGY
from autotune.record import (
    ApplyHistoryBest,
    apply_history_best,
    encode,
    load_from_file,
    pick_best,
    write_log,
)
from autotune.target import Target
from autotune.task import TASK_TABLE, DispatchContext, get_config, template
from tests.record.records import failed, good, make_config, make_input

WORKLOAD = ("t", 1)


@pytest.fixture(autouse=True)
def _no_warnings_yet(monkeypatch):
    monkeypatch.setattr(DispatchContext, "warning_messages", set())


def pair(cost, index, target="llvm", args=(1,), task="t"):
    result = failed(4) if cost is None else good(*([cost] if isinstance(cost, float) else cost))
    return make_input(task, args, target, make_config(index, k=index)), result


def chosen(history, target, workload=WORKLOAD):
    return history.query(Target(target), workload).index


def test_the_lowest_mean_cost_wins_and_failures_do_not():
    history = ApplyHistoryBest(
        [pair(2.0, 0), pair([1.0, 1.5], 1), pair(None, 2), pair([0.1, 9], 3)]
    )
    assert chosen(history, "llvm") == 1


def measured(seconds, joules, index):
    energy = {} if joules is None else {"energy": {"joules": joules}}
    return make_input("t", (1,), "llvm", make_config(index, k=index)), good(seconds, **energy)


@pytest.mark.parametrize(
    ("objective", "index"), [("time", 0), ("energy", 2), ("edp", 1), (ENERGY, 2)]
)
def test_the_best_is_by_the_objective(objective, index, tmp_path):
    pairs = [measured(1.0, 9.0, 0), measured(1.5, 2.0, 1), measured(4.0, 1.0, 2)]
    pairs.append(measured(1.2, None, 3))
    assert chosen(ApplyHistoryBest(pairs, objective=objective), "llvm") == index
    write_log(tmp_path / "x.log", pairs)
    assert pick_best(tmp_path / "x.log", tmp_path / "y.log", objective=objective) == 1
    ((inp, _),) = load_from_file(tmp_path / "y.log")
    assert inp.config.index == index


def test_a_race_of_times_decides_nothing_about_energy():
    race = {"tied": [0], "candidates": [{"index": 0}, {"index": 1}]}
    won = (
        make_input("t", (1,), "llvm", make_config(0, k=0)),
        good(1.0, race=race, energy={"joules": 9.0}),
    )
    pairs = [won, measured(0.9, 1.0, 1)]
    assert chosen(ApplyHistoryBest(pairs), "llvm") == 0
    assert chosen(ApplyHistoryBest(pairs, objective="energy"), "llvm") == 1


def test_a_log_without_energy_says_how_to_measure_it():
    history = ApplyHistoryBest([pair(1.0, 0), pair(2.0, 1)], objective="energy")
    assert history.explain_miss(Target("llvm"), WORKLOAD) == (
        "the history has 2 trials of this workload that succeeded, none of which says its energy; "
        "tune with LocalRunner(energy=True)."
    )
    with pytest.raises(RecordError, match="apply_history_best: objective must be one of 'time'"):
        ApplyHistoryBest([], objective="heat")


def test_records_come_from_paths_files_pairs_and_lists_of_these(tmp_path):
    log = tmp_path / "x.log"
    pairs = [pair(2.0, 0), pair(1.0, 1)]
    write_log(log, pairs)
    text = "".join(encode(*p) + "\n" for p in pairs)
    for records in (
        log,
        str(log),
        str(log).encode(),
        log.open(),
        io.StringIO(text),
        pairs,
        iter(pairs),
        [log, str(log)],
        [[pair(2.0, 0)], io.StringIO(text)],
        pairs[1],
    ):
        assert chosen(ApplyHistoryBest(records), "llvm") == 1
        if hasattr(records, "close"):
            records.close()
    with pytest.raises(RecordError, match="expected a path, a file, pairs"):
        ApplyHistoryBest(3)


def test_more_can_be_loaded_later():
    history = ApplyHistoryBest()
    history.load([pair(2.0, 0)])
    history.load([pair(1.0, 5)])
    assert chosen(history, "llvm") == 5


def test_the_model_comes_before_the_keys():
    history = apply_history_best(
        [pair(1.0, 0, "cuda -model=v100"), pair(2.0, 1, "cuda -model=a100"), pair(3.0, 2, "cuda")]
    )
    assert chosen(history, "cuda -model=a100") == 1
    assert chosen(history, "cuda -model=unheard") == 0
    assert chosen(history, "cuda") == 0
    assert set(history.best_by_model) == {("v100", WORKLOAD), ("a100", WORKLOAD)}
    assert set(history.best_by_targetkey) == {("cuda", WORKLOAD), ("gpu", WORKLOAD)}


def test_the_same_architecture_comes_before_a_faster_one(caplog):
    history = ApplyHistoryBest(
        [pair(1.0, 0, "cuda -arch=sm_90"), pair(2.0, 1, "cuda -arch=sm_80")]
    )
    assert chosen(history, "cuda -arch=sm_80") == 1
    assert not caplog.records
    assert chosen(history, "cuda -arch=sm_86") == 0
    assert "not tuned for sm_86; the best configuration of sm_90 is used" in caplog.text


def test_a_record_can_be_overruled():
    history = ApplyHistoryBest([pair(1.0, 0)])
    mine = make_input(config=make_config(42, k=1)).config
    history.update(Target("llvm"), WORKLOAD, mine)
    assert chosen(history, "llvm") == 42
    assert history.query(Target("cuda"), WORKLOAD).is_fallback


def test_a_target_is_needed():
    with pytest.raises(RuntimeError, match="Need a target context to find the history best"):
        ApplyHistoryBest([pair(1.0, 0)]).query(None, WORKLOAD)


def test_an_inner_history_passes_on_what_it_does_not_hold():
    with (
        ApplyHistoryBest([pair(1.0, 0)]),
        ApplyHistoryBest([pair(1.0, 7, args=(2,))]) as inner,
    ):
        assert chosen(inner, "llvm") == 0
        assert chosen(inner, "llvm", ("t", 2)) == 7


@pytest.mark.parametrize(
    ("target", "workload", "said"),
    [
        (
            "cuda -model=k80",
            WORKLOAD,
            "x.log holds this workload for another target (llvm -keys=cpu)",
        ),
        ("llvm", ("t", 3), "no record for these arguments of 't'; it has 2 other workloads of it"),
        ("llvm", ("t", 4), "x.log has 2 trials of this workload, none of which succeeded;"),
        ("llvm", ("u", 1), "there is no record for 'u' in"),
    ],
)
def test_a_miss_is_explained_by_what_the_log_holds(tmp_path, caplog, target, workload, said):
    log = tmp_path / "x.log"
    broken = pair(None, 0, args=(4,))
    write_log(log, [pair(1.0, 0), broken, pair(1.0, 0, args=(2,)), broken])
    history = ApplyHistoryBest(log)
    with caplog.at_level(logging.WARNING, "autotvm"), history:
        assert history.query(Target(target), workload).is_fallback
        history.query(Target(target), workload)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("Cannot find config for target=")
    assert said in message


def test_a_template_called_under_a_history_uses_its_best():
    @template("test.history")
    def scale(n):
        cfg = get_config()
        cfg.define_knob("k", [0, 1, 2])
        args = [arg("A", (n,), role="inout")]
        return SourceKernel("scale", source="\n", args=args, defines={"K": cfg["k"].val})

    try:
        records = [
            pair(2.0, 1, args=(8,), task="test.history"),
            pair(1.0, 2, args=(8,), task="test.history"),
        ]
        with apply_history_best(records), Target("llvm"):
            assert scale(8).defines == {"K": 2}
            assert scale(9).defines == {"K": 0}
    finally:
        del TASK_TABLE["test.history"]


def test_a_log_opened_as_bytes_is_refused(tmp_path):
    log = tmp_path / "log"
    log.write_text("")
    with log.open("rb") as file, pytest.raises(RecordError, match="open it as text"):
        ApplyHistoryBest(file)
