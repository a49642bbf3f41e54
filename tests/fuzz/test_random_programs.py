"""Programs drawn operator by operator, in C and in emulated CUDA, compute what numpy does.

pytest tests/fuzz/test_random_programs.py --schedules 2000
"""

import random

import numpy as np
import pytest

from autotune.measure.check.naive import PlainLoops, naive_outputs
from tests.fuzz.check import draw, run
from tests.fuzz.programs import PROGRAMS, program

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


def test_references_of_random_programs_are_what_numpy_computes(seeds, tmp_path):
    """What a trial is compared with; where it says how far off it may be, within that."""
    loops, wrong = PlainLoops(), []
    try:
        for seed in seeds[: -(-len(seeds) // 8)]:
            made = program(random.Random(seed))
            files = [str(tmp_path / f"{i}.npy") for i in range(len(made.given))]
            for file, array in zip(files, made.given, strict=True):
                np.save(file, array)
            found = naive_outputs(made.args, files, tmp_path, loops=loops)[0]
            got, want = found.values.astype("f8"), made.reference().astype("f8")
            with np.errstate(invalid="ignore"):
                right = abs(got - want) <= (0 if found.bounds is None else found.bounds)
            right |= (got == want) | (np.isnan(got) & np.isnan(want))
            if not right.all():
                wrong.append(f"seed {seed}: {made.outputs[0].op.body}")
    finally:
        loops.end()
    assert not wrong, "\n".join(wrong)
