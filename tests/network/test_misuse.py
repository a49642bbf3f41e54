"""What a stranger gives to a network, and what stands in its log, ends in words."""

import logging

import numpy as np
import pytest

from autotune.errors import GraphError, KernelError
from autotune.graph import Graph, TensorType, Variable, apply, ops
from autotune.network import (
    History,
    check,
    compile_network,
    load_param_dict,
    report,
    save_param_dict,
    tune_network,
)
from autotune.network.tuning.tuning_log import NetworkLog, write_note
from autotune.target import Target

SHAPE = (2, 3)


def relu():
    data = Variable(TensorType(SHAPE, "float32"), "data")
    return Graph((data,), (apply(ops.Relu(), data),))


@pytest.fixture(scope="module")
def instance():
    return compile_network(relu(), "c").instance()


@pytest.mark.parametrize("index", [-1, 1, 9, "data", True, None, 0.0])
def test_an_input_that_is_not_there_is_refused(instance, index):
    with pytest.raises(GraphError, match="index must be a whole number from 0 to 0"):
        instance.set_input(index, np.zeros(SHAPE, "float32"))


@pytest.mark.parametrize("given", [np.zeros((3, 2), "float32"), 1.0, None, "abc"])
def test_what_does_not_fit_an_input_names_it(instance, given):
    with pytest.raises(KernelError, match="input 'data'"):
        instance.set_input(0, given)


def test_what_nobody_has_set_or_computed_is_zero():
    network = compile_network(relu(), "c")
    used = network.instance()
    used(np.full(SHAPE, 7, "float32"))
    del used
    fresh = network.instance()
    assert not fresh.outputs[0].numpy().any()
    fresh.run()
    assert not fresh.outputs[0].numpy().any()


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (np.full(SHAPE, np.nan, "float32"), "not a number"),
        (np.zeros((3, 2), "float32"), r"expected \(2, 3\), got \(3, 2\)"),
        ([["a"] * 3] * 2, "expected numbers"),
    ],
)
def test_no_kernel_is_accused_for_what_it_was_given(instance, given, word):
    with pytest.raises(GraphError, match=f"input 'data'.*{word}"):
        check(instance, [given])


def test_a_report_is_of_an_instance():
    with pytest.raises(GraphError, match="instance"):
        report(None)


def test_a_budget_of_no_float_is_refused(tmp_path):
    with pytest.raises(GraphError, match="budget_s"):
        tune_network(relu(), {}, "c", budget_s=10**400, log=tmp_path / "x.log")


@pytest.mark.parametrize("spent", ["1" + "0" * 400, "1e999", "-5", "NaN", '"9"', "true and"])
def test_a_time_that_nobody_spent_takes_nothing_from_the_budget(tmp_path, spent):
    path = tmp_path / "x.log"
    lines = [f'# network {{"network": "n", "spent_s": {each}}}\n' for each in ("2.5", spent)]
    path.write_text("".join(lines))
    assert NetworkLog.read(path).spent_s("n") == 2.5


def test_seconds_spent_for_one_target_are_there_for_another(tmp_path):
    path = tmp_path / "x.log"
    for note in ({"spent_s": 2.0}, {"target": str(Target("c")), "spent_s": 9.0}):
        write_note(path, {"network": "n", **note})
    log = NetworkLog.read(path)
    found = [log.spent_s("n", each) for each in (Target("c"), Target("cuda"), None)]
    assert found == [9.0, 2.0, 9.0]


def test_a_log_that_is_missing_is_said(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "autotune"):
        History(tmp_path / "typo.log")
    assert "typo.log" in caplog.text


def test_parameters_that_were_damaged_anywhere_end_in_words():
    whole = save_param_dict({"w": np.arange(6, dtype="float32").reshape(SHAPE)})
    refused = 0
    for at in range(len(whole)):
        for value in (0, 0x7F, 0xFF):
            damaged = bytearray(whole)
            damaged[at] = value
            try:
                read = load_param_dict(bytes(damaged))
            except GraphError:
                refused += 1
            else:  # only of numbers, and of letters of a name, is not known what they were
                assert [value.size for value in read.values()] == [6]
    assert refused > len(whole)
