"""The local builder and runner: sharing, limits, races, resuming, and what a record keeps."""

import gc
import hashlib
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import autotune.task as at
from autotune.errors import MeasureError
from autotune.kernel import SourceKernel, arg
from autotune.measure import (
    BuildResult,
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    Pipeline,
    Session,
    measure_option,
)
from autotune.measure.build.pool import BARE
from autotune.measure.final.race import race
from autotune.measure.run import device_process
from autotune.measure.run.timing import TimingPolicy
from autotune.utils import environment
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.measure.doubles import PlainBuilder, PlainRunner
from tests.trials import inputs_of

WORK_C = """
void work(const float *x, float *y) {
  for (int i = 0; i < 4096; i++) {
    float t = x[i];
    for (int r = 0; r < STEPS; r++) t = t * 1.000001f + 1e-7f;
    y[i] = t + 0.0f * SAME;
  }
}
"""


@at.template("measure_test.work")
def work():
    cfg = at.get_config()
    cfg.define_knob("steps", [10, 40, 160, 640])
    cfg.define_knob("same", [1, 2])
    return SourceKernel(
        "work",
        WORK_C,
        defines={"STEPS": cfg["steps"].val, "SAME": cfg["same"].val},
        args=[arg("x", (4096,)), arg("y", (4096,), role="out")],
    )


@at.template("measure_test.copy")
def copy(n):
    cfg = at.get_config()
    cfg.define_knob("slow", [1, 64])
    cfg.add_flop(n)
    cfg.add_bytes(8 * n)
    return SourceKernel(
        "copy",
        "void copy(const float *x, float *y) {\n"
        "for (int i = 0; i < N; i++) for (int r = 0; r < SLOW; r++)"
        " ((volatile float *)y)[i] = x[i]; }",
        defines={"N": n, "SLOW": cfg["slow"].val},
        args=[arg("x", (n,)), arg("y", (n,), role="out")],
    )


@at.template("measure_test.launch")
def launch():
    cfg = at.get_config()
    cfg.define_knob("threads", [128, 2048])
    return SourceKernel(
        "launch",
        'extern "C" __global__ void launch(float *y) { this is not C++; }',
        grid=1,
        block=cfg["threads"].val,
        args=[arg("y", (1,), role="out")],
    )


@pytest.fixture
def task():
    return at.create("measure_test.work", (), target="c")


def local(**options):
    return measure_option(LocalBuilder(n_parallel=2), LocalRunner(cooldown_interval=0, **options))


def test_identical_machine_code_is_measured_once(task):
    with Pipeline(task, local()) as pipeline:
        pipeline.submit(inputs_of(task, [0, 4, 1]))
        results = []
        while pipeline.outstanding:
            results += [result for _, result in pipeline.next_results()]
    shared = [r for r in results if "same_code_as" in r.extra]
    assert len(shared) == 1
    assert shared[0].extra["same_code_as"] in (0, 4)
    assert results[0].costs == results[1].costs != results[2].costs


def test_a_record_keeps_what_proves_its_time(task):
    with Pipeline(task, local(repeat=5)) as pipeline:
        pipeline.submit(inputs_of(task, [1]))
        ((_, result),) = pipeline.next_results()
    extra = result.extra
    low, high = extra["ci95"]
    assert low <= result.seconds <= high
    assert extra["samples"] >= 5
    assert extra["number"] >= 4
    assert extra["noise_floor"] >= 0
    assert extra["resources"]["code_bytes"] > 0
    assert extra["verified"] is False  # the template has no reference
    assert "roofline" not in extra  # the template declares no bytes
    assert len(result.costs) == extra["samples"] - 2
    assert np.median(result.costs) == pytest.approx(result.seconds)
    assert result.spread == extra["noise_floor"]
    assert result.all_cost > 0
    assert abs(result.timestamp - time.time()) < 60


def test_a_record_carries_its_part_of_the_ceiling():
    task = at.create("measure_test.copy", (1 << 20,), target="c")
    with Pipeline(task, local(timing=TimingPolicy(hopeless=0))) as pipeline:
        pipeline.submit(inputs_of(task, [0, 1]))
        results = []
        while pipeline.outstanding:
            results += [result for _, result in pipeline.next_results()]
    fast, slow = (r.extra["roofline"] for r in results)
    assert 0 < slow < fast < 20  # the array fits a cache, so it may well pass the memory's rate


