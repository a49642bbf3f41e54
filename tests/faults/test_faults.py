"""A space full of faults: each costs its one trial, is called by its right name, and no more."""

import gc
import tempfile
import time
from pathlib import Path

import pytest

import autotune.task as at
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    Pipeline,
    measure_option,
)
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.trials import inputs_of, measured

# What the space holds, and what each must be called, with words its message must have.
FAULTS = {
    "none": (0, ""),
    "compile": (2, "error"),
    "template_bug": (2, "a bug in the template"),
    "refused": (1, "refused by its template"),
    "missing_entry": (2, "the source has no function missing"),
    "wrong": (5, "y: 1 of 256 elements differ"),
    "unwritten": (5, "y: 256 of 256 elements differ"),
    "loop": (7, "the kernel ran longer than"),
    "segfault": (4, "killed by SIGSEGV"),
    "exit": (4, "exited with status 3"),
    "exit0": (4, "exited with status 0"),
    "abort": (4, "killed by SIGABRT"),
    "killed": (4, "killed by SIGKILL"),
    "smash": (4, "killed by"),
    "heap": (None, ""),
    "hog": (4, "killed by SIGSEGV"),
    "stop": (7, "the kernel ran longer than"),
    "fork": (0, ""),
    "fork_segfault": (4, "killed by SIGSEGV"),
    "close": (4, "exited with status 1"),
    "close_loop": (7, "the kernel ran longer than"),
    "prints": (0, ""),
}
GOOD = [name for name, (number, _) in FAULTS.items() if number == 0]


@pytest.fixture(scope="module")
def option():
    option = measure_option(
        LocalBuilder(n_parallel=2),
        LocalRunner(
            timeout=1.0, cooldown_interval=0, verify="all", memory_bytes=1 << 31, number=1
        ),
    )
    yield option
    option["runner"].close()
    option["builder"].close()


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("order", ["forwards", "backwards"])
def test_every_fault_is_called_by_its_name_in_both_orders_of_arrival(option, order):
    names = list(FAULTS)
    task = at.create("measure_test.faulty", (names,), target="c")
    indices = range(2 * len(names))
    results = measured(task, option, indices if order == "forwards" else reversed(indices))
    assert len(results) == 2 * len(names)
    for index, result in results.items():
        number, words = FAULTS[names[index % len(names)]]
        told = f"{names[index % len(names)]}: {result}"
        if number is not None:
            assert result.error_no == number, told
        assert words in result.error_msg, told
        assert bool(result.costs) == (result.error_no == 0), told
        assert all(isinstance(cost, float) for cost in result.costs), told


def test_no_process_and_no_file_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    task = at.create("measure_test.faulty", (list(FAULTS),), target="c")
    option = measure_option(LocalBuilder(n_parallel=2), LocalRunner(timeout=0.5))
    with Pipeline(task, option) as pipeline:
        names = ["none", "loop", "fork", "segfault"]
        indices = [list(FAULTS).index(name) for name in names]
        pipeline.submit(inputs_of(task, indices))
        pipeline.next_results()
        assert list(tmp_path.iterdir())
        pids = option["builder"].pids + option["runner"].pids
        assert pids
    gc.collect()
    assert all(gone(pid) for pid in pids)
    assert list(tmp_path.iterdir()) == []


def gone(pid, within_s=5.0):
    """Whether a process ended, a moment of grace allowed; nobody may be there to reap it."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return True
        if fields[0] in "ZX":
            return True
        time.sleep(0.01)
    return False


def children_of(parent):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found
