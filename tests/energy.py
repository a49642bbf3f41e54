"""Counters of energy for tests: a tree of RAPL whose counters move, and a meter without device."""

import contextlib
import threading
import time

MICRO = 1e6


def zone(root, name, label, joules=0.0, most=1e6):
    """Make the folder of one zone, as Linux shows it."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{label}\n")
    (folder / "max_energy_range_uj").write_text(f"{round(most * MICRO)}\n")
    write(folder, joules)
    return folder


def write(folder, joules):
    """Let a counter be at so many joules; whoever reads it meanwhile sees all of a number."""
    made = folder / "energy_uj.new"
    made.write_text(f"{round(joules * MICRO)}\n")
    made.rename(folder / "energy_uj")


@contextlib.contextmanager
def powered(folder, watts, period_s=1e-3):
    """Let a counter move with the time, as if something took so much power."""
    over, began = threading.Event(), time.perf_counter()

    def count():
        while not over.wait(period_s):
            write(folder, watts * (time.perf_counter() - began))

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class FakeMeter:
    """A counter that moves every ``period_s`` by what a constant power takes.

    It is idle unless `busy`, and stands still if ``period_s`` is infinite.
    """

    name, poll_s = "fake", 1e-3

    def __init__(
        self,
        watts=100.0,
        idle_watts=40.0,
        period_s=5e-3,
        shared=False,
        clock=time.perf_counter,
    ):
        self.watts, self.idle_watts, self.period_s = watts, idle_watts, period_s
        self.shared = shared
        self.busy = False
        self._joules, self._clock, self._last = 0.0, clock, clock()

    def joules(self):
        now = self._clock()
        if now - self._last >= self.period_s:
            self._joules += (now - self._last) * (self.watts if self.busy else self.idle_watts)
            self._last = now
        return self._joules
