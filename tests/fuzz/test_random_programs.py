"""Programs drawn operator by operator, in C and in emulated CUDA, compute what numpy does.

pytest tests/fuzz/test_random_programs.py --schedules 2000
"""

import pytest

from tests.fuzz.check import draw, run
from tests.fuzz.programs import PROGRAMS

BATCH = 30
MOST_REFUSED = 0.1


@pytest.mark.parametrize("language", ["c", "cuda"])
def test_random_programs_compute_what_numpy_does(language, seeds, tmp_path):
    trials = [draw(seed, PROGRAMS, [language]) for seed in seeds]
    ready = [t for t in trials if t.kernel is not None]
    for first in range(0, len(ready), BATCH):
        run(ready[first : first + BATCH], tmp_path)
    failures = [t for t in trials if t.failure]
    assert not failures, "\n\n".join(
        [f"{len(failures)} of {len(trials)} failed", *(t.report() for t in failures[:5])]
    )
    refused = [t.refusal for t in trials if t.refusal]
    assert len(refused) <= max(1, MOST_REFUSED * len(trials)), "\n".join(refused)
