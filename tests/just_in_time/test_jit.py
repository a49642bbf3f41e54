"""Templates that are called like functions: what they choose."""

import copy
import gc
import pickle
import time

import numpy as np
import pytest

import autotune
from autotune.errors import AutotuneError, TunerError
from autotune.just_in_time import store
from tests.just_in_time.doubling import arrays, length, put, run, scale, step_of


def torch_number(value):
    return pytest.importorskip("torch").tensor(value)


def test_without_records_the_default_runs(log):
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    chosen = run(function, 100)
    assert (chosen.origin, step_of(chosen)) == ("default", "1")


def test_what_the_template_cannot_take_is_named(log):
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    with pytest.raises(
        TunerError, match=r"length: .* failed for \(NoneType, int\): AttributeError"
    ):
        function(None, 3)
    with pytest.raises(TunerError, match=r"failed for \(ndarray\): TypeError: .*'y'"):
        function(np.zeros(3))
    function = autotune.jit(scale, key=lambda x, y: (0,), store=log, target="llvm")
    with pytest.raises(TunerError, match=r"tests.jit.scale\(0,\): .*shape must be positive"):
        function(*arrays(4))


@autotune.template("tests.jit.sum_of_rows")
def total(rows, columns):
    text = """void total(const float *x, float *sums) {
      for (int i = 0; i < ROWS; ++i) {
        sums[i] = 0;
        for (int j = 0; j < COLUMNS; ++j) sums[i] += x[i * COLUMNS + j];
      }
    }"""
    if columns % 64:
        raise autotune.errors.TemplateError("columns must be a multiple of 64")
    args = [autotune.arg("x", (rows, columns)), autotune.arg("sums", (rows,), role="out")]
    return autotune.SourceKernel("total", text, args, {"ROWS": rows, "COLUMNS": columns})


def numpy_zeros(*shape):
    return np.zeros(shape, "float32")


def torch_zeros(*shape):
    return pytest.importorskip("torch").zeros(shape)


@pytest.mark.parametrize("zeros", [numpy_zeros, torch_zeros])
@pytest.mark.parametrize("tune", ["off", "first", "background"])
def test_where_all_that_is_written_has_no_elements_nothing_is_done(log, here, zeros, tune):
    function = autotune.jit(
        total, key=lambda x, sums: tuple(x.shape), tune=tune, store=log, target="llvm"
    )
    for _ in range(2):
        function(zeros(0, 128), zeros(0))
    chosen = function.choice(zeros(0, 128), zeros(0))
    assert (chosen.origin, chosen.module) == ("nothing", None)
    assert not log.exists()


@pytest.mark.parametrize("zeros", [numpy_zeros, torch_zeros])
def test_what_is_written_though_nothing_is_read_is_an_error_that_says_so(log, zeros):
    function = autotune.jit(total, key=lambda x, sums: tuple(x.shape), store=log, target="llvm")
    message = (
        r"argument 0 has no elements \(its shape is \(3, 0\)\), but argument 1, which the call "
        r"writes, has some \(\(3,\)\)"
    )
    with pytest.raises(TunerError, match=message):
        function(zeros(3, 0), zeros(3))


def test_where_it_is_not_known_what_a_call_without_elements_writes_that_is_told(log):
    function = autotune.jit(total, key=lambda x, sums: (x.shape[0], 65), store=log, target="llvm")
    with pytest.raises(TunerError, match=r"no elements .* is not known, .* multiple of 64"):
        function(numpy_zeros(0, 65), numpy_zeros(0))


@pytest.mark.parametrize("wrong", [[1.0, 2.0], {}, {1}, bytearray(4), ([],)])
def test_what_is_neither_array_nor_number_is_named(log, wrong):
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    with pytest.raises(TunerError, match="length: argument 1 must be an array or a number, got"):
        function(np.zeros(4, "float32"), wrong)


def test_arguments_may_be_given_by_name(log):
    call = autotune.jit(scale, store=log, target="llvm", key=length)
    x, y = arrays(100)
    call(y=y, x=x)
    np.testing.assert_array_equal(y, 2 * x)
    assert call.choice(x, y=y) is call.choice(x, y)
    with pytest.raises(TunerError, match=r"length\(x, y\): got an unexpected keyword .*'out'"):
        call(x, y, out=y)
    with pytest.raises(TunerError, match="missing a required argument: 'x'"):
        call(y=y)
    only = autotune.jit(scale, store=log, target="llvm", key=lambda x, *, y: length(x, y))
    with pytest.raises(TunerError, match="an order, and y can be given by name only"):
        only(x, y=y)


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


MULTIPLE = """
void multiple(float a, const float *x, float *y) {
  for (int i = 0; i < N; ++i) y[i] = TIMES * x[i] + a;
}
"""


