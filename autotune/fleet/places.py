"""Places where jobs run - a device, or the builders of a worker - and the jobs that need them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

Kind = Literal["build", "run"]

# After losing _ALONE places an entry gets a place for itself; after losing _MOST_ALONE of these it
# is to blame. In between it waits, twice as long each time, as something else may kill workers.
# Places that come back had lost a connection, not their worker: of these it may lose some more.
_ALONE, _MOST_ALONE, _MOST_CUT, _PAUSE_S = 3, 6, 8, 0.5
# How long a place is set aside at first.
ASIDE_S = 15.0


@dataclass(frozen=True)
class Needs:
    """What an entry requires of its place; None means that anything will do.

    Attributes:
        kind: whether it builds or runs.
        device: ``"cuda"`` or ``"cpu"``.
        arch: architecture of the device, such as ``"sm_90"``.
        device_class: class of devices whose times may be compared.
        cpu: digest of the CPU for which C is compiled.
        toolkit: release of nvcc.
        cuda: the lowest major release of CUDA that the driver must support.
        only: number of the only place that is allowed.
    """

    kind: Kind
    device: str | None = None
    arch: str | None = None
    device_class: str | None = None
    cpu: str | None = None
    toolkit: str | None = None
    cuda: int = 0
    only: int | None = None


@dataclass(frozen=True)
class Place:
    """A place for jobs: one device of a worker, or its builders.

    Attributes:
        number: unique number within the fleet, never used again.
        agent: the worker's agent; what breaks one of its places may have broken the others.
        name: the name that is shown to people.
        slots: how many entries it may hold: those that run, and some that are ready to follow.
        lanes: how many entries run at once.
    """

    number: int
    agent: str
    name: str
    kind: Kind
    slots: int
    device: str = ""
    arch: str = ""
    device_class: str = ""
    cpu: str = ""
    toolkit: str = ""
    cuda: int = 0
    lanes: int = 1

    def suits(self, needs: Needs) -> bool:
        """Whether entries with these needs can run here."""
        if needs.kind != self.kind or needs.only not in (None, self.number):
            return False
        if needs.cuda > self.cuda:
            return False
        wanted = (
            (needs.device, self.device),
            (needs.arch, self.arch),
            (needs.device_class, self.device_class),
            (needs.cpu, self.cpu),
            (needs.toolkit, self.toolkit),
        )
        return all(want in (None, have) for want, have in wanted)


@dataclass(frozen=True)
class Verdict:
    """How an entry failed at one place.

    Attributes:
        failure: number of the error, by which failures are the same or not.
        outcome: its result.
        passes: how many entries had passed at the place by then.
    """

    failure: int
    outcome: object
    passes: int


@dataclass(eq=False)
class QueuedJob:
    """One job in the queue, with its history.

    Attributes:
        needs: what it requires of a place.
        attempt: how often it was started.
        lost: how many places were lost while they held it.
        lost_alone: the numbers of those that held nothing else, and have not come back.
        cut: how many places that held nothing else were lost and came back.
        not_before: the earliest time at which it may be started again.
        avoid: agents that do not get it while others can run it.
        verdicts: how it failed, by the numbers of the places.
        waited: whether its failure had to wait for places that were away.
        outcome: its result, which the policy only stores.
        unconfirmed: why nothing shows that the failure is its own; empty where something does.
    """

    needs: Needs
    attempt: int = 0
    lost: int = 0
    lost_alone: list[int] = field(default_factory=list)
    cut: int = 0
    not_before: float = 0.0
    avoid: set[str] = field(default_factory=set)
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    waited: bool = False
    outcome: object = None
    unconfirmed: str = ""

    @property
    def alone(self) -> bool:
        """Whether its place must hold nothing else."""
        return self.lost >= _ALONE

    @property
    def to_blame(self) -> bool:
        """Whether it is taken to be the cause of its lost places."""
        return len(self.lost_alone) >= _MOST_ALONE or self._times_alone >= _MOST_CUT

    @property
    def _times_alone(self) -> int:
        return len(self.lost_alone) + self.cut

    def note_lost(self, number: int, now: float) -> None:
        """Record that a place was lost while it held this entry."""
        if self.alone:
            self.lost_alone.append(number)
            self.not_before = now + _PAUSE_S * 2 ** (self._times_alone - 1)
        self.lost += 1

    def note_back(self, number: int) -> None:
        """Record that a place came back: its worker has lived on, whatever cut it off."""
        self.cut += self.lost_alone.count(number)
        self.lost_alone = [one for one in self.lost_alone if one != number]


Entry = TypeVar("Entry", bound=QueuedJob)


@dataclass
class PlaceState(Generic[Entry]):
    """The state of one place, which `autotune.fleet.roster` and `autotune.fleet.trust` change.

    Attributes:
        out: the entries that it holds.
        suspects: entries that failed here since the last success; their failures are not yet
            reported.
        failures, passes: how many entries have failed here, and how many have passed.
        strikes: how often an entry that failed here passed at another place.
        aside_until: when it is tried again; 0 while it takes part.
        left_s: when it left last.
    """

    place: Place
    out: set[Entry] = field(default_factory=set)
    suspects: list[Entry] = field(default_factory=list)
    failures: int = 0
    passes: int = 0
    strikes: int = 0
    aside_until: float = 0.0
    aside_s: float = ASIDE_S
    reason: str = ""
    here: bool = True
    left_s: float = float("-inf")

    @property
    def has_room(self) -> bool:
        """Whether it may have one more entry."""
        return len(self.out) < self.place.slots and not any(one.alone for one in self.out)

    @property
    def is_idle(self) -> bool:
        """Whether it could begin one more entry at once."""
        return len(self.out) < self.place.lanes and self.has_room
