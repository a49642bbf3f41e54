"""Which function of a network is tuned next, and in which way."""

import math
from types import SimpleNamespace

from autotune.network.tuning.allocation import gain_per_second, next_arm
from autotune.network.tuning.arms import Arm, Tuned


def arm(*history, round_s=1.0, exhausted=False, name="template"):
    seconds = history[-1] if history else math.inf
    return SimpleNamespace(
        best_by_round=list(history), seconds=seconds, round_s=round_s, exhausted=exhausted,
        name=name, busy=False,
    )  # fmt: skip


def function(*arms, calls=1, flop=1.0, floor_s=0.0):
    return SimpleNamespace(
        arms=list(arms), calls=calls, floor_s=floor_s, function=SimpleNamespace(flop=flop),
        seconds=min(each.seconds for each in arms),
    )  # fmt: skip


def test_every_function_gets_a_kernel_before_any_gets_a_second_look():
    known = function(arm(1.0), arm(name="search"))
    open_, larger = function(arm()), function(arm(), flop=9)
    assert next_arm([known, open_, larger])[0] is larger
    assert next_arm([known, open_])[0] is open_
    assert next_arm([known])[1] is known.arms[1]


def test_time_goes_where_the_network_gains_most_for_it():
    rare, often = function(arm(1.0, 0.9)), function(arm(1.0, 0.9), calls=3)
    assert next_arm([rare, often])[0] is often
    slow = function(arm(1.0, 0.9, round_s=9.0), calls=3)
    assert next_arm([rare, slow])[0] is rare
    beaten = function(arm(1.0, 0.5), arm(9.0, 9.0))
    assert next_arm([beaten])[1] is beaten.arms[0]
    stuck = function(arm(*[0.5] * 200), arm(2.0, 1.0))
    assert next_arm([stuck])[1] is stuck.arms[1]


def test_a_kernel_too_short_for_the_clock_ends_no_tuning():
    none = function(arm(0.0), arm(name="search"))
    assert next_arm([none, function(arm(1.0), arm(2.0, name="search"))]) is not None


def test_a_way_is_judged_by_what_it_did_for_other_functions():
    def tried(best, other, round_s):
        return function(arm(best), arm(other, name="search", round_s=round_s))

    new = function(arm(1.0), arm(name="search"))
    slower, equal = tried(1.0, 5.0, 9.0), tried(1.0, 1.0, 1.0)
    # It was five times slower elsewhere, and slow to try: the template gets the next round.
    assert next_arm([slower, new])[1].name == "template"
    # It was as good, so that a first look promises as much as any later round of the template.
    assert next_arm([equal, function(arm(*[1.0] * 9), arm(name="search"), calls=9)])[1].name == (
        "search"
    )
    # What failed everywhere is not tried for all functions first.
    assert next_arm([tried(1.0, math.inf, 1.0), new])[1].name == "template"


def test_small_functions_do_not_wait_for_a_look_at_each_of_their_ways():
    """As in ResNet-18: convolutions of 15 us in three ways, and a softmax of 1 us in three."""
    convs = [function(arm(name="direct"), arm(name="winograd"), arm(name="te")) for _ in range(9)]
    softmax = function(arm(name="rows"), arm(name="te/rows"), arm(name="search"))
    takes = {"direct": 14e-6, "winograd": 10e-6, "te": 90e-6}
    everything = [softmax, *convs]
    for each in everything:
        each.seconds = each.untuned = 1e-6 if each is softmax else 15e-6
    order = []
    for _ in range(40):
        one, way = next_arm(everything)
        before = way.seconds if way.best_by_round else 1.2 * takes.get(way.name, 1e-6)
        way.best_by_round.append(max(takes.get(way.name, 1e-6), 0.95 * before))
        way.seconds = way.best_by_round[-1]
        one.seconds = min(one.untuned, *(each.seconds for each in one.arms))
        order.append(([each is one for each in everything].index(True), way.name))
    assert 0 not in dict(order[:20])
    assert max(order.index((conv, "winograd")) for conv in range(1, 10)) < 20
    assert sum(name == "te" for _, name in order) <= 2


def test_a_way_that_is_tried_for_the_first_time_is_tried_for_one_function():
    first = function(arm(1.0), arm(name="search"))
    first.arms[1].busy = True
    second = function(arm(1.0), arm(name="search"))
    assert next_arm([first, second])[1].name == "template"


def test_untuned_times_count_until_the_same_kernel_was_a_trial():
    def way(seconds):
        found = (None, SimpleNamespace(seconds=seconds)) if seconds < 9 else None
        return Arm("way", SimpleNamespace(scoreboard=SimpleNamespace(best=found)))

    open_, tried = way(math.inf), way(2.0)
    assert Tuned(None, 1, [open_], 1.0, open_).seconds == 1.0
    assert Tuned(None, 1, [tried, open_], 1.0, open_).seconds == 1.0
    assert Tuned(None, 1, [tried], 1.0, tried).seconds == 2.0
    assert Tuned(None, 1, [tried], 1.0, None).seconds == 1.0  # by rule: never a trial


def test_what_no_kernel_can_beat_and_what_is_exhausted_gets_nothing():
    done = function(arm(1.0, 1.0), floor_s=0.9)
    assert gain_per_second(done, done.arms[0]) == 0
    assert next_arm([done, function(arm(1.0, exhausted=True))]) is None


def test_the_floor_of_a_function_is_that_of_its_best_way_by_its_record():
    def way(seconds, roofline):
        best = SimpleNamespace(seconds=seconds, evidence=SimpleNamespace(roofline=roofline))
        return Arm("way", SimpleNamespace(scoreboard=SimpleNamespace(best=(None, best))))

    tuned = Tuned(SimpleNamespace(flop=1.0), 1, [way(2.0, 0.4), way(1.0, 0.9)])
    assert tuned.floor_s == 0.9
    assert gain_per_second(tuned, tuned.arms[0]) == 0
    assert Tuned(None, 1, [way(1.0, None)]).floor_s == 0.0
