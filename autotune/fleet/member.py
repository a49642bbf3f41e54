"""One worker of a fleet as its client sees it."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakValueDictionary

from autotune.errors import FleetError
from autotune.fleet.capabilities import AgentFacts
from autotune.fleet.file_store import Digests, chunks_of
from autotune.fleet.link import Link
from autotune.fleet.messages import (
    Answer,
    Ask,
    Build,
    FileChunk,
    Run,
    Unable,
    answer_of,
    ask_to_plain,
    loggable,
)
from autotune.fleet.queue import PlaceLost, PlaceUnable

# The number of files that a client remembers to have sent to a worker, which reports missing ones.
_MOST_SENT = 4096


@dataclass(eq=False)
class PendingRequest:
    """A request that is not yet answered.

    Attributes:
        future: the answer as a message.
        place: the key of the device that it is for, or ``"builders"``; empty for other requests.
        begun_s: when it was sent, in seconds of the monotonic clock.
        doubted: whether the worker did not account for it when it was asked last.
    """

    future: Future[object]
    place: str
    begun_s: float
    doubted: bool = False


class _Turn:
    """A lock that is held while a file is sent; it is removed with its last waiter."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Member:
    """One worker: messages to it, and the files that it was sent.

    Args:
        link: carries the messages.
        address: address of the worker.
        facts: the worker's description of itself.
        digests: hashes of the client's files.
        broken: called with the member and a reason when a message to it fails.
    """

    def __init__(
        self,
        link: Link,
        address: str,
        facts: AgentFacts,
        digests: Digests,
        broken: Callable[[Member, str], None],
    ) -> None:
        self.address = address
        self.facts = facts
        self._link = link
        self._digests = digests
        self._broken = broken
        self._lock = threading.Lock()
        self._calls: set[PendingRequest] = set()
        self._lost = ""
        self._sent: OrderedDict[str, None] = OrderedDict()
        self._sending: WeakValueDictionary[str, _Turn] = WeakValueDictionary()

    def ask(self, ask: Ask) -> Answer:
        """Send a request and wait for the answer.

        Raises:
            PlaceLost: the worker is gone, or was given up.
            PlaceUnable: the worker could not start the job.
        """
        call = self.begin(ask)
        try:
            answer = answer_of(call.result())
        except FleetError as error:
            raise PlaceUnable(str(error)) from error
        except PlaceLost as error:
            self._broken(self, str(error))
            raise
        if isinstance(answer, Unable):
            raise PlaceUnable(answer.reason, answer.for_good)
        return answer

    def begin(self, ask: Ask) -> Future[object]:
        """Send a request; the future gets the answer as a message, or `PlaceLost`."""
        answer: Future[object] = Future()
        call = PendingRequest(answer, _place_of(ask), time.monotonic())
        with self._lock:
            if self._lost:
                answer.set_exception(PlaceLost(self._lost))
                return answer
            self._calls.add(call)
        answer.add_done_callback(lambda _: self._over(call))
        asked = self._link.ask(self.address, ask_to_plain(ask))
        asked.add_done_callback(lambda done: _settle(answer, done))
        # If the call is given up meanwhile, the connection becomes free.
        answer.add_done_callback(lambda _: asked.cancel())
        return answer

    def _over(self, call: PendingRequest) -> None:
        with self._lock:
            self._calls.discard(call)

    def calls_before(self, seconds: float) -> list[PendingRequest]:
        """Return the unanswered calls of jobs that were sent before a time of the clock."""
        with self._lock:
            return [one for one in self._calls if one.place and one.begun_s <= seconds]

    def give_up(self, call: PendingRequest, why: str) -> None:
        """Let a call fail with `PlaceUnable`; a late answer is dropped."""
        with suppress(InvalidStateError):
            call.future.set_exception(PlaceUnable(why))

    def has(self, name: str) -> bool:
        """Whether a file was sent to the worker, which may have removed it since."""
        with self._lock:
            return name in self._sent

    def note_sent(self, *names: str) -> None:
        """Record that the worker has these files."""
        with self._lock:
            self._sent.update(dict.fromkeys(names))
            while len(self._sent) > _MOST_SENT:
                self._sent.popitem(last=False)

    def deliver(self, name: str, path: str) -> None:
        """Send a file in parts, once, even if several threads want to send it."""
        with self._lock:
            self._sent.pop(name, None)
            turn = self._sending.setdefault(name, _Turn())
        with turn.lock:
            if self.has(name):
                return
            transfer = secrets.token_hex(8)
            for start, total, data in chunks_of(path):
                self.ask(FileChunk(transfer, name, start, total, data))
            self.note_sent(name)

    def name_of(self, path: str) -> str:
        """Return the name by which a file of this client is known in messages."""
        return self._digests.name(path)

    def lose(self, why: str) -> None:
        """Fail all pending requests with `PlaceLost`; late answers are dropped."""
        with self._lock:
            self._lost = why
            calls, self._calls = self._calls, set()
        for call in calls:
            with suppress(InvalidStateError):
                call.future.set_exception(PlaceLost(why))


def _place_of(ask: Ask) -> str:
    """Return the key of the place that a job is for."""
    match ask:
        case Build():
            return "builders"
        case Run(device=device):
            return device
    return ""


def _settle(call: Future[object], done: Future[object]) -> None:
    with suppress(InvalidStateError):  # given up meanwhile
        if done.cancelled():
            call.set_exception(PlaceLost("the connection to it was closed"))
        elif (error := done.exception()) is not None:
            call.set_exception(PlaceLost(loggable(f"{type(error).__name__}: {error}")))
        else:
            call.set_result(done.result())
