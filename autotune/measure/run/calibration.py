"""Calibration of several devices of one kind by an anchor kernel that is timed on each of them."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.measure.run.jobs import RunJob

logger = logging.getLogger("autotvm")

Time = Callable[[RunJob], "float | None"]


# The anchor is timed again after so many trials of a device, or after so long and a few trials.
EVERY, EVERY_S, FEW = 50, 60.0, 10
# A smaller change of the anchor's time is noise. One that is larger is timed once more.
STEADY = 0.02
# A change since the beginning, or since it was said last, that is worth to be told.
NOTABLE = 0.05


@dataclass(frozen=True)
class _Anchor:
    """The kernel that all devices time.

    Attributes:
        job: the job that runs it.
        seconds: the first measurement of the first device, to whose clock all times are scaled.
    """

    job: RunJob
    seconds: float


@dataclass
class _Clock:
    """The clock of one device, by the times of the anchor on it.

    Attributes:
        first_s, now_s: the first and the latest time of the anchor.
        said_s: the time that was reported last.
        trials: trials since the anchor was timed last.
        timed: when that was, in seconds.
    """

    first_s: float
    now_s: float
    said_s: float
    trials: int
    timed: float


class Calibration:
    """Scales what one device measures to what the anchor's device would have measured.

    The first candidate that runs on any device becomes the anchor. Every other device times it
    before its first result counts, and every device times it again from time to time, so that a
    device which becomes slower (a hot card lowers its clocks) or faster is corrected for, and the
    drift is reported. With one device, or while only one of several has measured, nothing is timed
    again.

    Args:
        devices: the number of devices.
        tell: called with a description of each large drift.
        now: returns monotonic time in seconds.
    """

    def __init__(
        self,
        devices: int,
        tell: Callable[[str], None] = logger.warning,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.active = devices > 1
        self._tell = tell
        self._now = now
        self._lock = threading.Lock()
        self._anchor: _Anchor | None = None
        self._clocks: dict[int, _Clock] = {}

    def known(self, device: int) -> float | None:
        """Return the factor of ``device``; None before its first result."""
        with self._lock:
            return self._factor(device) if self.active else 1.0

    def _factor(self, device: int) -> float | None:
        clock = self._clocks.get(device)
        if clock is None or self._anchor is None:
            return None
        return self._anchor.seconds / clock.now_s

    def factor(self, device: int, job: RunJob, seconds: float, time: Time) -> float:
        """Return by what to multiply the times of ``device``, which just ran ``job``.

        Args:
            device: who asks.
            job: what it ran.
            seconds: what it measured.
            time: times a job on that device; None when that fails.
        """
        if not self.active:
            return 1.0
        with self._lock:
            if self._anchor is None:
                kept = _kept(job)
                if kept is None:
                    return 1.0
                self._anchor = _Anchor(replace(kept, best_s=None, check="never"), seconds)
                self._clocks[device] = self._start(seconds)
            clock, anchor = self._clocks.get(device), self._anchor
        if clock is None:
            here = time(anchor.job) or anchor.seconds
            clock = self._clocks[device] = self._start(here)
        else:
            self._look_again(device, clock, anchor.job, time)
        return anchor.seconds / clock.now_s

    def recorded(self, device: int, factor: float) -> dict[str, object]:
        """Return the evidence of by whose clock a trial was timed, where there are several."""
        return {"device": device, "calibration": factor} if self.active else {}

    def _start(self, seconds: float) -> _Clock:
        return _Clock(seconds, seconds, seconds, 0, self._now())

    def _look_again(self, device: int, clock: _Clock, anchor: RunJob, time: Time) -> None:
        """Time the anchor once more, if that is due. Called in the thread of the device."""
        clock.trials += 1
        if len(self._clocks) < 2:  # of a fleet that may yet grow
            return
        late = self._now() - clock.timed >= EVERY_S and clock.trials >= FEW
        if clock.trials < EVERY and not late:
            return
        clock.trials, clock.timed = 0, self._now()
        here = time(anchor)
        if here and not _near(here, clock.now_s, STEADY):
            again = time(anchor) or clock.now_s
            here = min(here, again, key=lambda s: abs(math.log(s / clock.now_s)))
        if here and not _near(here, clock.now_s, STEADY):
            clock.now_s = here
            self._say(device, clock)

    def _say(self, device: int, clock: _Clock) -> None:
        if _near(clock.now_s, clock.said_s, NOTABLE):
            return
        clock.said_s = clock.now_s
        change = clock.now_s / clock.first_s - 1
        self._tell(
            f"device {device} is {abs(change):.0%} {'slower' if change > 0 else 'faster'} than at "
            f"the beginning of the run (the anchor kernel takes {clock.now_s * 1e6:.4g} us and "
            f"took {clock.first_s * 1e6:.4g}): its times are corrected by that"
        )


def _near(one: float, other: float, within: float) -> bool:
    return abs(math.log(one / other)) <= math.log1p(within)


def _kept(job: RunJob) -> RunJob | None:
    """Copy the anchor's artifact, since the builder removes its artifacts after use.

    Returns:
        The anchor; None if there is no space now, so that a later trial becomes the anchor.
    """
    source = Path(job.artifact)
    copy = source.with_name(f"anchor-{source.name}")
    try:
        os.link(source, copy)  # takes no space
    except OSError:
        try:
            copy.write_bytes(source.read_bytes())
        except OSError:
            with suppress(OSError):
                copy.unlink(missing_ok=True)
            return None
    return replace(job, artifact=str(copy))
