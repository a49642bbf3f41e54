"""Where something can be done, and what it wants of a place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["build", "run"]


@dataclass(frozen=True)
class Needs:
    """What an entry wants of a place; None where it does not matter.

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
    """Where something can be done: one device of a worker, or its builders.

    Attributes:
        number: of this place in its fleet, given once.
        agent: whose it is; what breaks one place of it may have broken the others.
        name: for people.
        slots: how many entries it has at a time.
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
