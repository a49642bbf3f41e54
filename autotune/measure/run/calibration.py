"""One clock for several devices: a common anchor kernel, timed on each of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.measure.run.jobs import RunJob

Time = Callable[[RunJob], "float | None"]


@dataclass(frozen=True)
class _Anchor:
    job: RunJob
    seconds: float
    device: int


class Calibration:
    """Scales what one device measures to what the anchor's device would have measured.

    The first candidate that runs anywhere becomes the anchor; every other device times it before
    its first result counts. With one device nothing happens.

    Args:
        devices: how many take part.
    """

    def __init__(self, devices: int) -> None:
        self.active = devices > 1
        self._lock = threading.Lock()
        self._anchor: _Anchor | None = None
        self._factors: dict[int, float] = {}

    def known(self, device: int) -> float | None:
        """Return the factor of ``device``; None before its first result."""
        with self._lock:
            return self._factors.get(device) if self.active else 1.0

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
                self._anchor = _Anchor(kept, seconds, device)
                self._factors[device] = 1.0
            known = self._factors.get(device)
            anchor = self._anchor
        if known is None:
            here = time(replace(anchor.job, best_s=None, check="never"))
            known = self._factors[device] = anchor.seconds / here if here else 1.0
        return known


def _kept(job: RunJob) -> RunJob | None:
    """Give the anchor an artifact of its own: the builder removes its artifacts after use.

    Returns:
        None where there is no room for it now: a later trial will do.
    """
    source = Path(job.artifact)
    copy = source.with_name(f"anchor-{source.name}")
    try:
        os.link(source, copy)  # takes no room
    except OSError:
        try:
            copy.write_bytes(source.read_bytes())
        except OSError:
            with suppress(OSError):
                copy.unlink(missing_ok=True)
            return None
    return replace(job, artifact=str(copy))
