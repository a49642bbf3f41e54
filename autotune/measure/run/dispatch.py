"""A queue of work, with one thread for each device that takes from it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

from autotune.errors import MeasureError
from autotune.measure.process.pending import Pending
from autotune.measure.process.worker import StartFailed
from autotune.measure.run.device_process import CoolDown, DeviceProcess, LocalDeviceProcess

logger = logging.getLogger("autotvm")

# What a thread may still be at when its process is gone is the user's own reference, which nobody
# can interrupt and nobody should wait for.
_JOIN_S = 2.0
_LOOK_S = 0.05

Work = Callable[[DeviceProcess], object]


class Dispatch:
    """Hands each piece of work to the first device that is free.

    A device whose process cannot be started leaves, and the others do its work. When the last one
    left, all work fails with the reason.

    Args:
        processes: the devices; their processes are started at once.
        cool_down: the pause after each piece of work.
        at_end: called by each thread that `close` ended, which it may have outlasted.
    """

    def __init__(
        self,
        processes: Sequence[LocalDeviceProcess],
        cool_down: CoolDown,
        at_end: Callable[[], None],
    ) -> None:
        self._processes = tuple(processes)
        self._cool_down = cool_down
        self._at_end = at_end
        self._entries: deque[Pending[Work]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._left: dict[int, MeasureError] = {}
        self._threads = [
            threading.Thread(target=self._serve, args=(process,), daemon=True)
            for process in self._processes
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes that own a device now."""
        return [pid for process in self._processes if (pid := process.pid) is not None]

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices that have not left."""
        return tuple(s.device for s in self._processes if s.device not in self._left)

    def put(self, work: Work, device: int | None = None) -> Future[object]:
        """Queue work for one device, or for whichever is free first."""
        entry = Pending(work, device=device)
        with self._changed:
            lost = self._why_never(device) if self._left or device is not None else None
            if lost is None and not self._closing:
                self._entries.append(entry)
                self._changed.notify_all()
                return entry.future
        if lost is None:
            entry.drop()
        else:
            entry.fail(lost)
        return entry.future

    def _why_never(self, device: int | None) -> MeasureError | None:
        """Return why work for ``device`` will never be done, or None."""
        able = [s.device for s in self._processes if device in (None, s.device)]
        if not able:
            return MeasureError(f"device {device} is not one of those that measure")
        if any(one not in self._left for one in able):
            return None
        return self._left[able[-1]]

    def _serve(self, process: LocalDeviceProcess) -> None:
        # Started while the first trials compile; what goes wrong, the first trial will meet again.
        with suppress(Exception):
            process.start()
        while (entry := self._next(process)) is not None:
            before = process.busy_s
            lost = entry.run(lambda work: work(process))
            if lost is not None:
                self._leave(process, entry, lost)
            # Who waited for it may be the last to know of these devices, which then end.
            del entry
            if lost is not None:
                break
            self._cool_down.after(process.busy_s - before)
        process.close()
        if self._closing:
            self._at_end()

    def _next(self, process: LocalDeviceProcess) -> Pending[Work] | None:
        """Wait for the oldest entry that this device may do; None when all is over."""
        with self._changed:
            while not self._closing:
                for entry in self._entries:
                    if entry.device in (None, process.device):
                        self._entries.remove(entry)
                        return entry
                self._changed.wait()
        return None

    def _leave(
        self, process: LocalDeviceProcess, entry: Pending[Work], error: StartFailed
    ) -> None:
        """Go without a device: what only it could do fails, the rest is for the others."""
        with self._changed:
            if self._closing:
                entry.drop()
                return
            self._left[process.device] = error
            waiting = [entry, *self._entries]
            failed = [e for e in waiting if self._why_never(e.device) is not None]
            self._entries = deque(e for e in waiting if e not in failed)
            self._changed.notify_all()
        if self.devices:
            logger.warning("measuring goes on without device %d: %s", process.device, error)
        for one in failed:
            one.fail(error)

    def close(self) -> None:
        """Kill the processes and drop what waits."""
        with self._changed:
            self._closing = True
            waiting, self._entries = self._entries, deque()
            self._changed.notify_all()
        for entry in waiting:
            entry.drop()
        self._cool_down.end()
        for process in self._processes:
            process.end()
        deadline = time.monotonic() + _JOIN_S
        for thread, process in zip(self._threads, self._processes, strict=True):
            if thread is not threading.current_thread():
                _await(thread, process, deadline)


def _await(thread: threading.Thread, process: LocalDeviceProcess, deadline: float) -> None:
    """Wait for a thread until the deadline, but in any case for the process of its device."""
    while thread.is_alive() and (process.pid is not None or time.monotonic() < deadline):
        thread.join(_LOOK_S)
