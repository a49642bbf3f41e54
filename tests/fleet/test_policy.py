"""What a fleet decides: who does what, whom it believes, and that nothing is lost or doubled."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.fleet.policy import ASIDE_S, Needs, Place, Policy, QueuedJob

RUN = Needs("run", device="cpu")


def device(number, agent=None, slots=2, **more):
    return Place(
        number, agent or f"host{number}", f"host{number}/cpu:0", "run", slots, "cpu", **more
    )


def fleet_of(number, slots=2):
    policy = Policy()
    for i in range(number):
        policy.join(device(i, slots=slots))
    return policy


def begun(policy, now=0.0):
    """Take all that can be begun."""
    out = []
    while (found := policy.next(now)) is not None:
        out.append(found)
    return out


def test_each_place_gets_one_before_any_gets_two():
    policy = fleet_of(4)
    for _ in range(6):
        policy.put(QueuedJob(RUN))
    places = [number for number, _ in begun(policy)]
    assert sorted(places[:4]) == [0, 1, 2, 3]
    assert len(places) == 6


def test_an_entry_goes_only_where_it_fits():
    policy = Policy()
    policy.join(
        Place(0, "a", "a/cuda:0", "run", 2, "cuda", "sm_90", "H200", toolkit="13.0", cuda=13)
    )
    policy.join(
        Place(1, "b", "b/cuda:0", "run", 2, "cuda", "sm_80", "A100", toolkit="13.0", cuda=12)
    )
    policy.join(Place(2, "c", "c/builders", "build", 2, toolkit="12.4"))
    wanted = {
        Needs("run", device="cuda", arch="sm_90"): {0},
        Needs("run", device="cuda"): {0, 1},
        Needs("run", device="cuda", cuda=13): {0},
        Needs("run", device="cuda", device_class="A100"): {1},
        Needs("run", device="cpu"): set(),
        Needs("run", only=1): {1},
        Needs("build", toolkit="12.4"): {2},
        Needs("build", toolkit="13.0"): set(),
    }
    for needs, expected in wanted.items():
        assert {place.number for place in policy.roster.able(needs)} == expected


def test_what_a_lost_place_had_goes_first_to_another():
    policy = fleet_of(2, slots=1)
    first, second, third = (QueuedJob(RUN) for _ in range(3))
    for entry in (first, second, third):
        policy.put(entry)
    (one, had), _ = begun(policy)
    assert policy.leave(one, 0.0) == [had]
    assert not policy.holds(one, had, 1)
    other = 1 - one
    policy.ended(other, next(iter({first, second} - {had})), False, 0.0)
    assert begun(policy) == [(other, had)]
    assert had.attempt == 2


def test_a_failure_is_believed_when_its_place_succeeds_afterwards():
    policy = fleet_of(2)
    bad, good = QueuedJob(RUN), QueuedJob(RUN)
    policy.put(bad)
    assert policy.take(0, 0.0) is bad
    assert policy.ended(0, bad, True, 0.0) == []
    policy.put(good)
    assert policy.take(0, 0.0) is good
    assert policy.ended(0, good, False, 0.0) == [bad, good]


def test_who_fails_what_others_pass_is_set_aside_and_comes_back():
    policy = fleet_of(2)
    told = []
    for _ in range(12):
        policy.put(QueuedJob(RUN))
    for _ in range(200):
        for number, entry in begun(policy):
            told += policy.ended(number, entry, number == 0, 0.0)
        told += policy.settle(0.0)
        if policy.roster.why_aside(0):
            break
    assert "failed 2 trials that others passed" in policy.roster.why_aside(0)
    assert policy.take(0, ASIDE_S / 2) is None
    policy.put(QueuedJob(RUN))
    policy.leave(1, 0.0)
    test = policy.take(0, 2 * ASIDE_S)
    assert test is not None
    policy.ended(0, test, False, 2 * ASIDE_S)
    assert not policy.roster.why_aside(0)


def test_alone_a_place_is_believed_at_once():
    policy = fleet_of(1)
    entry = QueuedJob(RUN)
    policy.put(entry)
    assert begun(policy) == [(0, entry)]
    assert policy.ended(0, entry, True, 0.0) == [entry]


def test_who_cannot_begin_is_left_out_with_its_reason():
    policy = fleet_of(2)
    entry = QueuedJob(RUN)
    policy.put(entry)
    ((number, _),) = begun(policy)
    policy.unable(number, entry, "no space left on device", 0.0)
    assert policy.roster.why_aside(number) == "no space left on device"
    assert begun(policy) == [(1 - number, entry)]


def test_nobody_is_noticed_and_counted_in_seconds():
    policy = Policy()
    policy.put(QueuedJob(RUN))
    assert policy.stranded(5.0) == {RUN: 0.0}
    assert policy.stranded(12.0) == {RUN: 7.0}
    policy.join(device(0))
    assert policy.stranded(13.0) == {}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 40))
def test_whatever_happens_each_entry_is_told_once(seed, places, entries):
    """Places come, go, lie, refuse and hang at random; late outcomes are dropped."""
    rng = random.Random(seed)
    policy = fleet_of(places)
    liar = rng.randrange(places)
    here = set(range(places))
    work = [QueuedJob(RUN) for _ in range(entries)]
    really_bad = {id(entry) for entry in work if rng.random() < 0.2}
    for entry in work:
        policy.put(entry)
    out, told, now = [], [], 0.0
    for step in range(4000):
        now += rng.random()
        out += [(number, entry, entry.attempt) for number, entry in begun(policy, now)]
        if out and rng.random() < 0.8:
            number, entry, attempt = out.pop(rng.randrange(len(out)))
            if policy.holds(number, entry, attempt):
                if rng.random() < 0.05:
                    policy.unable(number, entry, "full", now)
                else:
                    bad = id(entry) in really_bad or (number == liar and places > 1)
                    told += policy.ended(number, entry, bad, now)
        if step < 300 and rng.random() < 0.1:
            one = rng.randrange(places)
            if one in here:
                here.discard(one)
                policy.leave(one, 0.0)
            else:
                here.add(one)
                policy.join(device(one))
        elif step >= 300:
            for one in set(range(places)) - here:
                policy.join(device(one))
            here = set(range(places))
        told += policy.settle(now)
        if len(told) == entries:
            break
    assert sorted(map(id, told)) == sorted(map(id, work))


def test_a_decision_looks_at_kinds_of_places_and_not_at_each(monkeypatch):
    asked, suits = [], Place.suits
    monkeypatch.setattr(Place, "suits", lambda self, needs: asked.append(1) or suits(self, needs))
    policy = fleet_of(500)
    for _ in range(1500):
        policy.put(QueuedJob(RUN))
    out = begun(policy)
    assert len(out) == 1000
    for number, entry in out[:400]:
        assert policy.ended(number, entry, False, 0.0) == [entry]
        assert policy.next(0.0)[0] == number
    assert len(asked) < 20


def test_a_place_that_comes_back_as_another_kind_is_found_by_what_it_is_now():
    policy = fleet_of(1)
    policy.leave(0, 0.0)
    policy.join(device(0, arch="other"))
    policy.put(QueuedJob(Needs("run", device="cpu", arch="other")))
    policy.put(QueuedJob(Needs("run", device="cpu", arch="")))
    assert [number for number, _ in begun(policy)] == [0]


def test_what_failed_at_a_place_that_left_is_done_again():
    policy = fleet_of(2)
    entry = QueuedJob(RUN)
    policy.put(entry)
    ((number, _),) = begun(policy)
    assert policy.ended(number, entry, True, 0.0) == []
    policy.leave(number, 0.0)
    assert begun(policy) == [(1 - number, entry)]


def lost_again(policy, entry, times, now, comes_back=False):
    """Lose the places that have an entry, one after the other; return when that was.

    Each comes back, or is replaced by a new one.
    """
    for _ in range(times):
        while not (out := [place for place, one in begun(policy, now) if one is entry]):
            now += 0.1
            assert now < 200
        policy.leave(out[0], now)
        policy.join(device(out[0] if comes_back else out[0] + 10))
    return now


def test_an_entry_that_takes_each_of_its_places_with_it_is_tried_alone_and_then_to_blame():
    policy, entry = fleet_of(3), QueuedJob(RUN)
    policy.put(entry)
    assert lost_again(policy, entry, 4, 0.0) == 0.0
    assert not entry.to_blame
    assert lost_again(policy, entry, 5, 0.0) == pytest.approx(15.5, abs=0.5)
    assert entry.to_blame


def test_an_entry_whose_workers_are_cut_off_and_come_back_is_not_to_blame_within_half_a_minute():
    policy, entry = fleet_of(3), QueuedJob(RUN)
    policy.put(entry)
    assert lost_again(policy, entry, 10, 0.0, comes_back=True) == pytest.approx(31.5, abs=0.7)
    assert not entry.to_blame
    assert lost_again(policy, entry, 1, 31.5, comes_back=True) == pytest.approx(63.5, abs=1)
    assert entry.to_blame  # or it would go on for ever


def test_places_that_come_back_do_not_excuse_an_entry_for_those_that_died():
    policy, entry = fleet_of(3), QueuedJob(RUN)
    policy.put(entry)
    now = lost_again(policy, entry, 5, 0.0, comes_back=True)
    now = lost_again(policy, entry, 5, now)
    assert (entry.cut, len(entry.lost_alone), entry.to_blame) == (2, 5, False)
    lost_again(policy, entry, 1, now)
    assert entry.to_blame


def test_who_was_lost_often_for_others_is_given_to_a_place_alone():
    policy, often = fleet_of(1, slots=4), QueuedJob(RUN, lost=3)
    others = [QueuedJob(RUN) for _ in range(4)]
    for one in (often, *others):
        policy.put(one)
    assert begun(policy) == [(0, often)]
    assert policy.ended(0, often, False, 0.0) == [often]
    assert not often.to_blame
    assert [one for _, one in begun(policy)] == others
    policy.put(late := QueuedJob(RUN, lost=3))
    for one in others:
        assert begun(policy) == []
        policy.ended(0, one, False, 0.0)
    assert begun(policy) == [(0, late)]


def test_builds_go_round_the_hosts_until_each_builder_has_one_and_then_ahead():
    policy = Policy()
    for number in range(3):
        policy.join(Place(number, f"host{number}", "builders", "build", slots=6, lanes=4))
    for _ in range(20):
        policy.put(QueuedJob(Needs("build")))
    places = [number for number, _ in begun(policy)]
    assert [sorted(places[i : i + 3]) for i in range(0, 12, 3)] == [[0, 1, 2]] * 4
    assert sorted(places[12:]) == [0, 0, 1, 1, 2, 2]


def test_places_that_left_are_forgotten_but_for_the_last_and_what_they_bring_later_is_dropped():
    policy, late = Policy(), QueuedJob(RUN)
    policy.join(device(0))
    policy.put(late)
    assert begun(policy) == [(0, late)]
    policy.leave(0, 0.0)
    for number in range(1, 2000):
        policy.join(device(number))
        policy.roster.set_aside(number, "full", 0.0)
        policy.leave(number, 0.0)
    assert len(policy.roster.states) < 400
    assert not policy.holds(0, late, 1)
    policy.forget(0, late)
    policy.join(device(1999))
    assert policy.roster.why_aside(1999) == "full"
    policy.join(device(5000))
    assert begun(policy, 1.0) == [(5000, late)]
