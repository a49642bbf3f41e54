"""Random `te.scan`s with random schedules, in C and in emulated CUDA, compute what numpy does."""

import numpy as np

from tests.fuzz.check import run
from tests.fuzz.recurrences import draw

BATCH = 60
# Blocks do not wait for each other, so that much of what is drawn for CUDA is refused.
MOST_REFUSED = {"c": 0.1, "cuda": 0.7}


def test_random_recurrences_compute_what_numpy_does(seeds, tmp_path):
    failures = []
    refused = {language: [0, 0] for language in MOST_REFUSED}
    for first in range(0, len(seeds), BATCH):
        trials = [draw(seed) for seed in seeds[first : first + BATCH]]
        for language, counts in refused.items():
            mine = [t for t in trials if t.language == language]
            ready = [t for t in mine if t.kernel is not None]
            if ready:
                with np.errstate(over="ignore"):
                    run(ready, tmp_path)
            counts[0] += len(mine) - len(ready)
            counts[1] += len(mine)
        failures += [t for t in trials if t.failure]
    assert not failures, "\n\n".join(t.report() for t in failures[:5])
    for language, (count, drawn) in refused.items():
        assert count <= max(1, MOST_REFUSED[language] * drawn), (language, count, drawn)
