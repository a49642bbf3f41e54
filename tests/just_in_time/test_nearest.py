"""Which choice a shape gets that was not tuned: what is right there, of the nearest that was."""

import time

import numpy as np
import pytest

import autotune
from autotune.just_in_time import background, verification
from autotune.just_in_time.nearest import distance
from tests.just_in_time.doubling import length, put, run, scale, step_of


@autotune.template("tests.jit.tiled")
def tiled(m, n):
    cfg = autotune.get_config()
    cfg.define_split("tile", m, num_outputs=2)
    cfg.define_knob("vec", [1, 4] if n % 4 == 0 else [1])
    text = "void tiled(const float *x, float *y) { for (int i = 0; i < M * N; i++) y[i] = x[i]; }"
    defines = {"M": m, "N": n, "TILE": cfg["tile"].size[1], "VEC": cfg["vec"].val}
    args = [autotune.arg("x", (m, n)), autotune.arg("y", (m, n), role="out")]
    return autotune.SourceKernel("tiled", text, args, defines, reference=lambda x: x)


def test_what_was_tuned_for_the_shape_runs(log):
    put(log, scale, (100,), 1, 1e-6)
    put(log, scale, (100,), 2, 1e-7)
    chosen = run(autotune.jit(scale, key=length, store=log, target="llvm"), 100)
    assert (chosen.origin, step_of(chosen)) == ("exact", "64")


def test_else_the_nearest_shape_that_was_tuned(log):
    put(log, scale, (64,), 1, 1e-6)
    put(log, scale, (1000,), 2, 1e-6)
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    for n, of, step in ((252, 64, "8"), (254, 1000, "64")):
        chosen = run(function, n)
        assert (chosen.origin, chosen.of, step_of(chosen)) == ("nearest", (of,), step)


def test_a_neighbours_tiles_are_made_to_fit_and_what_cannot_fit_is_passed_over(log):
    key = lambda x, y: x.shape
    task = autotune.create(tiled, args=(32, 16), target="llvm")
    index = next(
        i for i in range(len(task.config_space))
        if task.config_space.get(i)["tile"].size[1] == 8
        and task.config_space.get(i)["vec"].val == 4
    )  # fmt: skip
    put(log, tiled, (32, 16), index, 1e-6)
    put(log, tiled, (64, 3), 0, 1e-6)
    function = autotune.jit(tiled, key=key, store=log, target="llvm")
    chosen = function.choice(np.zeros((48, 16), "f4"), np.zeros((48, 16), "f4"))
    assert (chosen.origin, chosen.of) == ("nearest", (32, 16))
    assert "TILE 8" in chosen.module.kernel.source
    other = function.choice(np.zeros((48, 5), "f4"), np.zeros((48, 5), "f4"))
    assert (other.origin, other.of) == ("nearest", (64, 3))


def test_distances_are_of_ratios_and_all_else_must_be_equal():
    assert distance(64, 128) == distance(128, 64) == 1
    assert distance((1, 2), (2, 8)) == 3
    assert distance("same", "same") == distance(True, True) == distance(0, 0) == 0
    for a, b in (("same", "valid"), (True, False), (1, "1"), (0, 1), ((1,), (1, 2)), (1, True)):
        assert distance(a, b) == float("inf")


SUM = """
static volatile int *nowhere;
void total(const float *x, float *sum) {
  float part[LANES] = {0};
  for (int i = 0; i < N; i += LANES)
    for (int j = 0; j < LANES; ++j) part[j] += x[i + j];
  float s = 0;
  for (int j = 0; j < LANES; ++j) s += part[j];
  if (LANES == 32 && N % 32) *nowhere = 1;
  for (int j = 0; j < (LANES == 16 && N % 16 ? 99 : 1); ++j) sum[j] = s;
}
"""