def test_slow_candidates_are_cut_short_after_a_fast_one(task):
    with Pipeline(task, local()) as pipeline:
        results = []
        for index in (0, 3):
            pipeline.submit(inputs_of(task, [index]))
            results += [result for _, result in pipeline.next_results()]
    fast, slow = results
    assert "cut_short" not in fast.extra
    assert slow.extra["cut_short"]
    assert len(slow.costs) == 1
    assert slow.mean > 4 * fast.mean


def test_a_launch_over_the_limits_is_refused_before_compiling():
    task = at.create("measure_test.launch", (), target="cuda -arch=sm_90")
    builder = LocalBuilder(n_parallel=1)
    result = builder.submit(inputs_of(task, [1])[0]).result(timeout=5)
    assert result.error_no == MeasureErrorNo.INSTANTIATION_ERROR
    assert "threads per block is 2048, the device allows 1024" in result.error_msg
    assert builder.pids == []


def test_cuda_text_that_does_not_compile_is_a_device_compile_error():
    task = at.create("measure_test.launch", (), target="cuda -arch=sm_90")
    builder = LocalBuilder(n_parallel=1, timeout=60)
    try:
        builder.set_task(task, {})
        (result,) = builder.build(inputs_of(task, [0]))
    finally:
        builder.close()
    assert result.error_no == MeasureErrorNo.COMPILE_DEVICE
    assert "error" in result.error_msg


def test_artifacts_are_removed_after_use(task):
    option = local()
    with Pipeline(task, option) as pipeline:
        folder = Path(option["builder"]._pool.folder)
        pipeline.submit(inputs_of(task, range(4)))
        while pipeline.outstanding:
            pipeline.next_results()
        assert [p for p in folder.iterdir() if p.is_file()] == []
    assert not folder.exists()


def test_a_builder_and_a_runner_that_are_dropped_end_their_processes(task):
    option = local()
    builder, runner = option["builder"], option["runner"]
    runner.set_task(task)
    builder.set_task(task, {})
    (built,) = builder.build(inputs_of(task, [0]))
    assert runner.run(inputs_of(task, [0]), [built])[0].ok
    pids = builder.pids + runner.pids
    assert len(pids) == 2
    del option, builder, runner
    gc.collect()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_trials_say_themselves_what_task_they_are_of(task):
    builder, runner = LocalBuilder(n_parallel=1), LocalRunner(cooldown_interval=0)
    inputs = inputs_of(task, [0])
    assert runner.run(inputs, builder.build(inputs))[0].ok
    runner.close()
    builder.close()


def test_what_was_not_built_cannot_be_run(task):
    runner = LocalRunner()
    future = runner.submit(inputs_of(task, [0])[0], BuildResult("", None))
    with pytest.raises(MeasureError, match="a build result without a kernel cannot be run"):
        future.result(timeout=60)


def test_the_cpu_is_one_device(task):
    runner = LocalRunner(device=1)
    runner.set_task(task)
    with pytest.raises(MeasureError, match="runs on the CPU, which is device 0; got device 1"):
        runner.submit(inputs_of(task, [0])[0], BuildResult("", None))


def test_descriptors_are_not_leaked(task):
    def after_a_trial():
        with Pipeline(task, local()) as pipeline:
            pipeline.submit(inputs_of(task, [0]))
            pipeline.next_results()
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    first = after_a_trial()  # with what all trials of this process share
    assert [after_a_trial() <= first for _ in range(2)] == [True, True]


def test_a_race_finds_the_fastest_and_keeps_the_proof(task):
    result = race(inputs_of(task, [3, 0, 1]), local(), rounds=7, least_s=1e-4, risk=0)
    assert result.winner.config.index == 0
    assert result.tied == ("0",)
    assert [c.key for c in result.candidates] == ["3", "0", "1"]
    proof = result.certificate()
    assert proof.tied == ("0",)
    # On a busy host there are more samples, and some of them do not count.
    assert len(proof.candidates) == 3
    assert all(c.samples[0] >= 2 for c in proof.candidates)


def test_the_rounds_of_a_race_on_a_cpu_are_spread_over_processes(task, monkeypatch):
    option, shares = local(), []
    ask = option["runner"].race

    def counted(candidates, rounds, least_s, device=None):
        shares.append(rounds)
        return ask(candidates, rounds, least_s, device)

    monkeypatch.setattr(option["runner"], "race", counted)
    result = race(inputs_of(task, [0]), option, rounds=29, least_s=1e-4, risk=0)
    assert shares == [3] * 5 + [2] * 7
    assert result.rounds == (29, 29)


