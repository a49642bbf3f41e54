"""Random schedules of small workloads, in C and in emulated CUDA, compute what numpy does."""

import shlex

import pytest

from autotune.runtime.compile.cpu_flags import cpu_instructions
from autotune.runtime.compile.toolchain import host_toolchain
from autotune.target import Target
from tests.fuzz.check import COMPUTATIONS, draw, run
from tests.fuzz.guarded import GUARDED
from tests.fuzz.rare import RARE

BATCH = 30
# A drawing that te or lowering refuses, with an error that says why, is no failure; but most must
# come through, or nothing is tested.
MOST_REFUSED = 0.15


@pytest.mark.parametrize("computations", [COMPUTATIONS, RARE], ids=["usual", "rare"])
def test_random_schedules_compute_what_numpy_does(computations, seeds, tmp_path):
    failures, refused = [], []
    for first in range(0, len(seeds), 2 * BATCH):
        trials = [draw(seed, computations) for seed in seeds[first : first + 2 * BATCH]]
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


def guarded_failures(folder, seeds, computations=GUARDED):
    """Return the trials of loads under conditions whose C computes something else."""
    trials = [draw(seed, computations, ["c"]) for seed in seeds]
    ready = [t for t in trials if t.kernel is not None]
    for first in range(0, len(ready), BATCH):
        run(ready[first : first + BATCH], folder)
    return [t for t in trials if t.failure]


def test_random_schedules_of_loads_under_conditions_compute_what_numpy_does(seeds, tmp_path):
    failures = guarded_failures(tmp_path, seeds)
    assert not failures, "\n\n".join(t.report() for t in failures[:5])


def test_random_schedules_meet_the_masks_that_gcc_12_gets_wrong(monkeypatch, tmp_path):
    if "12." not in host_toolchain().version or "AVX512VL" not in cpu_instructions(Target("c")):
        pytest.skip("the fault is one of GCC 12 with AVX-512")
    # Tuned for other cores it makes no such masks of these loops.
    monkeypatch.setenv("CC", f"{shlex.join(host_toolchain().command)} -mtune=skylake-avx512")
    monkeypatch.setattr("autotune.codegen.statements._PRAGMAS", ())
    assert guarded_failures(tmp_path, range(30, 70), {"choice": GUARDED["choice"]})


def test_there_are_at_least_twelve_workloads():
    assert len(COMPUTATIONS) >= 12
