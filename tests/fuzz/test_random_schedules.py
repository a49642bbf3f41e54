"""Random schedules of small workloads, in C and in emulated CUDA, compute what numpy does."""

from tests.fuzz.check import draw, run
from tests.fuzz.workloads import WORKLOADS

BATCH = 30
# A drawing that te or lowering refuses, with an error that says why, is no failure; but most must
# come through, or nothing is tested.
MOST_REFUSED = 0.15


def test_random_schedules_compute_what_numpy_does(seeds, tmp_path):
    failures, refused = [], []
    for first in range(0, len(seeds), 2 * BATCH):
        trials = [draw(seed) for seed in seeds[first : first + 2 * BATCH]]
        for language in ("c", "cuda"):
            ready = [t for t in trials if t.kernel is not None and t.language == language]
            if ready:
                run(ready, tmp_path)
        failures += [t for t in trials if t.failure]
        refused += [t for t in trials if t.refusal]
    assert not failures, "\n\n".join(
        [f"{len(failures)} of {len(seeds)} failed", *(t.report() for t in failures[:5])]
    )
    limit = max(1, MOST_REFUSED * len(seeds))
    assert len(refused) <= limit, "\n".join(f"{t.seed}: {t.refusal}" for t in refused)


def test_there_are_at_least_twelve_workloads():
    assert len(WORKLOADS) >= 12
