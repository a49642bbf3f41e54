"""The state of a fleet as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait

from autotune.errors import FleetError
from autotune.fleet.capabilities import AgentFacts
from autotune.fleet.member import Member
from autotune.fleet.members import Members
from autotune.fleet.messages import Data, Facts, answer_of
from autotune.fleet.queue import FleetQueue
from autotune.utils.plain_data import count, mapping, share

# Seconds to wait for the list of workers, and for their answers.
_FIRST_S, _ANSWER_S = 10.0, 3.0


def status_rows(
    members: Members, queue: FleetQueue, clocks: Mapping[int, float]
) -> list[dict[str, object]]:
    """Return a row for each device, for the builders of each worker, and for each unused worker.

    The keys are ``worker`` and ``host``, ``place`` (``"cuda:0"``, ``"builders"``), ``device``,
    ``arch``, ``driver``, ``toolkit``; ``queue`` (waiting and running jobs of all clients),
    ``done``, ``failed``, ``rate`` (jobs per second in the last minute); ``clock`` (the factor by
    which this client multiplies the device's times, or None) and ``aside`` (why it is not used;
    empty if it is).

    Args:
        members: the workers of the fleet.
        queue: the queue of the fleet.
        clocks: the factor of each device, by number of its place.
    """
    members.wait_for_first_look(_FIRST_S)
    asked = [(member, member.begin(Facts())) for member in members.all()]
    wait([future for _, future in asked], _ANSWER_S)
    aside = {place.number: reason for place, _, reason in queue.places()}
    rows: list[dict[str, object]] = []
    for member, future in asked:
        places = _places(future)
        numbers = members.numbers(member)
        for row in _rows(member, places):
            number = numbers.get(str(row["place"]), -1)
            reason = aside.get(number, "") if places else "it does not answer"
            rows.append({**row, "clock": clocks.get(number), "aside": reason})
    return rows + [_unused(address, why) for address, why in members.unused().items()]


def _places(told: Future[object]) -> Mapping[str, Mapping[str, float]]:
    """Return the state of each place of a worker; empty if the worker did not answer in time."""
    if not told.done() or told.cancelled() or told.exception() is not None:
        return {}
    try:
        answer = answer_of(told.result())
        places = mapping(answer.data["places"]) if isinstance(answer, Data) else {}
        return {key: _state(mapping(one)) for key, one in places.items()}
    except (FleetError, KeyError, TypeError, ValueError):
        return {}


def _state(row: Mapping[str, object]) -> dict[str, float]:
    counts = {name: count(row[name]) for name in ("waiting", "done", "failed")}
    return {**counts, "rate": share(row["rate"])}


def _rows(
    member: Member, states: Mapping[str, Mapping[str, float]]
) -> Iterator[dict[str, object]]:
    facts = member.facts
    nothing = {"waiting": 0, "done": 0, "failed": 0, "rate": 0.0}
    for key in facts.places:
        state = states.get(key, nothing)
        yield {
            "worker": facts.name,
            "host": facts.host,
            "place": key,
            **_what(facts, key),
            "toolkit": facts.toolkit,
            "queue": state["waiting"],
            "done": state["done"],
            "failed": state["failed"],
            "rate": state["rate"],
        }


def _what(facts: AgentFacts, key: str) -> dict[str, str]:
    """Return the description of a place."""
    for one in facts.devices:
        if one.key == key:
            return {"device": one.name, "arch": one.descriptor.arch, "driver": one.release}
    return {"device": f"{facts.builders} builders", "arch": "", "driver": ""}


def _unused(address: str, why: str) -> dict[str, object]:
    texts = dict.fromkeys(("host", "place", "device", "arch", "driver", "toolkit"), "")
    numbers = dict.fromkeys(("queue", "done", "failed"), 0)
    return {"worker": address, **texts, **numbers, "rate": 0.0, "clock": None, "aside": why}
