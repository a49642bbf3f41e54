"""The workers of a fleet as its client sees them: which are here, silent, or gone."""

from __future__ import annotations

import itertools
import logging
import resource
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any

from autotune.errors import FleetError
from autotune.fleet.capabilities import DeviceFacts, agent_facts_of, major
from autotune.fleet.file_store import Digests
from autotune.fleet.link import Link, Seen
from autotune.fleet.member import Member
from autotune.fleet.messages import (
    PROTOCOL,
    Data,
    Facts,
    Forget,
    Sender,
    answer_of,
    ask_to_plain,
    loggable,
)
from autotune.fleet.overdue import Overdue
from autotune.fleet.policy import Place
from autotune.fleet.queue import FleetQueue, PlaceLost

logger = logging.getLogger("autotvm")

# How often the scheduler is asked for its workers, and how long an answer may take.
_POLL_S, _ANSWER_S = 0.5, 10.0
# If a poll is late by more than this, this program was stopped (Ctrl-Z, a sleeping laptop) or the
# scheduler was away; that time does not count as silence of the workers.
_LATE_S = 2.0
# Other open files of this program, and connections that Dask keeps.
_FILES = 200
# How long a client that closes waits for workers to receive its last message.
_FAREWELL_S = 1.0


class Members:
    """Watches the workers, and adds their places to the queue and removes them.

    A worker is lost if its connection breaks, if the scheduler no longer knows it, or if it sends
    no heartbeat for ``lease_s``; its work is given to others. It joins again with its next
    heartbeat. The clocks of workers are not read: the client measures, by its own clock, how long
    the time of the last heartbeat has not changed.

    Args:
        link: connection to the scheduler.
        queue: the queue of the places.
        sender: this client.
        lease_s: seconds after which a silent worker is lost.
        patience_s: seconds after which a silent scheduler is taken to be gone.
        install: gives agents to workers without one; called while there are any.
        clock: returns monotonic time in seconds.
    """

    def __init__(
        self,
        link: Link,
        queue: FleetQueue,
        sender: Sender,
        lease_s: float,
        patience_s: float,
        install: Callable[[], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link, self._queue = link, queue
        self._clock = clock
        self._sender = sender
        self._lease_s, self._patience_s = lease_s, patience_s
        self._install = install
        self._digests = Digests()
        self._overdue = Overdue(link, patience_s)
        self._numbers: dict[tuple[str, str], int] = {}
        self._count = itertools.count()
        self._lock = threading.Lock()
        self._members: dict[str, Member] = {}
        self._by_number: dict[int, tuple[Member, str]] = {}
        # By address: when the time of its last heartbeat changed, by our clock, and that time.
        self._heard: dict[str, tuple[float, float]] = {}
        self._noted = clock()
        self._answer_s = min(_ANSWER_S, max(_POLL_S, patience_s / 2))
        self._asked: dict[str, Future[object]] = {}
        # Workers that are not used, by their addresses: the agent, and the reason.
        self._refused: dict[str, tuple[str, str]] = {}
        # Workers that do not answer a request for their description, and the reason.
        self._mute: dict[str, str] = {}
        self._bare: tuple[str, ...] = ()
        self._said_connections = False
        self._silent_since: float | None = None
        self._looking: Future[Any] = Future()
        self._over = threading.Event()
        self._first_look = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="autotune-fleet", daemon=True)
        self._thread.start()

    # ---- queries

    def at(self, number: int) -> tuple[Member, str]:
        """Return the worker to which a place belongs, and the key of its device.

        Raises:
            PlaceLost: the worker is gone.
        """
        with self._lock:
            found = self._by_number.get(number)
        if found is None:
            raise PlaceLost("it is gone")
        return found

    def all(self) -> list[Member]:
        """Return all workers that are in use."""
        with self._lock:
            return list(self._members.values())

    def device(self, number: int) -> DeviceFacts | None:
        """Return the description of a place's device; None if it is gone, or has no device."""
        with self._lock:
            found = self._by_number.get(number)
        if found is None:
            return None
        member, key = found
        return next((one for one in member.facts.devices if one.key == key), None)

    def numbers(self, member: Member) -> dict[str, int]:
        """Return the numbers of a worker's places, by their keys."""
        with self._lock:
            found = [(key, n) for n, (one, key) in self._by_number.items() if one is member]
        return dict(found)

    def unused(self) -> dict[str, str]:
        """Return why workers of the scheduler are not used, by their addresses."""
        bare = dict.fromkeys(self._bare, "it has no agent: it was not started by autotune worker")
        refused = {address: why for address, (_, why) in self._refused.copy().items()}
        return bare | self._mute | refused

    def wait_for_first_look(self, timeout_s: float) -> bool:
        """Wait until the workers that exist now are known; return whether they are."""
        return self._first_look.wait(timeout_s)

    # ---- watching

    def _watch(self) -> None:
        while not self._over.is_set():
            try:
                self._look()
                self._overdue.look(self.all())
                self._queue.tick()
            except Exception as error:  # no other thread watches the fleet, so go on
                logger.exception("watching the fleet failed: %s", error)
            self._over.wait(_POLL_S)

    def _look(self) -> None:
        """Ask the scheduler for its workers, and note which have joined and left."""
        now = self._clock()
        try:
            self._link.revive()
            self._looking = self._link.seen()
            seen = self._looking.result(self._answer_s)
        except (Exception, CancelledError) as error:  # whatever it is, there is no answer
            self._looking.cancel()
            self._no_scheduler(error, now)
            return
        if self._silent_since is not None:
            self._silent_since = None
            self._queue.revive()
        self._note(seen, self._clock())
        self._meet(seen)
        if not self._asked:
            self._first_look.set()

    def _no_scheduler(self, error: BaseException, now: float) -> None:
        """Note that the scheduler does not answer; fail all work after ``patience_s``."""
        # A timeout has a name alone.
        why = f"{type(error).__name__}: {error}".removesuffix(": ")
        if self._silent_since is None:
            self._silent_since = now
            logger.warning("the scheduler at %s does not answer: %s", self._link.address, why)
        silent_s = now - self._silent_since
        if silent_s >= self._patience_s:
            self._queue.fail(
                FleetError(
                    f"the scheduler at {self._link.address} has not answered for "
                    f"{silent_s:.0f} s ({why}): the fleet is gone. "
                    "Every trial that ended is in the log; start a scheduler, and go on with "
                    "resume="
                )
            )

    def _note(self, seen: Mapping[str, Seen], now: float) -> None:
        """Compare the scheduler's workers with the known ones; ask new ones who they are."""
        asleep_s, self._noted = now - self._noted, now
        if asleep_s > self._answer_s + _LATE_S:
            self._heard = {one: (at + asleep_s, word) for one, (at, word) in self._heard.items()}
        for address, one in seen.items():
            if self._heard.get(address, (0.0, None))[1] != one.word:
                self._heard[address] = now, one.word
        self._bare = tuple(address for address, one in seen.items() if not one.agent)
        if self._bare and self._install is not None:
            self._install()
        for address in list(self._heard):
            if address not in seen:
                del self._heard[address]
                self._forget(address)
                self._gone(address, "the scheduler has lost it")
                continue
            agent = seen[address].agent
            if now - self._heard[address][0] > self._lease_s:
                self._forget(address)
                self._gone(address, f"nothing was heard of it for {self._lease_s:g} s")
                continue
            if self._replaced(address, agent):
                self._forget(address)
                self._gone(address, "another was started in its place")
            if agent and not self._known(address):
                self._asked[address] = self._link.ask(address, ask_to_plain(Facts()))

    def _forget(self, address: str) -> None:
        """Forget why a worker was not used, and what it was asked."""
        self._refused.pop(address, None)
        self._mute.pop(address, None)
        asked = self._asked.pop(address, None)
        if asked is not None:
            asked.cancel()

    def _replaced(self, address: str, agent: str) -> bool:
        """Whether another agent has taken the place of the known one at this address."""
        with self._lock:
            member = self._members.get(address)
        known = self._refused.get(address, ("", ""))[0] if member is None else member.facts.agent
        return bool(agent and known) and agent != known

    def _known(self, address: str) -> bool:
        with self._lock:
            here = address in self._members
        return here or address in self._asked or address in self._refused

    def _meet(self, seen: Mapping[str, Seen]) -> None:
        """Let new workers join that have sent their descriptions."""
        waiting = list(self._asked.items())
        deadline = time.monotonic() + _POLL_S
        for address, asked in waiting:
            with suppress(FutureTimeout, CancelledError, Exception):
                asked.exception(max(0.0, deadline - time.monotonic()))
            if asked.done():
                del self._asked[address]
                self._met(address, asked, seen[address].agent)

    def _met(self, address: str, asked: Future[object], agent: str) -> None:
        if asked.cancelled():
            return
        if (error := asked.exception()) is not None:  # asked again with the next look
            why = loggable(f"{type(error).__name__}: {error}")
            if address not in self._mute:
                logger.warning("the worker at %s does not answer this client: %s", address, why)
            self._mute[address] = (
                f"it does not answer this client ({why}): "
                "clients talk to workers directly, so firewalls must let them"
            )
            return
        self._mute.pop(address, None)
        try:
            answer = answer_of(asked.result())
            if not isinstance(answer, Data):
                said = f"it says {type(answer).__name__}"
                raise FleetError(getattr(answer, "reason", said))
            facts = agent_facts_of(answer.data.get("facts"))
            if facts.protocol != PROTOCOL:
                raise FleetError(f"it speaks protocol {facts.protocol}, this client {PROTOCOL}")
        except FleetError as error:
            self._refused[address] = agent, str(error)
            logger.warning("the worker at %s is not used: %s", address, error)
            return
        self._join(Member(self._link, address, facts, self._digests, self._broken))

    def _join(self, member: Member) -> None:
        # The same agent may have come back under another address before it was missed.
        for other in self.all():
            if other.facts.agent == member.facts.agent:
                self._gone(other.address, "it came back under another address")
        places = [self._place(member, key) for key in member.facts.places]
        with self._lock:
            self._members[member.address] = member
            for place in places:
                self._by_number[place.number] = member, place.name.rpartition("/")[2]
        for place in places:
            self._queue.join(place)
        self._say_connections()

    def _say_connections(self) -> None:
        """Say once that a program may not open as many connections as this fleet has use for."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        wanted = _FILES + sum(place.slots for place, _, _ in self._queue.places())
        if resource.RLIM_INFINITY != most < wanted and not self._said_connections:
            self._said_connections = True
            logger.warning(
                "this fleet may have %d messages under way, each on a connection of its own, and "
                "this program may have %d files open: raise that (ulimit -n)",
                wanted,
                most,
            )

    def _place(self, member: Member, key: str) -> Place:
        facts = member.facts
        number = self._numbers.setdefault((facts.agent, key), next(self._count))
        name = f"{facts.name}/{key}"
        if key == "builders":
            lanes = facts.builders
            return Place(
                number, facts.agent, name, "build", lanes + _ahead(lanes), cpu=facts.cpu,
                toolkit=facts.toolkit, lanes=lanes,
            )  # fmt: skip
        device = next(one for one in facts.devices if one.key == key)
        return Place(
            number, facts.agent, name, "run", 1 + _ahead(1), device.kind, device.arch,
            device.device_class, facts.cpu, facts.toolkit, major(device.release),
        )  # fmt: skip

    def _gone(self, address: str, why: str) -> None:
        with self._lock:
            member = self._members.pop(address, None)
            numbers = [n for n, (m, _) in self._by_number.items() if m is member]
            for number in numbers:
                del self._by_number[number]
        if member is None:
            return
        logger.info("worker %s left: %s", member.facts.name, why)
        for number in numbers:
            self._queue.leave(number)
        member.lose(f"worker {member.facts.name}: {why}")

    def _broken(self, member: Member, why: str) -> None:
        """Remove a worker that does not answer; it joins again as soon as it does."""
        with self._lock:
            here = self._members.get(member.address) is member
        if here:
            self._gone(member.address, why)

    def close(self) -> None:
        """Leave the fleet; workers drop this client's waiting jobs."""
        self._over.set()
        self._looking.cancel()
        if self._thread is not threading.current_thread():
            self._thread.join(_ANSWER_S)
        heard = [
            self._link.ask(member.address, ask_to_plain(Forget(self._sender.client)))
            for member in self.all()
        ]
        wait(heard, _FAREWELL_S)
        for member in self.all():
            member.lose("the fleet was closed")


def _ahead(lanes: int) -> int:
    """Return how many entries a place holds beyond those that run, so that it never idles.

    While a message is on its way several entries may end: more of them the more run at once.
    """
    return 1 + lanes // 4