@autotune.template("tests.jit.multiple")
def multiple(n, times):
    return autotune.SourceKernel(
        "multiple",
        MULTIPLE,
        [
            autotune.arg("a", (), "float32"),
            autotune.arg("x", (n,)),
            autotune.arg("y", (n,), role="out"),
        ],
        {"N": n, "TIMES": times},
    )


@pytest.mark.parametrize("number", [int, float, np.float32, np.int64, np.array, torch_number])
def test_the_choice_is_by_the_value_of_a_number_of_whatever_type(log, number):
    function = autotune.jit(
        multiple, key=lambda a, x, y: (x.shape[0], int(a)), store=log, target="llvm"
    )
    x, y = arrays(8)
    for value in (2, 3, 2):
        function(number(value), x, y)
        np.testing.assert_array_equal(y, value * x + value)


def test_numbers_that_only_the_kernel_takes_are_one_choice(log):
    made = []

    @autotune.template(f"tests.jit.{time.time_ns()}")
    def counted(n):
        made.append(n)
        return multiple(n, 1)

    function = autotune.jit(counted, key=lambda a, x, y: x.shape, store=log, target="llvm")
    x, y = arrays(8)
    function(0.0, x, y)
    before = len(made)
    for value in (1.0, 2.0, float("nan")):
        function(value, x, y)
        np.testing.assert_array_equal(y, x + value)
    assert len(made) == before
    assert "shapes=1" in repr(function)


def test_the_target_around_each_call_decides(log):
    function = autotune.jit(scale, key=length, store=log)
    x, y = arrays(8)
    assert function.choice(x, y).module.target.kind == "c"
    with autotune.Target("llvm -mcpu=x86-64"):
        assert function.choice(x, y).module.target.mcpu == "x86-64"
    assert function.choice(x, y).module.target.mcpu != "x86-64"


def test_contexts_around_each_call_decide_and_come_before_the_store(log, tmp_path):
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    other = tmp_path / "other.log"
    put(other, scale, (100,), 1, 1e-6)
    assert step_of(run(function, 100)) == "1"
    with autotune.apply_history_best(other):
        assert step_of(run(function, 100)) == "8"
        with autotune.task.ApplyConfig(autotune.create(scale, (100,), "llvm").config_space.get(2)):
            assert step_of(run(function, 100)) == "64"
        assert step_of(run(function, 100)) == "8"
    assert step_of(run(function, 100)) == "1"
    put(log, scale, (100,), 2, 1e-7)
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    assert step_of(run(function, 100)) == "64"
    with autotune.apply_history_best(other):
        assert step_of(run(function, 100)) == "8"
    with autotune.task.FallbackContext():
        for n in (100, 101):
            assert (run(function, n).origin, step_of(run(function, n))) == ("default", "1")


def test_a_context_that_changes_decides_anew(log, tmp_path):
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    space = autotune.create(scale, (100,), "llvm").config_space
    with autotune.apply_history_best(None) as history:
        assert step_of(run(function, 100)) == "1"
        put(tmp_path / "other.log", scale, (100,), 1, 1e-6)
        history.load(tmp_path / "other.log")
        assert step_of(run(function, 100)) == "8"
        history.update("llvm", ("tests.jit.scale", 100), space.get(2))
        assert step_of(run(function, 100)) == "64"


def test_a_context_that_is_left_is_not_kept(log):
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    run(function, 100)
    for _ in range(3):
        with autotune.apply_history_best([]):
            run(function, 100)
    gc.collect()
    run(function, 101)
    assert "shapes=2" in repr(function)


def test_a_function_without_a_name_is_called_by_its_template(log):
    function = autotune.jit(scale, key=lambda x, y: x.shape, store=log, target="llvm")
    with pytest.raises(TunerError, match=r"^tests\.jit\.scale: argument 1 must be an array"):
        function(np.zeros(4, "float32"), [1.0])


def test_a_tensor_without_memory_is_named(log):
    torch = pytest.importorskip("torch")
    function = autotune.jit(scale, key=length, store=log)
    with pytest.raises(AutotuneError, match=r"argument 'x': .*meta"):
        function(torch.zeros(8, device="meta"), torch.zeros(8))


def test_what_another_process_finds_is_used(log, monkeypatch):
    monkeypatch.setattr(store, "_FRESH_S", 0.0)
    function = autotune.jit(scale, key=length, store=log, target="llvm")
    assert run(function, 100).origin == "default"
    put(log, scale, (100,), 2, 1e-6)
    assert step_of(run(function, 100)) == "64"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tune": "later"}, "jit: tune must be one of"),
        ({"budget_s": 0}, "jit: budget_s must be a number of at least"),
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
