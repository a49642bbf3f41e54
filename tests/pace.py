"""Bounds of CPU time that hold on slow machines too."""

import time

# What `_work` takes on the machine for which the bounds are written.
_SECONDS = 0.010


def is_within(spent_s, limit_s):
    """Whether so many seconds of CPU time are within a limit, at the pace of this machine now."""
    return spent_s < limit_s or spent_s < limit_s * max(1.0, _pace())


def _pace():
    """Returns how many times longer than on that machine things take here."""
    took = []
    for _ in range(5):
        begun = time.process_time()
        _work()
        took.append(time.process_time() - begun)
    return sorted(took)[2] / _SECONDS


def _work():
    total = 0
    for i in range(300_000):
        total += i * i
    return total
