"""Whom a fleet believes when places disagree, or when those that could confirm are away."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.fleet.policy import ASIDE_S, Policy, QueuedJob
from tests.fleet.test_policy import RUN, begun, device

BROKEN, WRONG = 4, 5
AWAY_S = 30.0


def fleet_of(number):
    policy = Policy(AWAY_S)
    for i in range(number):
        policy.join(device(i, slots=1))
    return policy


def given_to(policy, number, now=0.0):
    """Put an entry that this place takes."""
    entry = QueuedJob(RUN)
    policy.put(entry)
    assert policy.take(number, now) is entry
    return entry


def ended(policy, number, entry, failure=0, now=0.0, outcome=None):
    entry.outcome = outcome or f"{number} says {failure}"
    return policy.ended(number, entry, failure, now)


def test_another_failure_confirms_none_and_who_passes_something_next_is_believed():
    policy = fleet_of(2)
    entry = given_to(policy, 0)
    assert ended(policy, 0, entry, WRONG) == []
    assert policy.settle(0.0) == []
    assert policy.take(1, 0.0) is entry
    waits = QueuedJob(RUN)
    policy.put(waits)
    assert ended(policy, 1, entry, BROKEN) == []
    assert policy.settle(0.0) == []
    assert policy.take(0, 0.0) is waits
    assert ended(policy, 0, waits) == [entry, waits]
    assert entry.outcome == "0 says 5"
    assert not entry.unconfirmed


def test_of_two_that_disagree_the_one_that_has_passed_something_since_is_believed_at_once():
    policy = fleet_of(2)
    entry = given_to(policy, 0)
    ended(policy, 0, entry, WRONG)
    policy.settle(0.0)
    assert policy.take(1, 0.0) is entry
    ended(policy, 0, given_to(policy, 0))
    assert ended(policy, 1, entry, BROKEN) == [entry]
    assert entry.outcome == "0 says 5"


def test_a_third_place_decides_between_two_that_disagree():
    policy = fleet_of(3)
    entry = given_to(policy, 0)
    ended(policy, 0, entry, BROKEN)
    policy.settle(0.0)
    assert policy.take(1, 0.0) is entry
    assert ended(policy, 1, entry, WRONG) == []
    assert policy.take(0, 0.0) is policy.take(1, 0.0) is None
    assert policy.take(2, 0.0) is entry
    assert ended(policy, 2, entry, WRONG) == [entry]
    assert entry.outcome == "1 says 5"


def test_of_two_that_disagree_with_nothing_left_to_do_the_better_one_is_believed_and_it_is_said():
    policy = fleet_of(2)
    ended(policy, 1, given_to(policy, 1))
    entry = given_to(policy, 0)
    ended(policy, 0, entry, BROKEN)
    policy.settle(0.0)
    assert policy.take(1, 0.0) is entry
    assert ended(policy, 1, entry, WRONG) == [entry]
    assert entry.outcome == "1 says 5"
    assert entry.unconfirmed == (
        "host0/cpu:0 and host1/cpu:0 failed it in different ways and passed nothing afterwards"
    )


def test_a_place_confirms_no_failure_of_its_own():
    policy = fleet_of(2)
    entry = given_to(policy, 0)
    ended(policy, 0, entry, BROKEN)
    policy.settle(0.0)  # it waits for the other, which leaves
    policy.leave(1, 0.0)
    assert begun(policy) == []
    assert policy.settle(1.0) == []
    assert begun(policy, 1.0) == []
    policy.join(device(1, slots=1))
    assert policy.settle(2.0) == []
    assert begun(policy, 2.0) == [(1, entry)]
    assert ended(policy, 1, entry, now=2.0) == [entry]


def test_failures_wait_for_a_place_that_is_away_for_a_moment():
    policy = fleet_of(2)
    policy.leave(1, 0.0)
    entries = []
    for _ in range(3):
        entries.append(given_to(policy, 0, 1.0))
        assert ended(policy, 0, entries[-1], BROKEN, 1.0) == []
        assert policy.settle(1.0) == []
    assert policy.settle(AWAY_S - 0.1) == []
    policy.join(device(1, slots=1))
    assert policy.settle(AWAY_S) == []
    again = []
    while (entry := policy.take(1, AWAY_S)) is not None:
        again += ended(policy, 1, entry, now=AWAY_S)
    assert set(again) == set(entries)
    assert "failed 2 trials that others passed" in policy.roster.why_aside(0)


def test_what_nobody_came_to_confirm_is_told_as_such():
    policy = fleet_of(2)
    policy.leave(1, 0.0)
    first, second = (given_to(policy, 0, 1.0) for _ in range(1)), None
    entry = next(first)
    assert ended(policy, 0, entry, BROKEN, 1.0) == []
    assert policy.settle(AWAY_S + 0.1) == [entry]
    assert "no other worker was there" in entry.unconfirmed
    second = given_to(policy, 0, AWAY_S + 1)
    assert ended(policy, 0, second, BROKEN, AWAY_S + 1) == [second]  # as where there is one worker
    assert not second.unconfirmed


def test_a_failure_counts_also_when_the_place_that_told_of_it_is_forgotten():
    policy = fleet_of(2)
    entry = given_to(policy, 0)
    ended(policy, 0, entry, BROKEN)
    policy.settle(0.0)
    assert policy.take(1, 0.0) is entry
    policy.leave(0, 0.0)
    for other in range(2, 300):
        policy.join(device(other, slots=1))
        policy.leave(other, 0.0)
    policy.leave(1, 0.0)
    assert policy.settle(1.0) == []
    assert policy.settle(AWAY_S + 1) == [entry]
    assert entry.outcome == "0 says 4"
    assert entry.unconfirmed.startswith("a worker that has left passed nothing afterwards")


def test_a_place_that_proves_itself_needs_nobody_who_is_away():
    policy = fleet_of(2)
    policy.leave(1, 0.0)
    entry = given_to(policy, 0)
    assert ended(policy, 0, entry, WRONG) == []
    good = given_to(policy, 0)
    assert ended(policy, 0, good) == [entry, good]


def test_a_place_that_is_set_aside_for_its_disk_confirms_when_it_is_tried_again():
    policy = fleet_of(2)
    full = given_to(policy, 1)
    policy.unable(1, full, "no space left on device", 0.0)
    assert policy.take(0, 0.0) is full
    assert ended(policy, 0, full, BROKEN) == []
    assert policy.settle(ASIDE_S - 1) == []
    assert policy.take(1, ASIDE_S - 1) is None
    assert policy.settle(ASIDE_S + 1) == []
    assert policy.take(1, ASIDE_S + 1) is full
    assert ended(policy, 1, full, now=ASIDE_S + 1) == [full]
    assert not policy.roster.why_aside(1)


def test_nobody_waits_for_a_place_that_failed_what_others_passed():
    policy = fleet_of(2)
    policy.roster.set_aside(1, "it failed 2 trials that others passed", 0.0)
    policy.roster.states[1].strikes = 2
    entry = given_to(policy, 0)
    assert ended(policy, 0, entry, WRONG) == [entry]
    assert not entry.unconfirmed


def test_what_a_place_failed_before_it_was_set_aside_lets_it_be_away_no_longer():
    policy = Policy()
    for number, slots in enumerate((5, 1)):
        policy.join(device(number, slots=slots))
    for _ in range(6):
        policy.put(QueuedJob(RUN))
    out = begun(policy)
    for number, entry in out:
        ended(policy, number, entry, BROKEN if number == 0 else 0)
    policy.settle(0.0)
    passed = 0
    while (entry := policy.take(1, 0.0)) is not None:
        passed += len(ended(policy, 1, entry))
    assert passed == 5
    assert "failed 2 trials" in policy.roster.why_aside(0)
    policy.put(QueuedJob(RUN))
    policy.leave(1, 0.0)
    assert policy.take(0, ASIDE_S + 1) is not None


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(1, 40))
def test_no_trial_gets_the_outcome_of_a_liar_that_honest_places_outlive(seed, places, entries):
    """All come and go, for less than a failure waits; one calls all broken, but never alone."""
    rng = random.Random(seed)
    policy = fleet_of(places)
    work = [QueuedJob(RUN) for _ in range(entries)]
    wrong = {id(entry) for entry in work if rng.random() < 0.3}
    work += [QueuedJob(RUN) for _ in range(2)]  # by which honest places prove themselves
    for entry in work:
        policy.put(entry)
    out, told, now, away = [], [], 0.0, {}
    while len(told) < len(work):
        now += rng.random()
        assert now < 3000
        out += [(number, entry, entry.attempt) for number, entry in begun(policy, now)]
        if out and rng.random() < 0.8:
            number, entry, attempt = out.pop(rng.randrange(len(out)))
            if policy.holds(number, entry, attempt):
                failure = BROKEN if number == 0 else WRONG * (id(entry) in wrong)
                told += ended(policy, number, entry, failure, now)
        if rng.random() < 0.1:
            one = rng.randrange(places)
            if one not in away:
                policy.leave(one, now)
                away[one] = now + rng.random() * AWAY_S / 2
        for one in [one for one, until in away.items() if until < now]:
            del away[one]
            policy.join(device(one, slots=1))
        told += policy.settle(now)
    for entry in work:
        failed = id(entry) in wrong
        if not entry.unconfirmed:
            assert entry.outcome.endswith("says 5" if failed else "says 0"), entry
    assert sorted(map(id, told)) == sorted(map(id, work))
