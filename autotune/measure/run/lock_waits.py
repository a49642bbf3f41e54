"""The time that a device waited for the locks of other programs, which is reported once."""

from __future__ import annotations

import time

from autotune.measure.exclusive.devices import Notice, say_unlocked
from autotune.measure.exclusive.lock import DeviceLock

# Events of a process that owns a device, see `DeviceState.alone`: another program holds the lock,
# that is over, and no lock can be had (the reason follows).
WAIT, TURN, OPEN = "wait", "turn", "open: "


def is_of_lock(event: str) -> bool:
    """Return whether an event tells of other programs that use a device."""
    return event in (WAIT, TURN) or event.startswith(OPEN)


class LockWaits:
    """Adds up what one device waits for other programs. For one thread.

    Args:
        lock: of the device.
        device: its name for people.
    """

    def __init__(self, lock: DeviceLock | None, device: str) -> None:
        self._notice = Notice(lock, device)
        self._before_s = 0.0
        self._since: float | None = None

    def waited_s(self) -> float:
        """Return the seconds so far, including those of a present wait."""
        now = time.monotonic()
        return self._before_s + (0.0 if self._since is None else now - self._since)

    def take_note(self, event: str) -> None:
        """Record an event of the process."""
        if event == WAIT and self._since is None:
            self._since = time.monotonic()
            self._notice.begin(self._before_s)
        elif event == TURN:
            self.end()
        elif event.startswith(OPEN):
            say_unlocked(event.removeprefix(OPEN))

    def end(self) -> None:
        """End the present wait, if any: the device was acquired, or its process has ended."""
        if self._since is None:
            return
        self._before_s, self._since = self.waited_s(), None
        self._notice.end()
