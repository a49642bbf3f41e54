"""The load of the host while kernels on the CPU are timed, and warnings about it."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from autotune.runtime.timing import Timing
from autotune.utils.quantities import counted

logger = logging.getLogger("autotvm")

# Below these a host counts as idle: other processes' and the hypervisor's part of all cores, and
# the part of their time that timed threads waited for a core.
_OTHERS, _STOLEN, _WAITED = 0.05, 0.02, 0.10
# What is timed for less than this in all says nothing yet: the kernel counts in hundredths.
_LEAST_S = 0.25
# Lengths of a scheduler's time slice: one tick, at the rates Linux is built with.
_SLICES_S = (1e-3, 1 / 300, 4e-3, 10e-3)
# A delay this near to a multiple of a slice belongs to it. By chance a fifth do.
_NEAR, _MOST_BY_CHANCE, _LEAST_DELAYS = 0.1, 0.6, 16

# A shorter wait for other programs is nothing to talk of.
_LEAST_WAIT_S = 1.0

# How often to look whether threads rest by now, and how long at most.
_REST_LOOK_S, _MOST_REST_S = 5e-4, 0.25


@dataclass(frozen=True)
class HostUse:
    """The use of this process's cores in a span of time; all in seconds.

    Attributes:
        wall_s: length of the span.
        cores: how many there are.
        own_s: CPU time of this process, all threads together.
        busy_s: CPU time of all processes.
        stolen_s: time that the hypervisor gave to other machines.
        waited_s: time that threads of this process were ready to run and had no core.
    """

    wall_s: float = 0.0
    cores: int = 1
    own_s: float = 0.0
    busy_s: float = 0.0
    stolen_s: float = 0.0
    waited_s: float = 0.0

    def __add__(self, other: HostUse) -> HostUse:
        return HostUse(
            self.wall_s + other.wall_s,
            other.cores,
            self.own_s + other.own_s,
            self.busy_s + other.busy_s,
            self.stolen_s + other.stolen_s,
            self.waited_s + other.waited_s,
        )

    @property
    def waited(self) -> float:
        """Share of their time that threads of this process waited for a core."""
        return self.waited_s / (self.waited_s + self.own_s) if self.waited_s else 0.0

    def to_json(self) -> dict[str, object]:
        """Return it as plain data."""
        return asdict(self)


class HostWatch:
    """Measures the use of the host inside ``with``; where the system does not tell, it is 0.

    Args:
        concerns: whether what is timed runs on the host; else there is nothing to measure.
    """

    def __init__(self, concerns: bool = True) -> None:
        self.use = HostUse()
        self._concerns = concerns

    def __enter__(self) -> HostWatch:
        if self._concerns:
            self._cores = usable()
            self._before = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self.use = self.so_far()

    def so_far(self) -> HostUse:
        """Return the use of the host since ``with`` began."""
        if not self._concerns:
            return HostUse()
        wall, own, busy, stolen, waited = (
            max(0.0, after - before)
            for after, before in zip(self._now(), self._before, strict=True)
        )
        return HostUse(wall, len(self._cores), own, busy, stolen, waited)

    def is_waiting(self) -> bool:
        """Whether threads have waited for cores so long that times tell of other programs."""
        return self.so_far().waited > _WAITED

    def _now(self) -> tuple[float, float, float, float, float]:
        busy, stolen = core_times(_text("/proc/stat"), self._cores)
        return time.monotonic(), time.process_time(), busy, stolen, _waited_s()


def let_threads_rest(most_s: float = _MOST_REST_S) -> bool:
    """Wait until no other thread of this process runs; return whether none does.

    The threads of OpenMP and of a BLAS go on spinning when their work is done, OpenBLAS's for some
    2**26 cycles (``OPENBLAS_THREAD_TIMEOUT``), and take the cores of whatever is timed next.

    Args:
        most_s: seconds to wait at most: some threads never rest.
    """
    own, end = str(threading.get_native_id()), time.monotonic() + most_s
    while any(_is_running(name) for name in _own_threads() if name != own):
        if time.monotonic() >= end:
            return False
        time.sleep(_REST_LOOK_S)
    return True


def _is_running(thread: str) -> bool:
    """Whether a thread of this process runs or wants to."""
    # The state follows the name, which is in brackets and may hold any.
    return _text(f"/proc/self/task/{thread}/stat").rpartition(")")[2].split()[:1] == ["R"]


def usable() -> frozenset[int]:
    """Return the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def core_times(stat: str, cores: Iterable[int]) -> tuple[float, float]:
    """Return seconds that cores were busy, and that the hypervisor took, from ``/proc/stat``."""
    names = {f"cpu{core}" for core in cores}
    ticks = os.sysconf("SC_CLK_TCK")
    busy = stolen = 0
    for line in stat.splitlines():
        name, _, numbers = line.partition(" ")
        rest = numbers.split()
        if name not in names or len(rest) < 8:
            continue
        user, nice, system, _, _, irq, soft, steal = map(int, rest[:8])
        busy += user + nice + system + irq + soft
        stolen += steal
    return busy / ticks, stolen / ticks


