"""The interface of a workload: a computation on a target, whose candidates are compared."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Protocol

from autotune.target import Target
from autotune.workload.candidate import Candidate
from autotune.workload.realisation import Realisation


class Workload(Hashable, Protocol):
    """Work for a target. A template with its arguments is one (`Task`), a te graph another.

    Equal workloads are the same work on the same target: what was measured of one holds for the
    other. Nothing of one changes while it is measured. A class that has this one as its base
    inherits what has a default here.
    """

    @property
    def name(self) -> str:
        """A short name, for messages."""
        ...

    @property
    def key(self) -> str:
        """Names the work among all others, on any target; the same in every process."""
        ...

    @property
    def target(self) -> Target | None:
        """The target of the kernels; None where nothing can be measured."""
        ...

    @property
    def flop(self) -> float:
        """Floating-point operations of one run; 0 where they are unknown."""
        ...

    @property
    def bytes(self) -> float:
        """Bytes that one run must move at least; 0 where they are unknown."""
        ...

    def realise(self, candidate: Any) -> Realisation:
        """Return the kernel or schedule of a candidate, ready to be lowered and built.

        Called once per trial, in the thread that submits it; changes neither the workload nor the
        candidate.

        Raises:
            InstantiationError: the candidate is impossible, or exceeds a limit of the target.
            AutotuneError: the candidate does not belong to this workload.
        """
        ...

    def examples(self) -> Iterable[Candidate]:
        """Return a few candidates, from which what all have in common is made ahead of time."""
        return ()

    def default(self) -> Candidate | None:
        """Return the candidate used where nothing was tuned, with which the best is compared."""
        return None

    def own(self, candidate: Candidate) -> Candidate:
        """Return the candidate of this workload that corresponds to one from a log.

        Raises:
            SpaceError: there is none in the workload as it is now; the message says why.
        """
        return candidate
