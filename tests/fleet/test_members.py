"""Who is taken into a fleet, and that no worker keeps another out."""

import time
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest

from autotune.errors import FleetError
from autotune.fleet import Fleet, members
from autotune.fleet.capabilities import agent_facts_of
from autotune.fleet.link import Seen
from autotune.fleet.members import Members
from autotune.fleet.messages import Data, Sender, answer_to_plain
from autotune.fleet.policy import Needs, Place
from autotune.fleet.queue import FleetQueue, Work
from autotune.fleet.routes import Routes
from autotune.fleet.status import status_rows
from autotune.target import Target
from tests.fleet.doubles import FACTS

MAD = [
    None,
    [],
    {},
    {"builders": "x"},
    {"agent": []},
    {"devices": [{**FACTS.to_json()["devices"][0], "key": "cuda:x"}]},
    {"devices": FACTS.to_json()["devices"] * 2},
    {"devices": [{"key": "cpu:0"}]},
    {"protocol": "new"},
]


@pytest.mark.parametrize("changed", MAD)
def test_what_is_no_description_of_a_worker_is_refused_in_words(changed):
    data = {**FACTS.to_json(), **changed} if changed else changed
    with pytest.raises(FleetError, match="no facts of a worker"):
        agent_facts_of(data)


def test_facts_arrive_as_they_were_and_have_no_power_over_a_terminal():
    assert agent_facts_of(FACTS.to_json()) == FACTS
    odd = agent_facts_of(replace(FACTS, name="\x1b[2Jx", builders=10**9).to_json())
    assert odd.name == r"\x1b[2Jx"
    assert odd.builders < 10**5


class Door:
    """In place of a `Link`: the scheduler knows these workers, and these answer.

    Attributes:
        workers: what each answers by its address, and the agent in its heartbeats; an exception
            where it is not reached, None where it never answers.
    """

    address = "tcp://scheduler"

    def __init__(self):
        self.workers = {}
        self.words = self.looks = 0
        self.hears = True

    def revive(self):
        pass

    def seen(self):
        self.words += self.hears
        self.looks += 1
        return done({a: Seen(self.words, agent) for a, (_, agent) in self.workers.items()})

    def ask(self, address, message):
        told = self.workers[address][0] if address in self.workers else OSError("gone")
        return Future() if told is None else done(told)


def done(outcome):
    future = Future()
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    return future


def told(facts, **state):
    return answer_to_plain(Data({"facts": facts.to_json(), **state}))


@pytest.fixture
def watched(monkeypatch):
    """A door, and the members and the queue behind it."""
    monkeypatch.setattr(members, "_POLL_S", 0.01)
    door, queue = Door(), FleetQueue(5)
    here = Members(door, queue, Sender("me"), 5, 5, None)
    yield door, here, queue
    queue.close()
    here.close()


def until(holds):
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def names(here):
    return sorted(member.facts.name for member in here.all())


@pytest.mark.parametrize("mad", [{"answer": "Data", "data": {}}, {"answer": 5}, [[]], b"x"])
def test_a_mad_worker_keeps_no_other_from_joining(watched, mad):
    door, here, _ = watched
    door.workers = {"tcp://mad": (mad, "m"), "tcp://one": (told(FACTS), "a1")}
    until(lambda: names(here) == ["one"])
    until(lambda: "tcp://mad" in here.unused())
    assert here.wait_for_first_look(5)


def test_a_worker_that_cannot_be_reached_is_said(watched, caplog):
    door, here, _ = watched
    door.workers = {"tcp://far": (OSError("timed out"), "f")}
    until(lambda: here.unused())
    assert "firewalls must let them" in here.unused()["tcp://far"]
    until(lambda: "tcp://far does not answer this client" in caplog.text)
    assert caplog.text.count("tcp://far") == 1
    door.workers = {"tcp://far": (told(FACTS), "a1")}
    until(lambda: names(here) == ["one"])
    assert not here.unused()


def test_a_worker_that_left_before_it_answered_is_nobody(watched):
    door, here, _ = watched
    door.workers = {"tcp://one": (None, "a1")}
    until(lambda: here._asked)
    asked = here._asked["tcp://one"]
    door.workers = {}
    until(lambda: not here._asked)
    assert asked.cancelled()
    assert not here.all()
    assert here.wait_for_first_look(5)


def test_a_worker_in_the_place_of_another_is_asked_who_it_is(watched):
    door, here, _ = watched
    door.workers = {"tcp://one": ({"answer": "Unable", "reason": "old", "for_good": False}, "a0")}
    until(lambda: here.unused())
    for name, agent in (("one", "a1"), ("two", "a2")):
        facts = replace(FACTS, name=name, agent=agent)
        door.workers = {"tcp://one": (told(facts), agent)}
        until(lambda name=name: names(here) == [name])
    assert not here.unused()


