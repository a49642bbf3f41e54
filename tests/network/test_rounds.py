"""Rounds of several functions at once, and races by the time of a whole network."""

import threading
from types import SimpleNamespace

import pytest

from autotune.errors import MeasureError, RecordError
from autotune.network.choice import RULE, ByTemplate
from autotune.network.tuning.program_race import FunctionRace
from autotune.network.tuning.rounds import Rounds
from autotune.network.tuning.whole_race import race_whole
from autotune.target import Target

GPU = Target("cuda")


class FakeArm:
    """Each round makes the time half of what it was; the first two go on together."""

    def __init__(self, gauge, rounds=4, error=None):
        self.name, self.round_s, self.seconds = "template", 1.0, 1.0
        self.best_by_round, self.exhausted, self.busy = [], False, False
        self.gauge, self.left, self.error = gauge, rounds, error
        self.run = SimpleNamespace(halt=lambda why: setattr(self, "halted", why))
        self.halted = ""

    def advance(self, session, trials, timeout_s, clock):
        assert trials == session.capacity // 2
        assert self.busy
        with self.gauge["lock"]:
            self.gauge["now"] += 1
            self.gauge["most"] = max(self.gauge["most"], self.gauge["now"])
            if self.gauge["now"] == 2:
                self.gauge["met"].set()
        assert self.gauge["met"].wait(30)
        with self.gauge["lock"]:
            self.gauge["now"] -= 1
        if self.error is not None:
            raise self.error
        self.seconds /= 2
        self.best_by_round.append(self.seconds)
        self.left -= 1
        self.exhausted = not self.left


def rounds(errors, capacity=32, mixes=True):
    gauge = {"lock": threading.Lock(), "now": 0, "most": 0, "met": threading.Event()}
    arms = [FakeArm(gauge, error=error) for error in errors]
    tuned = [
        SimpleNamespace(
            arms=[arm], calls=1, floor_s=0.0, seconds=1.0,
            function=SimpleNamespace(flop=1.0, name="f"),
        )
        for arm in arms
    ]  # fmt: skip
    told = []
    session = SimpleNamespace(capacity=capacity, mixes_tasks=mixes)
    made = Rounds(tuned, session, GPU, lambda one, arm: told.append(arm))
    return made, arms, gauge, told


def test_rounds_of_several_functions_are_under_way_at_once_and_never_two_of_one():
    made, arms, gauge, told = rounds([None] * 6)
    made.run(lambda: 1.0)
    assert 2 <= gauge["most"] <= 4
    assert [arm.left for arm in arms] == [0] * 6
    assert len(told) == 24
    assert not any(arm.busy for arm in arms)


def test_who_cannot_mix_tasks_gets_one_at_a_time():
    made, arms, _, told = rounds([None] * 3, mixes=False)
    for arm in arms:
        arm.busy = False
        arm.advance = lambda session, trials, timeout_s, clock, arm=arm: setattr(
            arm, "exhausted", True
        )
    made.run(lambda: 1.0)
    assert len(told) == 3


def test_a_way_that_cannot_be_measured_is_left_and_a_log_that_cannot_be_written_ends_it():
    made, arms, _, _ = rounds([None, MeasureError("no"), None])
    made.run(lambda: 1.0)
    assert arms[1].exhausted
    assert [arms[0].left, arms[2].left] == [0, 0]
    made, arms, _, _ = rounds([None, RecordError("disk full"), None, None, None, None])
    with pytest.raises(RecordError, match="disk full"):
        made.run(lambda: 1.0)
    assert any(arm.left for arm in arms if arm.error is None)


def test_an_interrupt_halts_what_is_under_way():
    made, arms, _, _ = rounds([None] * 4)
    asked = iter([1.0] * 3)

    def left_s():
        if not (seconds := next(asked, 0)):
            raise KeyboardInterrupt
        return seconds

    with pytest.raises(KeyboardInterrupt):
        made.run(left_s)
    assert sum(bool(arm.halted) for arm in arms) == 3


def test_an_interrupt_waits_for_no_round_and_says_nothing_of_its_end(caplog):
    made, arms, _, _ = rounds([None] * 4)
    over = threading.Event()
    asked = iter([1.0] * 3)

    def until_it_is_closed(*_):
        assert over.wait(60)
        raise MeasureError("the session was closed")

    for arm in arms:
        arm.advance = until_it_is_closed

    def left_s():
        if not (seconds := next(asked, 0)):
            raise KeyboardInterrupt
        return seconds

    with pytest.raises(KeyboardInterrupt):
        made.run(left_s)
    assert sum(arm.busy for arm in arms) == 3
    over.set()
    for future in made._under_way:
        assert future.exception(60) is None
    assert not caplog.text


def choice(name):
    return ByTemplate(SimpleNamespace(task=SimpleNamespace(key=name)), SimpleNamespace(key=""))


class Whole:
    """A network that takes what its choices take, and more where two do not go together."""

    def __init__(self, seconds, built):
        self.seconds, self.built = seconds, built

    def __call__(self, chosen):
        names = {key: each.key for key, each in chosen.items()}
        self.built.append(names)
        seconds = self.seconds(names)
        sampler = SimpleNamespace(sample=lambda number: number * seconds)
        return SimpleNamespace(program=SimpleNamespace(sampler=lambda: sampler))


def raced(signature, *seconds):
    field = (RULE, choice("a"), choice("b"))[: len(seconds)]
    best = min(range(len(seconds)), key=seconds.__getitem__)
    return FunctionRace(signature, signature, field[best], tuple(seconds), field, 5)


def test_the_whole_network_decides_where_single_kernels_said_otherwise():
    def seconds(names):  # alone "a" is fastest; between its neighbours "b" is
        return 1e-4 * {"rule": 5, "template a ": 1.0, "template b ": 0.9}[names["f"]]

    built = []
    winners, compared = race_whole([raced("f", 9.0, 1.0, 1.1)], Whole(seconds, built), lambda: 1)
    assert winners["f"].key == "template b "
    assert {"f": "rule"} not in built  # far behind: not built for the whole network
    (first, *_) = compared
    assert (first.key, first.signature) == ("template b ", "f")
    assert first.seconds < first.against_s


def test_sweeps_go_on_as_long_as_they_gain_and_stop_when_the_time_is_over():
    def seconds(names):  # "b" of the first pays only with "b" of the second
        pair = names["f"][-2], names["g"][-2]
        return {"aa": 1.0, "ba": 1.1, "ab": 0.9, "bb": 0.7}["".join(pair)] * 1e-4

    both = [raced("f", 9.0, 1.0, 1.05), raced("g", 9.0, 0.9, 0.95)]
    winners, _ = race_whole(both, Whole(seconds, []), lambda: 1)
    assert [winners[key].key for key in "fg"] == ["template b ", "template b "]
    winners, compared = race_whole(both, Whole(seconds, []), lambda: 0)
    assert [winners[key].key for key in "fg"] == ["template a ", "template a "]
    assert compared == []
