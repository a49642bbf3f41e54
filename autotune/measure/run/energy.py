"""The energy of one run of a kernel: its mean power, by a counter that is polled while it runs.

Counters are updated ten times a second or more, and a kernel runs for microseconds. So it runs
repeatedly, for `TimingPolicy.energy_s` at least, and its energy is the mean power times the time
of a run. An update is seen some milliseconds late, so candidates for the best run for longer. The
idle power of the device is not subtracted.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import linear_regression

from autotune.errors import DeviceError
from autotune.measure.evidence import Energy
from autotune.measure.run.timing import TimingPolicy
from autotune.runtime.energy import STILL_S, EnergyMeter, idle_watts, meter_of
from autotune.runtime.timing import Sampler
from autotune.target import Target

# An H200 takes up to 10% more than its limit for so long, until its clocks have come down.
LEAD_S = 0.4
# The first and the last move that count lie up to a period of the counter inside of the run: at
# least so much of it is between them, or it goes on.
_BETWEEN = 0.5
# Runs are queued in groups that take about so long; between two of them a device is idle for some
# ten microseconds.
_GROUP_S = 0.05
# Seconds over which the idle power is averaged.
_IDLE_S = 0.2


def require_meter(target: Target, device: int) -> None:
    """Check that the energy of a device can be measured, before anything is built for it.

    Raises:
        DeviceError: it cannot; the message says why, and what to do.
    """
    idle_watts(meter_of(target, device), 0.0)


def longest_s(policy: TimingPolicy) -> float:
    """Return how long measuring the energy of a kernel may take, besides a group of runs."""
    return LEAD_S + max(policy.energy_s, policy.energy_near_s) + STILL_S


class Trace:
    """The moves of a counter, as a thread sees them.

    Attributes:
        moves: pairs of the time when it was looked at and of the energy by then.
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

    def between(self, start: float, end: float) -> list[tuple[float, float]]:
        """Return the moves from one time to another; the first look at the counter is none.

        Raises:
            DeviceError: the counter could not be read.
        """
        if self.error is not None:
            raise self.error
        return [one for one in self.moves[1:] if start <= one[0] <= end]

    def _watch(self) -> None:
        last = None
        try:
            while not self._over.is_set():
                # NVML looks at the counter when it is asked, and takes 3 to 25 ms to tell.
                asked, joules = time.perf_counter(), self._meter.joules()
                if joules != last:
                    self.moves.append((asked, joules))
                last = joules
                self._over.wait(self._meter.poll_s)
        except DeviceError as error:
            self.error = error


class KernelEnergyMeter:
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

    def take(self, sampler: Sampler, policy: TimingPolicy, best_joules: float | None) -> Energy:
        """Measure the energy of one run.

        Args:
            sampler: runs the kernel.
            policy: how long the kernel runs at least, after `LEAD_S`.
            best_joules: the least energy so far; near it a kernel runs for longer.

        Raises:
            DeviceError: the counter does not move, or cannot be read.
        """
        trace, least_s = Trace(self._meter), policy.energy_s
        group, runs, took_s = 1, 0, 0.0
        began = now = time.perf_counter()
        with trace.watched():
            while now - began <= longest_s(policy):
                if now - began < LEAD_S:
                    runs, took_s = 0, 0.0
                before = now
                took_s += sampler.sample(group)
                runs += group
                now = time.perf_counter()
                within = trace.between(began + LEAD_S, now)
                if now - began >= LEAD_S + least_s and _span(within) >= _BETWEEN * least_s:
                    energy = self._energy(within, took_s / runs, runs)
                    if least_s >= policy.energy_near_s or not _is_near(
                        energy, policy, best_joules
                    ):
                        return energy
                    least_s = policy.energy_near_s
                if now - before < _GROUP_S / 2:
                    group = math.ceil(group * _GROUP_S / (now - before))
        raise DeviceError(
            f"{self._meter.name}: its counter of energy did not move twice while the kernel ran "
            f"for {now - began:.1f} s"
        )

    def _energy(self, moves: Sequence[tuple[float, float]], seconds: float, runs: int) -> Energy:
        (start, before), (end, _) = moves[0], moves[-1]
        # All moves count: each is seen some milliseconds late.
        times = [one - start for one, _ in moves]
        watts = linear_regression(times, [joules - before for _, joules in moves]).slope
        return Energy(
            joules=watts * seconds,
            watts=watts,
            runs=runs,
            seconds=end - start,
            meter=self._meter.name,
        )


def _is_near(energy: Energy, policy: TimingPolicy, best_joules: float | None) -> bool:
    assert energy.joules is not None
    return best_joules is None or energy.joules <= policy.near * best_joules


def _span(moves: Sequence[tuple[float, float]]) -> float:
    return moves[-1][0] - moves[0][0] if len(moves) > 1 else 0.0
