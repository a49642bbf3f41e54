"""The energy of one run of a kernel: the power between two moves of a counter, while it runs.

Counters move up to ten times a second at least, and a kernel runs for microseconds: it runs again
and again, for `TimingPolicy.energy_s` at least, and the mean power times the time of a run is its
energy. Nothing is subtracted: what the device takes when idle is part of it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from autotune.errors import DeviceError
from autotune.measure.evidence import Energy
from autotune.runtime.energy import STILL_S, EnergyMeter, idle_watts, meter_of
from autotune.runtime.timing import Sampler, sample_and_duration
from autotune.target import Target

# What the first part of a run takes says little: clocks rise, and counters lag behind.
LEAD_S = 0.1
# The first and the last move that count lie up to a period of the counter inside of the run: so
# much of it is between them, or the run is made again, this much longer.
_BETWEEN, _GROWTH, _MOST_TRIES = 0.5, 2.0, 4
# Seconds over which the idle power is averaged.
_IDLE_S = 0.2
# Runs of which the duration is taken, where a run takes longer than it tells.
_TRIED_RUNS = 4


def require_meter(target: Target, device: int) -> None:
    """Check that the energy of a device can be measured, before anything is built for it.

    Raises:
        DeviceError: it cannot; the message says why, and what to do.
    """
    idle_watts(meter_of(target, device), 0.0)


def longest_s(least_s: float) -> float:
    """Return how long measuring the energy of a kernel may take, besides one run of it."""
    return STILL_S + (LEAD_S + least_s) * _GROWTH**_MOST_TRIES


class Trace:
    """The moves of a counter, as a thread sees them.

    Attributes:
        moves: pairs of a time and of the energy by then.
        error: why nothing more could be read.
    """

    def __init__(self, meter: EnergyMeter) -> None:
        self.moves: list[tuple[float, float]] = []
        self.error: DeviceError | None = None
        self._meter = meter
        self._over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the counter inside of ``with``."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _watch(self) -> None:
        last = None
        try:
            while not self._over.is_set():
                before, joules = time.perf_counter(), self._meter.joules()
                if joules != last:
                    self.moves.append(((before + time.perf_counter()) / 2, joules))
                last = joules
                self._over.wait(self._meter.poll_s)
        except DeviceError as error:
            self.error = error


class Gauge:
    """Measures what kernels take on one device.

    Args:
        meter: of the device.
    """

    def __init__(self, meter: EnergyMeter) -> None:
        self._meter = meter
        # What a package of a CPU takes depends on what else the host does at that time.
        self._idle_w = 0.0 if meter.shared else idle_watts(meter, _IDLE_S)

    def out_of_reach(self, seconds: float, best_joules: float | None) -> Energy | None:
        """Return the least energy of a kernel that takes so long, if another one takes less.

        A device takes its idle power at least. A kernel for which even that is too much is beaten
        in energy, and by a faster one: it is the best by no objective of time and energy.
        """
        least = self._idle_w * seconds
        if best_joules is None or least <= best_joules:
            return None
        return Energy(at_least=least, meter=self._meter.name)

    def take(self, sampler: Sampler, seconds: float, least_s: float) -> Energy:
        """Measure the energy of one run.

        Args:
            sampler: runs the kernel.
            seconds: that one run takes, about.
            least_s: how long the kernel runs at least, after `LEAD_S`.

        Raises:
            DeviceError: the counter does not move, or cannot be read.
        """
        each_s = seconds
        if sampler.alone:  # each run is preceded by something that takes time, and energy
            each_s = sample_and_duration(sampler, _TRIED_RUNS)[1] / _TRIED_RUNS
        wanted_s = LEAD_S + least_s
        for _ in range(_MOST_TRIES):
            number = max(1, math.ceil(wanted_s / max(each_s, 1e-9)))
            trace = Trace(self._meter)
            began = time.perf_counter()
            with trace.watched():
                took_s = sampler.sample(number)
                ended = time.perf_counter()
            if trace.error is not None:
                raise trace.error
            within = [one for one in trace.moves[1:] if began + LEAD_S <= one[0] <= ended]
            if len(within) > 1 and within[-1][0] - within[0][0] >= _BETWEEN * least_s:
                return self._energy(within, took_s / number, number)
            wanted_s = max(_GROWTH * wanted_s, STILL_S if not within else 0.0)
        raise DeviceError(
            f"{self._meter.name}: its counter of energy did not move twice while the kernel ran "
            f"for {ended - began:.1f} s"
        )

    def _energy(self, moves: Sequence[tuple[float, float]], seconds: float, number: int) -> Energy:
        (start, before), (end, after) = moves[0], moves[-1]
        watts = (after - before) / (end - start)
        return Energy(
            joules=watts * seconds,
            watts=watts,
            runs=number,
            seconds=end - start,
            meter=self._meter.name,
        )