def test_a_scheduler_that_answers_too_late_is_told_by_the_name_of_the_error(watched, caplog):
    door, here, queue = watched
    here._patience_s = 0.1
    door.seen = lambda: done(TimeoutError())
    until(lambda: "does not answer: TimeoutError" in caplog.text)
    until(lambda: queue.over is not None)
    assert "s (TimeoutError): the fleet is gone" in str(queue.over)


def test_a_program_that_was_stopped_gives_up_no_worker_for_what_it_did_not_hear(watched):
    door, here, _ = watched
    door.workers = {"tcp://one": (told(FACTS), "a1")}
    until(lambda: names(here) == ["one"])
    later_s = 0.0
    here._clock = lambda: time.monotonic() + later_s

    def pass_(seconds):
        nonlocal later_s
        later_s += seconds
        looks = door.looks
        until(lambda: door.looks > looks + 2)

    door.hears = False  # what the scheduler knew before the stop is all that is read after it
    pass_(100.0)
    assert names(here) == ["one"]
    pass_(3.0)
    pass_(3.0)
    assert names(here) == []


def test_a_fleet_that_wants_more_connections_than_a_program_may_have_says_so_once(
    watched, monkeypatch, caplog
):
    door, here, _ = watched
    monkeypatch.setattr(members.resource, "getrlimit", lambda kind: (200, 4096))
    for name in ("one", "two"):
        facts = replace(FACTS, name=name, agent=name)
        door.workers = {**door.workers, f"tcp://{name}": (told(facts), name)}
    until(lambda: names(here) == ["one", "two"])
    until(lambda: "ulimit -n" in caplog.text)
    assert caplog.text.count("ulimit -n") == 1


def test_a_scheduler_in_the_place_of_another_is_told_of_agents_again():
    told_to = []
    link = SimpleNamespace(scheduler="first")
    link.install = lambda plugin: told_to.append(link.scheduler)
    fleet = SimpleNamespace(_link=link, _installed="")
    for name in ("first", "first", "second", "second"):
        link.scheduler = name
        Fleet._install(fleet)
    assert told_to == ["first", "second"]


@pytest.mark.parametrize("places", [[], {"cpu:0": 5}, {"cpu:0": {"waiting": "x"}}])
def test_a_state_that_is_none_breaks_no_table(watched, places):
    door, here, queue = watched
    door.workers = {"tcp://one": (told(FACTS, places=places), "a1")}
    until(lambda: names(here) == ["one"])
    rows = status_rows(here, queue, {})
    assert {row["aside"] for row in rows} == {"it does not answer"}


def test_a_queue_that_was_closed_begins_nothing():
    queue = FleetQueue(5)
    work = Work(lambda number: number, lambda outcome: 0, str, lambda outcome, why: outcome)
    future = queue.put(Needs("run"), work)
    queue.close()
    queue.join(Place(0, "a", "a/cpu:0", "run", 2))
    queue.tick()
    queue.revive()
    assert future.cancelled()
    assert queue.over is not None


def test_a_kernel_in_c_runs_only_where_the_cpu_is_that_it_was_compiled_for(caplog):
    queue = FleetQueue(1)
    for number, cpu in enumerate(("new", "old", "old")):
        name = f"host{number}"
        queue.join(
            Place(2 * number, name, f"{name}/cpu:0", "run", 2, "cpu", cpu, "Some CPU", cpu=cpu)
        )
        queue.join(Place(2 * number + 1, name, f"{name}/builders", "build", 2, cpu=cpu))
    routes, target = Routes(queue), Target("c")
    for needs in (routes.run_needs(target), routes.build_needs(target)):
        assert {place.cpu for place in queue.able(needs)} == {"old"}
    assert "2 of 3 x Some CPU" in caplog.text
    queue.close()


def test_who_joins_late_with_an_older_driver_is_not_given_what_it_cannot_load():
    queue = FleetQueue(1)

    def join(number, driver):
        name = f"host{number}"
        queue.join(
            Place(number, name, name, "run", 2, "cuda", "sm_90", "H200", "", "13.0", driver)
        )

    join(0, 13)
    queue.join(Place(1, "host0", "host0/builders", "build", 2, toolkit="13.0"))
    routes, target = Routes(queue), Target("cuda -arch=sm_90")
    assert routes.build_needs(target).toolkit == "13.0"
    join(2, 12)
    join(3, 13)
    assert {place.number for place in queue.able(routes.run_needs(target))} == {0, 3}
    queue.close()
