"""Pinned kernels: what frozen programs get and are refused, and whether a lock still holds."""

import stat
import subprocess
import sys
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autotune
from autotune.cli.main import main
from autotune.errors import FrozenError, LockError
from autotune.kernel import SourceKernel
from autotune.lock import check_lock, known, lock_records, read_lock, write_lock
from autotune.lock.entries import text_hashes
from autotune.record import write_log
from autotune.target import Target, arch_here
from autotune.task import Task
from tests.record.records import good

SOURCE = ["void triple(const float *x, float *y) { for (int i = 0; i < N; i++) y[i] = F * x[i]; }"]


@autotune.template("tests.lock.triple")
def triple(n, kind="plain"):
    cfg = autotune.get_config()
    cfg.define_knob("step", [1, 2, 4])
    cuda = autotune.Target.current().kind == "cuda"
    text = SOURCE[0] + f" /* {cfg['step'].val} */"
    return SourceKernel(
        "triple",
        text.replace("void", 'extern "C" __global__ void', 1) if cuda else text,
        [autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")],
        defines={"N": n, "F": 3},
        reference=lambda x: 3 * x,
    )


def pair(*args, target="llvm", step=2, seconds=1e-6):
    task = autotune.create("tests.lock.triple", args=args, target=target)
    config = next(c for c in map(task.config_space.get, range(3)) if c["step"].val == step)
    plain = Task("tests.lock.triple", args, task.target)
    return autotune.MeasureInput(task.target, plain, config), good(seconds)


@pytest.fixture(autouse=True)
def source():
    yield
    SOURCE[:] = SOURCE[:1]


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """Returns a function that locks records, and freezes the process."""
    path = tmp_path / "autotune.lock"

    def lock(*pairs):
        entries, problems = lock_records(pairs)
        assert problems == []
        write_lock(path, entries)
        monkeypatch.setenv("AUTOTUNE_LOCK", str(path))
        monkeypatch.setenv("AUTOTUNE_FROZEN", "1")
        return path

    return lock


def called(n, target="llvm", **options):
    with autotune.Target(target):
        return triple(n, **options)


def test_a_frozen_program_gets_the_locked_configuration_and_right_answers(locked):
    locked(pair(8, step=4))
    kernel = called(8)
    assert "/* 4 */" in kernel.kernel("c").source
    x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    autotune.build(kernel, target="llvm")(x, y)
    np.testing.assert_array_equal(y, 3 * x)


def test_a_miss_is_an_error_that_names_what_is_near_and_what_differs(locked):
    locked(pair(8), pair(16))
    with pytest.raises(
        FrozenError, match=r"tests.lock.triple\(12,\) is not in .*autotune.lock"
    ) as e:
        called(12)
    assert "tests.lock.triple(8,) on cpu" in str(e.value)
    assert "argument 1 is 8, not 12" in str(e.value)
    with pytest.raises(FrozenError, match="1 arguments instead of 2"):
        called(8, kind="other")


def test_nothing_else_is_asked_not_even_a_log_that_has_it(locked, tmp_path):
    log = tmp_path / "best.log"
    write_log(log, [pair(12, step=4), pair(8, step=1)])
    locked(pair(8, step=4))
    with autotune.apply_history_best(log):
        assert "/* 4 */" in called(8).kernel("c").source
        with pytest.raises(FrozenError, match="is not in"):
            called(12)


def test_what_is_locked_for_another_class_of_devices_does_not_count(locked):
    locked(pair(8))
    with pytest.raises(FrozenError, match=r"not locked for cuda sm_80: .* has it for cpu .*"):
        called(8, target="cuda -arch=sm_80")


def test_asked_without_a_target_it_says_so(locked):
    locked(pair(8))
    with pytest.raises(FrozenError, match=r"without a target, .* within `with autotune.Target"):
        triple(8)


@pytest.mark.parametrize("wrong", [None, 3, ""])
def test_a_path_that_is_none_is_refused(wrong):
    for function in (read_lock, lambda path: write_lock(path, [])):
        with pytest.raises(LockError, match="path must be a path"):
            function(wrong)


CPUS = ("c", "llvm", "llvm -mcpu=x86-64")


@pytest.mark.parametrize("steps", list(permutations([1, 2, 4])))
def test_each_target_gets_its_own_entry_whatever_their_order_and_times(locked, steps):
    """Also what a program asks for ahead of a template, and the machine code that is compared."""
    targets = dict(zip(CPUS, steps, strict=True))
    locked(*(pair(8, target=t, step=s, seconds=1e-6 * s) for t, s in targets.items()))
    for target, step in targets.items():
        assert f"/* {step} */" in called(8, target=target).kernel("c").source
        workload = ("tests.lock.triple", 8)
        for name in (target, autotune.Target(target)):
            assert known(name, workload)["step"].val == step
        autotune.build(called(8, target=target), target=target)


def test_a_target_without_an_entry_gets_what_the_history_would_give(locked, tmp_path):
    pairs = [pair(8, target="c", step=1, seconds=9e-6), pair(8, target="llvm", step=4)]
    log = tmp_path / "best.log"
    write_log(log, pairs)
    locked(*pairs)
    kernel = called(8, target="llvm -mcpu=x86-64")
    with autotune.apply_history_best(log) as history:
        config = history.query(autotune.Target("llvm -mcpu=x86-64"), pairs[0][0].task.workload)
    assert f"/* {config['step'].val} */" in kernel.kernel("c").source
    assert "/* 4 */" in kernel.kernel("c").source


def test_machine_code_is_compared_with_that_of_the_very_target(locked):
    """What another target's entry happens to have of the same text does not count."""
    path = locked(pair(8, target="c"), pair(8, target="llvm"))
    entries = read_lock(path)
    write_lock(path, [replace(e, code_sha256="0" * 64) if i else e for i, e in enumerate(entries)])
    autotune.build(called(8, target="c"), target="c")
    with pytest.raises(FrozenError, match=r"for the target llvm .*0{12} for llvm .*made by"):
        autotune.build(called(8, target="llvm"), target="llvm")


def test_without_tomli_w_locks_are_read_and_writing_says_what_to_install(locked, monkeypatch):
    path = locked(pair(8))
    entries, before = read_lock(path), path.read_bytes()
    monkeypatch.setitem(sys.modules, "tomli_w", None)
    assert read_lock(path) == entries
    with pytest.raises(LockError, match=r"cannot write the lock .*pip install tomli-w"):
        write_lock(path, [])
    assert path.read_bytes() == before
    code = "import sys; sys.modules['tomli_w'] = None; import autotune.lock, autotune.cli.lock"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_kernel_whose_text_has_changed_does_not_count(locked):
    locked(pair(8))
    SOURCE[0] = SOURCE[0].replace("i++", "++i")
    try:
        with pytest.raises(FrozenError, match="the kernel has another text now"):
            called(8)
    finally:
        SOURCE[0] = SOURCE[0].replace("++i", "i++")


def test_a_kernel_whose_comments_and_layout_have_changed_is_the_locked_one(locked):
    locked(pair(8))
    SOURCE[0] = "// Triples.\n" + SOURCE[0].replace("; i++", ";\n    i++")
    try:
        autotune.build(called(8), target="llvm")
    finally:
        SOURCE[0] = SOURCE[0].replace("// Triples.\n", "").replace(";\n    i++", "; i++")


def test_a_lock_that_counts_comments_still_holds_for_the_text_that_it_was_made_of(locked):
    path = locked(pair(8))
    (entry,) = read_lock(path)
    now, before = text_hashes(called(8).kernel("c"))
    assert entry.text_sha256 == now
    write_lock(path, [replace(entry, text_sha256=before)])
    autotune.build(called(8), target="llvm")
    assert {each.outcome for each in check_lock(read_lock(path), None)} == {"holds"}
    SOURCE[0] += " // Triples."
    try:
        with pytest.raises(FrozenError, match="the kernel has another text now"):
            called(8)
    finally:
        SOURCE[0] = SOURCE[0].removesuffix(" // Triples.")


def test_a_configuration_that_the_template_does_not_offer_any_more_does_not_count(locked):
    path = locked(pair(8, step=4))
    text = path.read_text().replace('\\"step\\", \\"ot\\", 4', '\\"step\\", \\"ot\\", 8')
    path.write_text(text.replace('step = "4"', 'step = "8"'))
    with pytest.raises(FrozenError, match="cannot make the configuration"):
        called(8)


def test_machine_code_that_another_compiler_makes_does_not_count(locked, tmp_path, monkeypatch):
    locked(pair(8))
    kernel = called(8)
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(FrozenError, match=r"machine code \w+ was built of the locked text"):
        autotune.build(kernel, target="llvm")


def test_a_kernel_that_was_never_tuned_is_built_as_ever(locked):
    locked(pair(8))
    kernel = SourceKernel(
        "f", "void f(float *y) { *y = 1; }", [autotune.arg("y", (1,), role="out")]
    )
    assert autotune.build(kernel, target="llvm").name == "f"


def test_without_a_lock_a_frozen_program_says_how_one_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOTUNE_FROZEN", "1")
    with pytest.raises(LockError, match=r"cannot read the lock .*autotune lock write"):
        called(8)
    for off in ("0", "false", ""):
        monkeypatch.setenv("AUTOTUNE_FROZEN", off)
        called(8)


def test_tuning_goes_on_in_a_frozen_program(locked):
    locked(pair(8))
    task = autotune.create("tests.lock.triple", args=(32,), target="llvm")
    runner = autotune.LocalRunner(number=1, repeat=1, cooldown_interval=0)
    option = autotune.measure_option(autotune.LocalBuilder(n_parallel=1), runner)
    result = autotune.tuner.GridSearchTuner(task).tune(1, option, finalists=0)
    assert result.best_config is not None


def test_a_lock_that_changes_is_read_again(locked):
    path = locked(pair(8, step=4))
    called(8)
    locked(pair(8, step=1))
    assert "/* 1 */" in called(8).kernel("c").source
    path.unlink()
    with pytest.raises(LockError, match="cannot read"):
        called(8)


def test_a_lock_comes_back_as_it_was_written_whatever_the_order(tmp_path):
    pairs = [pair(16), pair(8, seconds=2e-6), pair(8, step=1, seconds=1e-6)]
    for name, given_pairs in (("a", pairs), ("b", pairs[::-1])):
        entries, _ = lock_records(given_pairs)
        write_lock(tmp_path / name, entries)
        assert read_lock(tmp_path / name) == entries
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "a").read_bytes())  # by an editor
    first, second = read_lock(tmp_path / "a")
    assert (first.title, second.title) == ("tests.lock.triple(16,)", "tests.lock.triple(8,)")
    assert second.config["step"].val == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version = 1", "version = 2", "expected a lock of version 1, got 2"),
        ('args = "(8,)"', 'args = "(9,)"', "args is not what its record says"),
        ("microseconds = 1.0", "microseconds = 0.5", "microseconds is not what its record says"),
        ('step = "2"', 'step = "4"', "config is not what its record says"),
        ('text_sha256 = "', 'text = "', "expected a text as text_sha256"),
        ('record = "{', 'record = "', "its record cannot be read"),
        ("[[kernel]]", "[[kernel", "is no lock"),
    ],
)
def test_a_lock_that_was_edited_by_hand_is_refused(locked, old, new, said):
    path = locked(pair(8))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(LockError, match=said):
        read_lock(path)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_other_file_is_an_error_of_ours(tmp_path, garbage):
    path = tmp_path / "x.lock"
    path.write_bytes(garbage)
    with pytest.raises(LockError):
        read_lock(path)


