"""The Pareto front of records: all that no other one beats, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from autotune.measure.objective import EDP, ENERGY, TIME
from autotune.record import pareto_front
from tests.record.records import failed, good, make_config, make_input

# Few values, so that many are equal.
amounts = st.integers(1, 6)


def records(costs):
    return [
        (make_input("t", (1,), "llvm", make_config(i, k=i)), good(s * 1e-3, energy={"joules": j}))
        for i, (s, j) in enumerate(costs)
    ]


def dominates(one, other):
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


@given(st.lists(st.tuples(amounts, amounts), max_size=12))
def test_the_front_is_what_no_record_dominates(costs):
    pairs = records(costs)
    front = pareto_front(pairs)
    found = [costs[int(inp.key)] for inp, _ in front]
    best = {one for one in costs if not any(dominates(other, one) for other in costs)}
    assert set(found) == best
    assert len(found) == len(best)  # each once
    assert found == sorted(found)
    assert [int(inp.key) for inp, _ in front] == [costs.index(one) for one in found]


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=12))
def test_the_best_by_each_objective_is_on_the_front(costs):
    pairs = records(costs)
    front = pareto_front(pairs)
    for objective in (TIME, ENERGY, EDP):
        assert min(objective.cost(*one) for one in front) == min(
            objective.cost(*one) for one in pairs
        )


def test_records_that_failed_or_have_no_energy_are_not_on_it():
    (known,) = records([(3, 3)])
    others = [(make_input(), good(1e-9)), (make_input(), failed(4))]
    beaten = make_input(), good(1e-9, energy={"at_least": 9.0})
    assert pareto_front([*others, beaten, known]) == [known]
    assert pareto_front([]) == []


def test_any_two_objectives_have_a_front():
    pairs = records([(1, 6), (2, 2), (6, 1)])
    assert pareto_front(pairs, EDP, TIME) == [pairs[1], pairs[0]]
