"""Random states of the auto-scheduler, in C and in emulated CUDA, compute what numpy does.

pytest tests/fuzz/test_random_states.py --cases 2000 --products 300
"""

from tests.fuzz.check import run
from tests.fuzz.states import draw_products, draw_states

# Of products on tensor cores fewer: each takes the emulator a second.
BATCH, PRODUCTS_BATCH = 30, 8
# The cost models know what a device allows, so that next to nothing is refused.
MOST_REFUSED = 0.05


def test_random_states_compute_what_numpy_does(state_seeds, tmp_path):
    check([trial for seed in state_seeds for trial in draw_states(seed)], tmp_path, BATCH)


def test_random_states_on_tensor_cores_compute_what_numpy_does(product_seeds, tmp_path):
    check(
        [trial for seed in product_seeds for trial in draw_products(seed)],
        tmp_path,
        PRODUCTS_BATCH,
    )


def check(trials, tmp_path, batch):
    """Run what was drawn, and say what is wrong."""
    for language in ("c", "cuda"):
        ready = [t for t in trials if t.kernel is not None and t.language == language]
        for first in range(0, len(ready), batch):
            run(ready[first : first + batch], tmp_path)
    failures = [t for t in trials if t.failure]
    assert not failures, "\n\n".join(
        [f"{len(failures)} of {len(trials)} failed", *(t.report() for t in failures[:5])]
    )
    refused = [t for t in trials if t.refusal]
    limit = max(1, MOST_REFUSED * len(trials))
    assert len(refused) <= limit, "\n".join(f"{t.seed}: {t.refusal}" for t in refused)