def local(way):
    runner = autotune.LocalRunner(
        number=1, repeat=3, cooldown_interval=0, verify="all", **way.arguments()
    )
    return autotune.measure_option(autotune.LocalBuilder(n_parallel=1), runner)


def checked(*pairs, option=None, **options):
    return list(check_lock(lock_records(pairs)[0], option, **options))


def test_checking_verifies_and_times_what_is_locked_for_this_device():
    fast, slow = checked(pair(8, seconds=1.0), pair(16, seconds=1e-12), option=local)
    by_title = {one.title: one for one in (fast, slow)}
    assert by_title["tests.lock.triple(8,)"].outcome == "faster"
    assert "answer checked" in by_title["tests.lock.triple(8,)"].why
    regressed = by_title["tests.lock.triple(16,)"]
    assert (regressed.outcome, regressed.good) == ("slower", False)
    (forgiven,) = checked(pair(16, seconds=1e-12), option=local, fail_above=1e12)
    assert forgiven.good


def test_checking_tells_changed_text_wrong_answers_and_other_devices_apart():
    arch = "sm_80" if arch_here(Target("cuda")) == "sm_90" else "sm_90"
    here = lock_records([pair(8), pair(8, target=f"cuda -arch={arch}")])[0]
    there = [each for each in here if each.device_class == f"cuda {arch}"]
    if there:  # nvcc is here, such a device is not
        assert [one.outcome for one in check_lock(there, local)] == ["elsewhere"]
    here = [each for each in here if each not in there]
    old, SOURCE[0] = SOURCE[0], SOURCE[0].replace("F *", "F - ")
    try:
        (one,) = check_lock(here, local)
        assert (one.outcome, one.good) == ("text", False)
        wrong = lock_records([pair(8)])[0]
        (one,) = check_lock(wrong, local)
        assert (one.outcome, one.good) == ("wrong", False)
    finally:
        SOURCE[0] = old