def _waited_s() -> float:
    """Return the seconds that threads of this process have waited for a core."""
    texts = (_text(f"/proc/self/task/{name}/schedstat") for name in _own_threads())
    return sum(int(words[1]) for text in texts if len(words := text.split()) > 1) * 1e-9


def _text(path: str) -> str:
    with contextlib.suppress(OSError):  # another system, or a thread that ended since
        return Path(path).read_text("ascii", "replace")
    return ""


def _own_threads() -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir("/proc/self/task")
    return []


class HostMeter:
    """Adds up what trials say of the host. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._use = HostUse()
        self._delays_s: list[float] = []
        self._preempted = self._corrected = 0
        self._waited_s = 0.0
        self._told: list[str] = []

    def add(self, use: HostUse, timings: Sequence[Timing]) -> None:
        """Record a span in which these were timed."""
        with self._lock:
            self._use += use
            for timing in timings:
                totals = [sample * timing.number for sample in timing.samples_s]
                self._delays_s += [one - min(totals) for one in totals]
                self._preempted += timing.preempted
                self._corrected += timing.preempted if timing.cpu_time else 0

    def wait(self, seconds: float) -> None:
        """Record a wait for other programs that use the device."""
        with self._lock:
            self._waited_s += seconds

    def tell(self, text: str) -> None:
        """Say something of a device at once, and again at the end."""
        logger.warning("%s", text)
        with self._lock:
            self._told.append(text)

    @property
    def note(self) -> str:
        """Disturbances and delays of the timing, in words; empty if there were none to report."""
        with self._lock:
            waited_s, told = self._waited_s, list(self._told)
        waited = f"the device was shared: trials waited {waited_s:.3g} s for other programs"
        shared = [waited] if waited_s >= _LEAST_WAIT_S else []
        return "; ".join(filter(None, [self._busy, *shared, *told]))

    @property
    def _busy(self) -> str:
        """Disturbances of the timing; empty on an idle host, or where too little ran."""
        with self._lock:
            found = disturbances(self._use)
            if is_quantised(self._delays_s):
                found.append("samples are late by whole time slices of the scheduler")
            corrected = self._corrected
            only = corrected and corrected == self._preempted
        if not found:
            return ""
        samples = counted(corrected, "sample")
        by_cpu = f"Where a kernel of one thread lost its core ({samples}), CPU time counts"
        times = "are less certain" if only else "are longer and less certain"
        return (
            f"the host is busy: while kernels were timed, {'; '.join(found)}. "
            f"{f'{by_cpu}. ' if corrected else ''}Times {times} than on an idle machine"
        )


def disturbances(use: HostUse) -> list[str]:
    """Say what other users of the host took of it."""
    if use.wall_s < _LEAST_S:
        return []
    found = []
    others = max(0.0, use.busy_s - use.own_s) / use.wall_s
    if others > _OTHERS * use.cores:
        found.append(f"other processes used {others:.1f} of {use.cores} cores")
    stolen = use.stolen_s / (use.wall_s * use.cores)
    if stolen > _STOLEN:
        found.append(f"the hypervisor took {stolen:.0%} of the cores' time")
    if use.waited > _WAITED:
        found.append(f"timed threads waited {use.waited:.0%} of their time for a core")
    return found


def is_quantised(delays_s: Sequence[float]) -> bool:
    """Whether samples are late by multiples of one time slice, not by arbitrary amounts."""
    for slice_s in _SLICES_S:
        late = [delay / slice_s for delay in delays_s if delay > slice_s / 2]
        near = sum(abs(one - round(one)) <= _NEAR for one in late)
        if len(late) >= _LEAST_DELAYS and near > _MOST_BY_CHANCE * len(late):
            return True
    return False