def total_of(reference, name):
    @autotune.template(name)
    def total(n):
        cfg = autotune.get_config()
        cfg.define_knob("lanes", [1, 2, 4, 16, 32, 64])
        args = [autotune.arg("x", (n,)), autotune.arg("sum", (1,), role="out")]
        defines = {"N": n, "LANES": cfg["lanes"].val}
        return autotune.SourceKernel("total", SUM, args, defines, reference=reference)

    return total


total = total_of(lambda x: x.sum(keepdims=True), "tests.jit.total")


def summed(function, n):
    x, s = np.ones(n, "float32"), np.zeros(1, "float32")
    function(x, s)
    assert s[0] == n
    return function.choice(x, s)


@pytest.mark.parametrize(("index", "why"), [(5, "WRONG"), (4, "RUNTIME"), (3, "WRONG")])
def test_what_is_wrong_at_other_shapes_is_never_run_there(log, here, monkeypatch, index, why):
    put(log, total, (64,), index, 1e-6)
    assert (
        summed(autotune.jit(total, key=length, store=log, target="llvm"), 100).origin == "default"
    )
    task = autotune.create(total, args=(100,), target="llvm")
    assert verification.remembered(task, task.config_space.get(index)).startswith(why)
    monkeypatch.setattr(verification, "_measured", None)  # it is not found out twice
    assert (
        summed(autotune.jit(total, key=length, store=log, target="llvm"), 100).origin == "default"
    )


def test_what_is_right_at_other_shapes_is_checked_once(log, here, monkeypatch):
    put(log, total, (64,), 2, 1e-6)
    for _ in range(2):
        chosen = summed(autotune.jit(total, key=length, store=log, target="llvm"), 100)
        assert (chosen.origin, chosen.of) == ("nearest", (64,))
        monkeypatch.setattr(verification, "_measured", None)


def test_another_neighbour_is_taken_where_the_nearest_is_wrong(log, here):
    put(log, total, (64,), 5, 1e-6)
    put(log, total, (32,), 2, 1e-6)
    chosen = summed(autotune.jit(total, key=length, store=log, target="llvm"), 100)
    assert (chosen.origin, chosen.of) == ("nearest", (32,))


def test_what_cannot_be_checked_is_passed_over(log, here, monkeypatch, caplog):
    unknown = total_of(None, "tests.jit.total_without_reference")
    put(log, unknown, (64,), 2, 1e-6)
    function = autotune.jit(unknown, key=length, store=log, target="llvm")
    assert summed(function, 100).origin == "default"

    def refuse(*args):
        raise OSError("no more processes")

    put(log, total, (64,), 2, 1e-6)
    monkeypatch.setattr(verification, "_measured", refuse)
    assert (
        summed(autotune.jit(total, key=length, store=log, target="llvm"), 100).origin == "default"
    )
    assert "no more processes" in caplog.text
    task = autotune.create(total, args=(100,), target="llvm")
    assert verification.remembered(task, task.config_space.get(2)) is None


def test_a_check_ends_after_the_budget(log, here):
    slow = total_of(lambda x: time.sleep(3) or x.sum(keepdims=True), "tests.jit.total_slowly")
    put(log, slow, (64,), 2, 1e-6)
    started = time.monotonic()
    function = autotune.jit(slow, key=length, store=log, target="llvm", budget_s=0.1)
    assert summed(function, 100).origin == "default"
    task = autotune.create(slow, args=(100,), target="llvm")
    assert "longer than 0.1 s" in verification.remembered(task, task.config_space.get(2))
    assert time.monotonic() - started < 30


def test_in_the_background_the_default_serves_until_the_nearest_is_checked(log, here, monkeypatch):
    monkeypatch.setattr(background, "IDLE_S", 0.2)
    monkeypatch.setattr(autotune.just_in_time.Jit, "_tune_now", lambda *args, **options: None)
    put(log, total, (64,), 2, 1e-6)
    function = autotune.jit(total, key=length, tune="background", store=log, target="llvm")
    assert summed(function, 100).origin == "default"
    assert background.WORKER.join(60)
    assert summed(function, 100).origin == "nearest"
