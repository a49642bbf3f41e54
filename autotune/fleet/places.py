"""Workers as places for jobs: their capacity, their requirements, and the jobs in flight."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["build", "run"]

# After so many lost places an entry is tried alone, and to blame after so many lost alone. So long
# it waits before it is tried again, twice as long each time: who kills workers may be another.
_ALONE, _MOST_ALONE, _PAUSE_S = 3, 6, 0.5


@dataclass(frozen=True)
class Needs:
    """Requirements of an entry for its place; None where any will do.

    Attributes:
        kind: what is to be done there.
        device: ``"cuda"`` or ``"cpu"``.
        arch: of the device, ``"sm_90"``.
        device_class: devices whose times may be compared.
        cpu: digest of the CPU for which C is compiled.
        toolkit: release of nvcc.
        cuda: least major release of CUDA that its driver is for.
        only: number of the one place that will do.
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
        number: of this place in its fleet, given once.
        agent: whose it is; what breaks one place of it may have broken the others.
        name: for people.
        slots: how many entries it has at a time: those at work, and some that are ready to follow.
        lanes: how many of them are at work at once.
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
        """Whether entries with these needs can be done here."""
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


@dataclass(eq=False)
class Entry:
    """One piece of work on its way.

    Attributes:
        needs: where it can be done.
        attempt: how often it was begun.
        lost, lost_alone: how often the place was lost that had it, and when it had nothing else.
        not_before: when it may be begun again.
        avoid: agents that are not to have it, as long as others can.
        accused_by: number of the place that says it fails, and whose word is not enough.
        outcome: what came of it; the shell's affair.
    """

    needs: Needs
    attempt: int = 0
    lost: int = 0
    lost_alone: int = 0
    not_before: float = 0.0
    avoid: set[str] = field(default_factory=set)
    accused_by: int | None = None
    outcome: object = None

    @property
    def alone(self) -> bool:
        """Whether a place is to have nothing else beside it."""
        return self.lost >= _ALONE

    @property
    def to_blame(self) -> bool:
        """Whether it is what its places are lost by."""
        return self.lost_alone >= _MOST_ALONE

    def note_lost(self, now: float) -> None:
        """Take note that a place was lost that had it."""
        self.lost_alone += self.alone
        self.lost += 1
        if self.lost_alone:
            self.not_before = now + _PAUSE_S * 2 ** (self.lost_alone - 1)
