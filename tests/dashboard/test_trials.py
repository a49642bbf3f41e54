"""The trials of a run as arrays."""

import tracemalloc

from autotune.dashboard.trials import FIELDS, Trials


def test_trials_are_small_also_where_nobody_looks_at_them():
    trials = Trials()
    count = 1 << 15
    keys = [str(number) for number in range(count)]
    choices = [(trials.knob("tile"), 0)]
    tracemalloc.start()
    try:
        for key in keys:
            trials.append(key, tuple(float(key) + place for place in range(len(FIELDS))), choices)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / count < 500
    assert trials.column("line").tolist() == list(range(count))
    assert set(trials.choices("tile")) == {0}
