"""What is minimised: one function of a record, for tuners, logs and summaries."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import MeasureError, RecordError
from autotune.measure.evidence import Energy, Evidence
from autotune.measure.objective import EDP, ENERGY, OBJECTIVES, TIME, Objective, objective_of
from autotune.measure.types import MeasureResult
from tests.record.records import failed, good, make_input

INP = make_input()
amounts = st.floats(1e-9, 1e6)


def result(seconds, joules=None, at_least=None):
    energy = Energy(joules, None, None, None, at_least)
    return MeasureResult((seconds,), 0, 1.0, 1.0, "", Evidence(energy=energy, noise_floor=0.01))


@given(amounts, amounts)
def test_the_costs_are_seconds_joules_and_their_product(seconds, joules):
    one = result(seconds, joules)
    assert TIME.cost(INP, one) == seconds
    assert ENERGY.cost(INP, one) == joules
    assert EDP.cost(INP, one) == pytest.approx(seconds * joules)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_a_failure_is_never_the_best(objective):
    assert objective.cost(INP, failed(4)) == math.inf
    assert not objective.knows(INP, failed(4))
    assert objective.as_minimised((INP, failed(4))) == (INP, failed(4))


def test_a_record_without_energy_is_only_the_best_in_time():
    one = good(1e-3)
    assert TIME.knows(INP, one)
    assert ENERGY.cost(INP, one) == EDP.cost(INP, one) == math.inf
    assert not ENERGY.knows(INP, one)


@given(amounts, amounts, amounts, amounts)
def test_strategies_see_costs_in_the_order_of_the_objective(s, j, t, k):
    for objective in (ENERGY, EDP):
        one, two = result(s, j), result(t, k)
        seen = [objective.as_minimised((INP, each))[1].seconds for each in (one, two)]
        costs = [objective.cost(INP, each) for each in (one, two)]
        if costs[0] != costs[1]:
            assert (seen[0] < seen[1]) == (costs[0] < costs[1])
        assert all(each < math.inf for each in seen)


def test_strategies_see_no_spread_that_is_of_the_time():
    one = result(1.0, 2.0)
    assert TIME.as_minimised((INP, one))[1] is one
    assert one.spread == 0.01
    assert ENERGY.as_minimised((INP, one))[1].spread is None


def test_what_was_not_measured_as_it_is_beaten_is_seen_at_its_bound():
    beaten = result(1.0, None, at_least=5.0)
    assert ENERGY.cost(INP, beaten) == math.inf
    assert ENERGY.as_minimised((INP, beaten))[1].seconds == pytest.approx(5e6)
    assert EDP.as_minimised((INP, beaten))[1].seconds == pytest.approx(5e6)
    assert ENERGY.as_minimised((INP, good(1.0)))[1].seconds == math.inf


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_an_objective_of_ones_own_is_positive_or_unknown(value):
    own = Objective("own", lambda inp, one: value)
    assert own.cost(INP, good(1.0)) == math.inf
    assert not own.knows(INP, good(1.0))


def test_objectives_have_names():
    assert objective_of("f", "edp", RecordError) is EDP
    assert objective_of("f", EDP, RecordError) is EDP
    with pytest.raises(RecordError, match=r"f: objective must be one of 'time', 'energy', 'edp'"):
        objective_of("f", "joules", RecordError)


@pytest.mark.parametrize(
    ("name", "function"), [("", lambda i, r: 1.0), (None, lambda i, r: 1.0), ("mixed", 5)]
)
def test_an_objective_without_a_name_or_a_function_is_refused(name, function):
    with pytest.raises(MeasureError, match="Objective"):
        Objective(name, function)


@pytest.mark.parametrize("function", [lambda i, r: 1 / 0, lambda i, r: "x", lambda: 1.0])
def test_a_function_that_fails_is_an_error_that_names_its_objective(function):
    with pytest.raises(MeasureError, match="objective 'mixed': its function raised"):
        Objective("mixed", function).cost(INP, good(1e-3))
