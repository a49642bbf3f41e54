"""Random states of the auto-scheduler, in C and in emulated CUDA, compute what numpy does.

pytest tests/fuzz/test_random_states.py --cases 2000
"""

from tests.fuzz.check import run
from tests.fuzz.states import draw_states

BATCH = 30
# The closed forms know what a device allows, so that next to nothing is refused.
MOST_REFUSED = 0.05


def test_random_states_compute_what_numpy_does(state_seeds, tmp_path):
    trials = [trial for seed in state_seeds for trial in draw_states(seed)]
    for language in ("c", "cuda"):
        ready = [t for t in trials if t.kernel is not None and t.language == language]
        for first in range(0, len(ready), BATCH):
            run(ready[first : first + BATCH], tmp_path)
    failures = [t for t in trials if t.failure]
    assert not failures, "\n\n".join(
        [f"{len(failures)} of {len(trials)} failed", *(t.report() for t in failures[:5])]
    )
    refused = [t for t in trials if t.refusal]
    limit = max(1, MOST_REFUSED * len(trials))
    assert len(refused) <= limit, "\n".join(f"{t.seed}: {t.refusal}" for t in refused)
