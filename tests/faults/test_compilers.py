"""Compilers and builders that hang, are killed or are missing."""

import os
import re
import shlex
import stat
import subprocess
import sys

import pytest

from autotune.errors import CompilerMissing
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    Pipeline,
    measure_option,
)
from tests.faults.test_faults import gone
from tests.measure.kernels import faulty_task
from tests.trials import inputs_of


@pytest.fixture
def fake_compiler(tmp_path, monkeypatch):
    """Make a C compiler that does as told for some sources and compiles the others."""
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))

    def install(marker, action):
        path = tmp_path / "fakecc"
        path.write_text(
            f"#!/bin/sh\nif grep -q '{marker}' kernel.c 2>/dev/null; then\n{action}\nfi\n"
            'exec cc "$@"\n'
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("CC", str(path))

    return install


def built(task, indices, **options):
    builder = LocalBuilder(**options)
    builder.set_task(task, {})
    try:
        return builder.build(inputs_of(task, indices))
    finally:
        builder.close()


@pytest.mark.parametrize("hang", ["sleep 61", "while :; do :; done"], ids=["sleeps", "spins"])
def test_a_compiler_that_hangs_is_killed_with_its_children(hang, fake_compiler, tmp_path):
    pids = tmp_path / "pids"
    fake_compiler("define KNOB 1", f"( {hang} ) & echo $$ $! > '{pids}'; wait")
    task = faulty_task("none")
    results = built(task, range(3), timeout=2, n_parallel=1, cache=False)
    assert [r.error_no for r in results] == [0, MeasureErrorNo.BUILD_TIMEOUT, 0]
    assert re.search(r"longer than 2 s .*; give LocalBuilder\(timeout=\)", results[1].error_msg)
    assert all(gone(int(pid)) for pid in pids.read_text().split())


STARVED = """
import os, pathlib, sys, time
folder, cpu, role, *argv = sys.argv[1:]
compiling, busy = pathlib.Path(folder, "compiling"), pathlib.Path(folder, "busy")
os.sched_setaffinity(0, [int(cpu)])
def wait_for(path):
    while not path.exists():
        time.sleep(0.01)
if role == "others":
    wait_for(compiling)
    busy.touch()
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        pass
else:
    compiling.touch()
    wait_for(busy)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while time.process_time() < 0.3:
        pass
    os.execvp("cc", ["cc", *argv])
"""


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux says who waits for a core")
def test_a_compiler_that_gets_no_processor_does_not_hang(fake_compiler, tmp_path):
    script = tmp_path / "starved.py"
    script.write_text(STARVED)
    argv = [sys.executable, str(script), str(tmp_path), str(min(os.sched_getaffinity(0)))]
    fake_compiler("define KNOB 1", f'exec {shlex.join(argv)} compiler "$@"')
    # Each in a session of its own, among which Linux may share out a core.
    others = [subprocess.Popen([*argv, "others"], start_new_session=True) for _ in range(4)]
    try:
        task = faulty_task("none")
        (result,) = built(task, [1], timeout=1, n_parallel=1, cache=False)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert result.ok, result.error_msg
    assert result.time_cost > 1


def test_a_compiler_killed_by_somebody_else_costs_nothing(fake_compiler, tmp_path):
    once = tmp_path / "once"
    fake_compiler("define KNOB 1", f"[ -e '{once}' ] || {{ touch '{once}'; kill -9 $$; }}")
    results = built(faulty_task("none"), range(3), n_parallel=1)
    assert once.exists()
    assert [r.error_no for r in results] == [0, 0, 0]


def test_a_compiler_that_is_always_killed_costs_one_trial_and_is_not_remembered(
    fake_compiler, tmp_path, hasty
):
    repaired = tmp_path / "repaired"
    fake_compiler("define KNOB 1", f"[ -e '{repaired}' ] || kill -9 $$")
    task = faulty_task("none")
    results = built(task, range(3), n_parallel=1)
    assert [r.error_no for r in results] == [0, MeasureErrorNo.COMPILE_HOST, 0]
    assert re.search("fakecc failed, 3 times in a row", results[1].error_msg)
    repaired.touch()
    assert built(task, [1], n_parallel=1)[0].ok


def test_a_source_that_fills_the_disk_by_itself_costs_the_trial_and_says_so(fake_compiler, hasty):
    fake_compiler("define KNOB 1", "echo 'x.s: No space left on device' >&2; exit 1")
    results = built(faulty_task("none"), range(3), n_parallel=2)
    assert [r.error_no for r in results] == [0, MeasureErrorNo.COMPILE_HOST, 0]
    assert "No space left on device" in results[1].error_msg


def test_a_missing_compiler_stops_before_the_first_trial(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    option = measure_option(LocalBuilder(), LocalRunner())
    with pytest.raises(CompilerMissing, match=r"no C compiler.*install"):
        Pipeline(faulty_task("none"), option)


def test_a_builder_killed_at_work_again_and_again_costs_one_trial(fake_compiler, hasty):
    fake_compiler("define KNOB 1", "kill -9 $PPID; sleep 5")
    results = built(faulty_task("none"), range(3), n_parallel=1)
    assert [r.error_no for r in results] == [0, MeasureErrorNo.COMPILE_HOST, 0]
    assert "killed by SIGKILL" in results[1].error_msg


def test_a_builder_killed_by_somebody_else_costs_nothing(fake_compiler, tmp_path):
    once = tmp_path / "once"
    fake_compiler(
        "define KNOB 1", f"[ -e '{once}' ] || {{ touch '{once}'; kill -9 $PPID; sleep 5; }}"
    )
    results = built(faulty_task("none"), range(3), n_parallel=1)
    assert once.exists()
    assert [r.error_no for r in results] == [0, 0, 0]