def run(*words):
    return CliRunner().invoke(main, ["lock", *map(str, words)])


def test_the_command_is_a_gate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_log("best.log", [pair(8, seconds=1.0), pair(16, seconds=1.0)])
    done = run("write", "best.log")
    assert done.output == "2 kernels are locked in autotune.lock\n"
    assert "tests.lock.triple(16,)" in run("show").output
    done = run("check", "--no-time")
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "2 of 2 kernels hold")
    assert run("check").exit_code == 0
    write_log("best.log", [pair(8, seconds=1e-12)])
    run("write", "best.log", "-o", "slow.lock")
    done = run("check", "slow.lock")
    assert (done.exit_code, "slower" in done.output) == (1, True)
    done = run("write", "best.log", "--task", "no.such.task")
    assert "there are trials of tests.lock.triple" in done.output
    (tmp_path / "empty.lock").write_text("version = 1\n")
    done = run("check", "empty.lock")
    assert (done.exit_code, done.output.splitlines()[-1]) == (
        1, "nothing is locked for this device",
    )  # fmt: skip


def test_a_lock_that_cannot_be_written_says_so_and_stays_as_it_was(tmp_path):
    entries, _ = lock_records([pair(8)])
    (tmp_path / "file").write_text("")
    with pytest.raises(LockError, match="cannot write the lock"):
        write_lock(tmp_path / "file" / "x.lock", entries)
    path = tmp_path / "x.lock"
    write_lock(path, entries)
    assert path.stat().st_mode & 0o777 == 0o644