def test_a_race_over_which_its_runner_is_closed_says_so(task, monkeypatch):
    option = local()
    ask = option["runner"].race

    def cut_off(*race):
        threading.Timer(0.2, option["runner"].close).start()
        return ask(*race)

    monkeypatch.setattr(option["runner"], "race", cut_off)
    with pytest.raises(MeasureError, match="the race was cut off: its runner was closed"):
        race(inputs_of(task, [0]), option, rounds=999, least_s=0.1, risk=0)


def test_a_race_that_is_decided_ends_and_its_proof_says_so(task):
    result = race(inputs_of(task, [0]), local(), rounds=29, least_s=1e-4)
    assert result.rounds == (17, 29)
    assert result.certificate().rounds == (17, 29)
    assert result.certificate().risk == 0.01


def test_a_race_chooses_among_equals_by_rule(task):
    # The same code under two knobs: neither is faster, the lower index wins.
    for _ in range(3):
        result = race(inputs_of(task, [4, 0]), local(), rounds=9, least_s=1e-3)
        assert result.winner.config.index == 0


def test_a_race_works_with_script_builders_and_runners(task):
    option = measure_option(PlainBuilder(), PlainRunner())
    assert race(inputs_of(task, [5, 2, 7]), option, rounds=2).winner.config.index == 2


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"rounds": 2.5}, {"risk": -1}, {"risk": "1%"}])
def test_a_race_of_no_rounds_or_of_no_risk_is_refused(task, wrong):
    with pytest.raises(MeasureError, match=f"race: {next(iter(wrong))} must be a"):
        race(inputs_of(task, [0]), local(), **wrong)


def test_a_race_of_nothing_is_refused(task):
    with pytest.raises(MeasureError, match="no finalists"):
        race([], local())
    option = measure_option(PlainBuilder(failing=[2]), PlainRunner())
    with pytest.raises(MeasureError, match="no finalist could be built"):
        race(inputs_of(task, [2]), option)


@pytest.mark.parametrize(
    ("module", "bare", "without"),
    [
        ("build.worker", BARE, ["jinja2", "numpy", "pycuda"]),
        (
            "run.worker",
            device_process._BARE,
            ["autotune.lowering", "autotune.te", "jinja2", "pycuda"],
        ),
    ],
    ids=["compiles", "runs"],
)
def test_a_process_that_compiles_or_runs_loads_only_what_it_needs(module, bare, without, tmp_path):
    package = Path(at.__file__).parents[1]
    for name in (
        "__init__",
        "driver",
        "compiler",
    ):  # PyCUDA, as where a driver is
        path = tmp_path / f"pycuda/{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    script = f"""
        import sys, types
        for name in ("autotune", *{bare!r}):
            empty = sys.modules[name] = types.ModuleType(name)
            empty.__path__ = ["/".join([{str(package)!r}, *name.split(".")[1:]])]
        import autotune.measure.{module}
        print(*sorted({{*{without!r}}} & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == []


def test_a_kernel_planted_in_a_cache_that_others_can_write_to_is_never_run(
    task, tmp_path, monkeypatch, caplog
):
    cache = tmp_path / "cache"
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(cache))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment._temporary_cache.cache_clear()

    def artifact():
        builder = LocalBuilder(n_parallel=1)
        builder.set_task(task, {})
        try:
            (built,) = builder.build(inputs_of(task, [0]))
            return Path(built.artifact).read_bytes()
        finally:
            builder.close()

    genuine = artifact()
    (entry,) = (path for path in cache.glob("build/*/*") if genuine in path.read_bytes())
    head, _, _ = entry.read_bytes().partition(b"\n")[2].partition(b"\n")
    content = head + b"\nplanted"
    entry.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    assert artifact() == b"planted"
    cache.chmod(0o777)
    assert artifact() == genuine
    assert "is not used, because others may write to it" in caplog.text
    environment._temporary_cache.cache_clear()


def test_a_trial_notes_the_device_it_was_measured_on(task, monkeypatch):
    monkeypatch.setattr(
        "autotune.measure.run.device_process.device_class",
        lambda target, index: f"card {index} (sm_0)",
    )
    with Session(LocalBuilder(), LocalRunner(verify=False)) as session:
        (result,) = session.measure(task, [task.config_space.get(0)])
    assert result.extra["device_class"] == "card 0 (sm_0)"
