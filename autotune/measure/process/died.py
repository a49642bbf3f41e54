"""The death of a process that gave no answer, as data."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.measure.types import MeasureErrorNo


@dataclass(frozen=True)
class Died:
    """The process of a job ended, or was killed, before it answered.

    Attributes:
        message: how.
        timed_out: whether it was killed because it took too long.
        exit_code: its exit status, negative for a signal; None when that is not known.
    """

    message: str
    timed_out: bool = False
    exit_code: int | None = None

    @property
    def error_no(self) -> MeasureErrorNo:
        """The kind of failure that the job has if it is to blame."""
        return MeasureErrorNo.RUN_TIMEOUT if self.timed_out else MeasureErrorNo.RUNTIME_DEVICE
