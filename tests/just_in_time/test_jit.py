"""Templates that are called like functions: what they choose, and when they tune."""

import copy
import pickle
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import autotune
from autotune.errors import LockError, TunerError
from autotune.just_in_time import background, store, verdict
from autotune.just_in_time.nearest import distance
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.record import open_database

SOURCE = """
void scale(const float *x, float *y) {
  for (int i = 0; i < N; i += STEP)
    for (int j = i; j < i + STEP && j < N; ++j) y[j] = 2 * x[j];
}
"""


@autotune.template("tests.jit.scale")
def scale(n):
    cfg = autotune.get_config()
    cfg.define_knob("step", [1, 8, 64])
    cfg.add_flop(n)
    return autotune.SourceKernel(
        "scale",
        SOURCE,
        [autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")],
        {"N": n, "STEP": cfg["step"].val},
        reference=lambda x: 2 * x,
    )


@autotune.template("tests.jit.tiled")
def tiled(m, n):
    cfg = autotune.get_config()
    cfg.define_split("tile", m, num_outputs=2)
    cfg.define_knob("vec", [1, 4] if n % 4 == 0 else [1])
    text = "void tiled(const float *x, float *y) { for (int i = 0; i < M * N; i++) y[i] = x[i]; }"
    defines = {"M": m, "N": n, "TILE": cfg["tile"].size[1], "VEC": cfg["vec"].val}
    args = [autotune.arg("x", (m, n)), autotune.arg("y", (m, n), role="out")]
    return autotune.SourceKernel("tiled", text, args, defines, reference=lambda x: x)


def length(x, y):
    return (x.shape[0],)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "store.log"


@pytest.fixture
def here(monkeypatch, tmp_path):
    """Locks and the usual store lie in a folder of the test; what is compiled does not."""
    monkeypatch.setattr(store.environment, "cache_dir", lambda: tmp_path / "cache")
    yield
    assert background.WORKER.join(60)


def put(log, template, args, index, seconds):
    task = autotune.create(template, args=args, target="llvm")
    result = MeasureResult((seconds,), 0, 0.1, time.time())
    open_database(log).extend(
        [(MeasureInput(task.target, task, task.config_space.get(index)), result)]
    )


def arrays(n):
    return np.arange(n, dtype="float32"), np.zeros(n, "float32")


def step_of(choice):
    return choice.module.kernel.source.split("STEP ")[1].split()[0]


def run(function, n):
    x, y = arrays(n)
    function(x, y)
    np.testing.assert_array_equal(y, 2 * x)
    return function.choice(x, y)


def test_without_records_the_default_runs(log):
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    chosen = run(function, 100)
    assert (chosen.origin, step_of(chosen)) == ("default", "1")


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
    assert verdict.remembered(task, task.config_space.get(index)).startswith(why)
    monkeypatch.setattr(verdict, "_measured", None)  # it is not found out twice
    assert (
        summed(autotune.jit(total, key=length, store=log, target="llvm"), 100).origin == "default"
    )


def test_what_is_right_at_other_shapes_is_checked_once(log, here, monkeypatch):
    put(log, total, (64,), 2, 1e-6)
    for _ in range(2):
        chosen = summed(autotune.jit(total, key=length, store=log, target="llvm"), 100)
        assert (chosen.origin, chosen.of) == ("nearest", (64,))
        monkeypatch.setattr(verdict, "_measured", None)


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
    monkeypatch.setattr(verdict, "_measured", refuse)
    assert (
        summed(autotune.jit(total, key=length, store=log, target="llvm"), 100).origin == "default"
    )
    assert "no more processes" in caplog.text
    task = autotune.create(total, args=(100,), target="llvm")
    assert verdict.remembered(task, task.config_space.get(2)) is None


def test_a_check_ends_after_the_budget(log, here):
    slow = total_of(lambda x: time.sleep(3) or x.sum(keepdims=True), "tests.jit.total_slowly")
    put(log, slow, (64,), 2, 1e-6)
    started = time.monotonic()
    function = autotune.jit(slow, key=length, store=log, target="llvm", budget=0.1)
    assert summed(function, 100).origin == "default"
    task = autotune.create(slow, args=(100,), target="llvm")
    assert "longer than 0.1 s" in verdict.remembered(task, task.config_space.get(2))
    assert time.monotonic() - started < 30


def test_in_the_background_the_default_serves_until_the_nearest_is_checked(log, here, monkeypatch):
    monkeypatch.setattr(background, "IDLE_S", 0.2)
    monkeypatch.setattr(autotune.just_in_time.Jit, "_tune_now", lambda *args, **options: None)
    put(log, total, (64,), 2, 1e-6)
    function = autotune.jit(total, key=length, tune="background", store=log, target="llvm")
    assert summed(function, 100).origin == "default"
    assert background.WORKER.join(60)
    assert summed(function, 100).origin == "nearest"


def test_what_the_template_cannot_take_is_named(log):
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    with pytest.raises(
        TunerError, match=r"length: .* failed for \(NoneType, int\): AttributeError"
    ):
        function(None, 3)
    with pytest.raises(TunerError, match=r"failed for \(ndarray\): TypeError: .*'y'"):
        function(np.zeros(3))
    with pytest.raises(
        TunerError, match=r"length: tests.jit.scale\(0,\): .*shape must be positive"
    ):
        function(*arrays(0))


@pytest.mark.parametrize("wrong", [[1.0, 2.0], {}, {1}, bytearray(4), ([],)])
def test_what_is_neither_array_nor_number_is_named(log, wrong):
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    with pytest.raises(TunerError, match="length: argument 1 must be an array or a number, got"):
        function(np.zeros(4, "float32"), wrong)


def test_a_copy_is_the_function_itself(log):
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    assert copy.deepcopy([function])[0] is function is copy.copy(function)
    with pytest.raises(TypeError, match="cannot be pickled: make it where it is called"):
        pickle.dumps(function)


def test_the_choice_is_by_shape_dtype_and_number(log):
    seen = []

    def key(x, y, s=None):
        seen.append((x.shape, s))
        return (x.shape[0],)

    function = autotune.jit(scale, key=key, store=log, target="llvm")
    for n in (8, 16, 8, 16, 8):
        run(function, n)
    assert [shape for shape, _ in seen] == [(8,), (16,)]


def test_what_another_process_finds_is_used(log, monkeypatch):
    monkeypatch.setattr(store, "_FRESH_S", 0.0)
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    assert run(function, 100).origin == "default"
    put(log, scale, (100,), 2, 1e-6)
    assert step_of(run(function, 100)) == "64"


def test_a_new_workload_is_tuned_at_its_first_call(log, here):
    function = autotune.jit(scale, key=length, tune="first", budget=30, store=log, target="llvm")
    assert run(function, 100).origin == "exact"
    trials = len(list(open_database(log).records()))
    assert trials == 3
    again = autotune.jit(scale, key=length, tune="first", budget=30, store=log, target="llvm")
    assert run(again, 100).origin == "exact"
    assert len(list(open_database(log).records())) == trials


def test_a_workload_is_tuned_in_the_background_while_calls_are_answered(log, here, monkeypatch):
    monkeypatch.setattr(background, "IDLE_S", 0.2)
    function = autotune.jit(
        scale, key=length, tune="background", budget=30, store=log, target="llvm"
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

    function = autotune.jit(sometimes, key=length, tune="first", budget=30, store=log,
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


AT_EXIT = """
    import sys
    sys.path.insert(0, {folder!r})
    import numpy
    from test_jit import autotune, background, length, run, scale
    background.IDLE_S = 3600  # so that it is not idle before it ends, however slow its machine
    function = autotune.jit(scale, key=length, tune="background", budget=20, store={log!r},
                            target="llvm", at_exit={at_exit})
    assert run(function, 300).origin == "default"
    print("ended")
"""


@pytest.mark.parametrize("at_exit", [True, False])
def test_what_had_no_time_is_tuned_when_the_program_has_ended(log, at_exit, request):
    folder = str(request.path.parent)
    text = textwrap.dedent(AT_EXIT.format(folder=folder, log=str(log), at_exit=at_exit))
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ended" in done.stdout
    assert len(list(open_database(log).records())) == (3 if at_exit else 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tune": "later"}, "jit: tune must be one of"),
        ({"budget": 0}, "jit: budget must be a number of at least"),
        ({"key": 3}, "jit: key must be a function"),
        ({"at_exit": "yes"}, "jit: at_exit must be"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(TunerError, match=message):
        autotune.jit(scale, **{"key": length, **options})


def test_a_function_that_is_no_template_is_named():
    with pytest.raises(TunerError, match="template must be a function decorated"):
        autotune.jit(length, key=length)


def test_it_decorates_the_function_that_gives_the_arguments(log):
    @autotune.jit(scale, store=log, target="llvm")
    def doubled(x, y):
        """Doubles."""
        return (x.shape[0],)

    assert run(doubled, 32).origin == "default"
    assert doubled.__doc__ == "Doubles."
    assert "tests.jit.scale" in repr(doubled)
