"""Calls that take too long: workers are asked about them, and give an account or lose them.

A worker whose device hangs in the driver, or whose thread is stuck, goes on to send heartbeats, so
its lease never ends. But it can tell which of its places is busy, and whether what runs there has
exceeded its time limit; a job that waits behind others is thus told from one that will never end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from autotune.errors import FleetError
from autotune.fleet.link import Link
from autotune.fleet.member import Member, PendingRequest
from autotune.fleet.messages import Data, Facts, answer_of, ask_to_plain
from autotune.utils.plain_data import count, mapping, number

# The longest wait for a worker's answer.
_ANSWER_S = 10.0


@dataclass
class _Question:
    """A worker was asked about its places.

    Attributes:
        answer: the future of the answer.
        asked_s: when it was asked.
        judged: whether the answer, or that there is none, was compared with the calls.
    """

    answer: Future[object]
    asked_s: float
    judged: bool = False


class Overdue:
    """Looks after the calls of all workers.

    A call is given up when two answers in a row, `patience_s` apart, do not account for it: an
    answer may cross the reply on its way.

    Args:
        link: carries the messages.
        patience_s: seconds after which a worker is asked about a call.
        clock: returns monotonic time in seconds.
    """

    def __init__(
        self, link: Link, patience_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._link = link
        self._patience_s = patience_s
        self._clock = clock
        self._questions: dict[Member, _Question] = {}

    def look(self, members: Iterable[Member]) -> None:
        """Ask about calls that take long, and give up what is not accounted for.

        To be called regularly; it does not wait.
        """
        here = list(members)
        self._questions = {one: asked for one, asked in self._questions.items() if one in here}
        now = self._clock()
        for member in here:
            calls = member.calls_before(now - self._patience_s)
            question = self._questions.get(member)
            if not calls:
                self._questions.pop(member, None)
            elif question is None:
                self._questions[member] = self._asked(member, now)
            elif not question.judged:
                if question.answer.done() or now - question.asked_s >= _ANSWER_S:
                    self._judge(member, calls, question)
            elif now - question.asked_s >= self._patience_s:
                self._questions[member] = self._asked(member, now)

    def _asked(self, member: Member, now: float) -> _Question:
        return _Question(self._link.ask(member.address, ask_to_plain(Facts())), now)

    def _judge(self, member: Member, calls: Iterable[PendingRequest], question: _Question) -> None:
        """Compare a worker's answer with the calls that it should account for."""
        question.judged = True
        places = _places(question.answer)
        for call in calls:
            if call.begun_s > question.asked_s:
                continue
            wrong = "it does not answer" if places is None else _wrong(places.get(call.place))
            if wrong and call.doubted:
                waited_s = self._clock() - call.begun_s
                member.give_up(call, f"it has not answered for {waited_s:.0f} s: {wrong}")
            call.doubted = bool(wrong)


def _places(answer: Future[object]) -> Mapping[str, object] | None:
    """Return the state of a worker's places; None if it did not answer."""
    if not answer.done() or answer.cancelled() or answer.exception() is not None:
        answer.cancel()
        return None
    try:
        told = answer_of(answer.result())
        return mapping(told.data["places"]) if isinstance(told, Data) else None
    except (FleetError, KeyError, TypeError, ValueError):
        return None


def _wrong(state: object) -> str:
    """Return why a place does not account for a call; an empty string if it does."""
    try:
        row = mapping(state)
        if not count(row["waiting"]):
            return "nothing waits or runs there"
        overdue_s = number(row.get("overdue_s", 0.0))
    except (KeyError, TypeError, ValueError):
        return "it tells no state of the place"
    return f"what runs there exceeds its limit by {overdue_s:.0f} s" if overdue_s > 0 else ""
