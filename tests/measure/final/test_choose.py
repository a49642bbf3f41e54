"""The choice among equals: a fixed rule that stands when the race is run again."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import MeasureError
from autotune.measure.final.choose import LEAST_TIE, MOST_TIE, Finalist, choose, tie_set


def candidates(*rows):
    return [
        Finalist(key=str(i), seconds=median, registers=registers, shared_bytes=shared)
        for i, (median, registers, shared) in enumerate(rows)
    ]


def test_the_clearly_fastest_wins_whatever_it_takes():
    assert choose(candidates((2.0, 8, 0), (1.0, 255, 9999))).key == "1"


def test_among_equals_fewer_registers_win():
    assert choose(candidates((1.000, 64, 0), (1.005, 32, 9999))).key == "1"


def test_then_less_shared_memory():
    assert choose(candidates((1.000, 32, 2048), (1.005, 32, 1024))).key == "1"


def test_then_the_lower_index():
    assert choose(candidates((1.005, 32, 0), (1.000, 32, 0))).key == "0"


def test_lower_indices_are_lower_as_numbers_and_come_before_other_keys():
    rows = [Finalist(key, 1.0) for key in ("steps-0a", "10", "9", "steps-00")]
    assert [c.key for c in tie_set(rows)] == ["9", "10", "steps-00", "steps-0a"]
    assert choose(rows).key == "9"


def test_the_tie_set_is_cut_at_its_widest_gap():
    tied = tie_set(candidates((1.0, 1, 1), (1.006, 1, 1), (1.012, 1, 1), (1.027, 1, 1)))
    assert [c.seconds for c in tied] == [1.0, 1.006, 1.012]


def test_what_noise_does_not_tell_apart_ties():
    clear = [Finalist("0", 1.0, 0.99, 1.01, 64), Finalist("1", 1.05, 1.04, 1.06, 32)]
    noisy = [Finalist("0", 1.0, 0.95, 1.05, 64), Finalist("1", 1.05, 1.01, 1.09, 32)]
    wild = [Finalist("0", 1.0, 0.80, 1.40, 64), Finalist("1", 1.20, 0.90, 1.50, 32)]
    assert [choose(one).key for one in (clear, noisy, wild)] == ["0", "1", "0"]


def test_an_earlier_winner_keeps_its_place_as_long_as_it_ties():
    rows = candidates((1.000, 32, 0), (1.008, 64, 0), (1.500, 8, 0))
    assert choose(rows).key == "0"
    assert choose(rows, incumbent="1").key == "1"
    assert choose(rows, incumbent="2").key == "0"
    assert choose(rows, incumbent="77").key == "0"


def test_no_candidates_is_an_error():
    with pytest.raises(MeasureError, match="there is no candidate"):
        choose([])


medians = st.floats(1e-6, 1.0)


@given(
    st.lists(st.tuples(medians, st.integers(0, 255), st.integers(0, 9)), min_size=1, max_size=30),
    st.randoms(),
)
def test_the_choice_is_a_pure_function_of_the_set(rows, rng):
    given_in_order = candidates(*rows)
    shuffled = given_in_order[:]
    rng.shuffle(shuffled)
    assert choose(shuffled) == choose(given_in_order)
    best = min(c.seconds for c in given_in_order)
    tied = tie_set(given_in_order)
    assert all(c.seconds <= best * (1 + MOST_TIE) * (1 + 1e-12) for c in tied)
    assert {c for c in given_in_order if c.seconds <= best * (1 + LEAST_TIE)} <= set(tied)
    assert choose(given_in_order) in tied


def flips(rule, seed):
    """Winners of 20 races between candidates of which the first eight are equally fast."""
    rng = random.Random(seed)
    true = [1.0 + 0.001 * rng.random() for _ in range(8)] + [1.06 + 0.1 * i for i in range(8)]
    registers = [rng.randrange(16, 128) for _ in true]
    winners = set()
    for _ in range(20):
        raced = [
            Finalist(str(i), t * rng.gauss(1, 0.003), registers=registers[i])
            for i, t in enumerate(true)
        ]
        winners.add(rule(raced).key)
    return len(winners) - 1


def test_the_rule_keeps_the_winner_where_the_fastest_changes():
    fastest = [
        flips(lambda raced: min(raced, key=lambda c: c.seconds), seed) for seed in range(20)
    ]
    chosen = [flips(choose, seed) for seed in range(20)]
    assert sum(chosen) == 0
    assert all(fastest)
