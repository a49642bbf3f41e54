"""Which cases of a test with many run: few, with as many values of its parameters as can be."""

import zlib
from collections import Counter

# One case in so many runs, and at least two.
CASES = 10
# A value that so many cases share is in one that runs.
SHARED = 6


def sampled(cases):
    """Returns the cases of one test that run: by their names, so that they stay the same.

    The first runs always. Each other is the one that adds most values: those that many cases
    share before those of few.
    """
    values = {case: _values(case) for case in cases}
    shared = {
        each for each, n in Counter(v for vs in values.values() for v in vs).items() if n >= SHARED
    }
    most = max(2, -(-len(cases) // CASES))
    left = sorted(cases[1:], key=lambda case: zlib.crc32(case.nodeid.encode()))
    chosen, seen = cases[:1], set(values[cases[0]])
    while left and (len(chosen) < most or shared - seen):
        best = max(left, key=lambda case: _added(values[case] - seen, shared))
        chosen.append(best)
        left.remove(best)
        seen |= values[best]
    return chosen


def _added(values, shared):
    return len(values & shared), len(values)


def _values(case):
    """Returns the values of a case, each with the name of its parameter."""
    callspec = getattr(case, "callspec", None)
    return {(name, _key(value)) for name, value in callspec.params.items()} if callspec else set()


_PLAIN = (int, float, complex, str, bytes, type(None))


def _key(value):
    """Returns what equal values share; objects may take long to compare, or not be hashable."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_key, value))
    return (type(value), value) if isinstance(value, _PLAIN) else id(value)
