"""Functions that tune what they are called with: at the first call, in the background, at exit."""

import errno
import subprocess
import sys
import textwrap

import pytest

import autotune
from autotune.errors import LockError
from autotune.just_in_time import background, store
from autotune.record import open_database
from autotune.task.template import TASK_TABLE
from tests.just_in_time.doubling import SOURCE, length, put, run, scale


def changed(name, knob):
    """Return a template under a name that had another knob before."""

    @autotune.template(name)
    def template(n):
        cfg = autotune.get_config()
        cfg.define_knob(knob, [1, 8, 64])
        return autotune.SourceKernel(
            "scale",
            SOURCE,
            [autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")],
            {"N": n, "STEP": cfg[knob].val},
            reference=lambda x: 2 * x,
        )

    return template


@pytest.mark.parametrize(("tune", "origin"), [("off", "default"), ("first", "exact")])
def test_what_was_tuned_before_a_template_changed_is_no_choice(
    log, here, monkeypatch, tune, origin
):
    name = f"tests.jit.changed.{tune}"
    put(log, changed(name, "older"), (100,), 1, 1e-6)
    monkeypatch.delitem(TASK_TABLE, name)
    function = autotune.jit(
        changed(name, "newer"), key=length, tune=tune, budget_s=30, store=log, target="llvm"
    )
    assert run(function, 100).origin == origin
    assert (len(list(open_database(log).records())) > 1) == (tune == "first")


def test_a_new_workload_is_tuned_at_its_first_call(log, here):
    function = autotune.jit(scale, key=length, tune="first", budget_s=30, store=log, target="llvm")
    assert run(function, 100).origin == "exact"
    trials = len(list(open_database(log).records()))
    assert trials == 3
    again = autotune.jit(scale, key=length, tune="first", budget_s=30, store=log, target="llvm")
    assert run(again, 100).origin == "exact"
    assert len(list(open_database(log).records())) == trials


def test_a_workload_is_tuned_in_the_background_while_calls_are_answered(log, here, monkeypatch):
    monkeypatch.setattr(background, "IDLE_S", 0.2)
    function = autotune.jit(
        scale, key=length, tune="background", budget_s=30, store=log, target="llvm"
    )
    assert run(function, 200).origin == "default"
    assert background.WORKER.join(60)
    assert run(function, 200).origin == "exact"


def test_a_template_that_is_wrong_is_never_taken(log, here):
    @autotune.template("tests.jit.sometimes_wrong")
    def sometimes(n):
        cfg = autotune.get_config()
        cfg.define_knob("factor", [3, 2])
        args = [autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")]
        text = "void f(const float *x, float *y) { for (int i = 0; i < N; i++) y[i] = F * x[i]; }"
        defines = {"N": n, "F": cfg["factor"].val}
        return autotune.SourceKernel("f", text, args, defines, reference=lambda x: 2 * x)

    function = autotune.jit(sometimes, key=length, tune="first", budget_s=30, store=log,
                            target="llvm")  # fmt: skip
    assert run(function, 64).origin == "exact"


def test_where_tuning_finds_nothing_the_default_is_not_called_tuned(log, here, monkeypatch):
    asked = []
    monkeypatch.setattr(autotune.just_in_time.Jit, "_tune_now", lambda *a, **o: asked.append(1))
    function = autotune.jit(scale, key=length, tune="first", store=log, target="llvm")
    for _ in range(2):
        assert run(function, 48).origin == "default"
        function.store.version += 1
    assert asked == [1]


def test_a_frozen_program_runs_nothing_that_is_not_pinned(log, here, monkeypatch):
    put(log, scale, (100,), 2, 1e-6)
    function = autotune.jit(scale, key=length, tune="first", store=log, target="llvm")
    monkeypatch.setenv("AUTOTUNE_FROZEN", "1")
    with pytest.raises(LockError):
        run(function, 50)
    assert len(list(open_database(log).records())) == 1


def test_only_one_process_tunes_a_workload(here):
    task = autotune.create(scale, args=(100,), target="llvm")
    with store.claimed(task, wait=False) as first, store.claimed(task, wait=False) as second:
        assert (first, second) == (True, False)
    other = autotune.create(scale, args=(101,), target="llvm")
    with store.claimed(task, wait=False), store.claimed(other, wait=False) as mine:
        assert mine


@pytest.mark.parametrize("wait", [True, False], ids=["waits", "does not wait"])
def test_a_cache_on_a_file_system_without_locks_keeps_nobody_from_tuning(here, monkeypatch, wait):
    def no_locks(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with store.claimed(autotune.create(scale, args=(100,), target="llvm"), wait) as mine:
        assert mine


AT_EXIT = """
    import sys
    sys.path.insert(0, {folder!r})
    import numpy
    import autotune
    from autotune.just_in_time import background
    from tests.just_in_time.doubling import length, run, scale
    background.IDLE_S = 3600  # so that it is not idle before it ends, however slow its machine
    function = autotune.jit(scale, key=length, tune="background", budget_s=20, store={log!r},
                            target="llvm", at_exit={at_exit})
    assert run(function, 300).origin == "default"
    print("ended")
"""


@pytest.mark.parametrize("at_exit", [True, False])
def test_what_had_no_time_is_tuned_when_the_program_has_ended(log, at_exit, request):
    folder = str(request.path.parents[2])
    text = textwrap.dedent(AT_EXIT.format(folder=folder, log=str(log), at_exit=at_exit))
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ended" in done.stdout
    assert len(list(open_database(log).records())) == (3 if at_exit else 0)
