"""Functions of Python and of libraries that kernels on a CPU call by their names."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import autotune
from autotune import tvm
from autotune.driver import kernel_of
from autotune.ship.gather import _c_image
from autotune.target import Target
from autotune.tvm import te, tir, topi
from autotune.tvm.contrib import cblas, mkl, random
from autotune.tvm.tir import ir_builder


@pytest.fixture
def registered(monkeypatch):
    """Forget what a test registers."""
    from autotune.runtime.host import registered as functions

    monkeypatch.setattr(functions, "_registered", dict(functions._registered))


def called(name, *more, n=8, dtype="float32"):
    """Return a function that calls another on an input and an output."""
    a = te.placeholder((n,), dtype, "A")
    b = te.extern((n,), [a], lambda i, o: tir.call_packed(name, i[0], o[0], *more), name="B")
    return te.create_schedule(b.op), [a, b]


def test_a_function_gets_arrays_numbers_and_texts(registered):
    seen = []

    @tvm.register_func("test.scaled")
    def scaled(x, y, factor, count, text):
        seen.append((x.shape, x.dtype, factor, count, text))
        tvm.nd.array(x.numpy() * factor).copyto(y)

    found = np.zeros(8, "float32")
    tvm.build(*called("test.scaled", 2.5, 3, 'a "text"'), "llvm")(np.ones(8, "float32"), found)
    np.testing.assert_array_equal(found, 2.5)
    assert seen == [((8,), "float32", 2.5, 3, 'a "text"')]


def test_calls_stand_in_loops_and_between_computes_of_any_size(registered):
    n = te.var("n")
    a = te.placeholder((n, 4), name="A")
    twice = te.compute((n, 4), lambda i, j: a[i, j] * 2, "twice")
    turns = []
    tvm.register_func("test.turn", lambda k, row: turns.append((k, row.shape)))

    def statements(ins, outs):
        ib = ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        row = ib.allocate("float32", (2, 2), name="row")
        with ib.for_range(0, n, name="i") as i:
            with ib.if_scope(i % 2 == 0):
                ib.emit(tir.call_packed("test.turn", i, row))
            with ib.for_range(0, 4, name="j") as j:
                y[i, j] = x[i, j] + 1.0
        return ib.get()

    c = te.extern((n, 4), [twice], statements, "C")
    found, given = np.zeros((5, 4), "float32"), np.ones((5, 4), "float32")
    tvm.build(te.create_schedule(c.op), [a, c], "llvm")(given, found)
    np.testing.assert_array_equal(found, 3)
    assert turns == [(0, (2, 2)), (2, (2, 2)), (4, (2, 2))]


def test_what_a_function_returns_is_a_number_of_the_kernel(registered):
    tvm.register_func("test.nine", lambda: 9)

    def statements(ins, outs):
        ib = ir_builder.create()
        ib.buffer_ptr(outs[0])[0] = tir.call_packed("test.nine") + 1
        return ib.get()

    b = te.extern((1,), [], statements, "B", "int32")
    found = np.zeros(1, "int32")
    tvm.build(te.create_schedule(b.op), [b], "llvm")(found)
    assert found[0] == 10


def result_of(function):
    """Return the number that a kernel gets from a function."""
    tvm.register_func("test.result", function, override=True)

    def statements(ins, outs):
        ib = ir_builder.create()
        ib.buffer_ptr(outs[0])[0] = tir.call_packed("test.result")
        return ib.get()

    b = te.extern((1,), [], statements, "B", "int32")
    found = np.full(1, 5, "int32")
    tvm.build(te.create_schedule(b.op), [b], "llvm")(found)
    return found[0]


@pytest.mark.parametrize("number", [2.5, np.float32(2.5)])
def test_a_float_is_refused_as_a_result_instead_of_becoming_0(registered, number):
    with pytest.raises(tvm.TVMError, match=r"'test.result' returned 2.5; .* write others into an"):
        result_of(lambda: number)


def test_numbers_of_numpy_are_results_and_too_large_ones_are_none(registered):
    assert result_of(lambda: np.int64(7)) == 7
    assert result_of(lambda: np.bool_(True)) == 1
    assert result_of(lambda: None) == 0
    with pytest.raises(tvm.TVMError, match=r"'test.result' returned 1099511627776; kernels get"):
        result_of(lambda: 1 << 40)


def test_a_function_may_call_the_kernel_that_calls_it(registered):
    depths = []

    def count(x, y):
        depths.append(len(depths))
        if len(depths) < 3:
            built(x, y)
        y.copyfrom(y.numpy() + 1)

    tvm.register_func("test.again", count)
    built = tvm.build(*called("test.again"), "llvm")
    found = np.zeros(8, "float32")
    outcome = []

    def run():
        built(np.ones(8, "float32"), found)
        outcome.append(found[0])

    thread = threading.Thread(target=run, daemon=True)  # a deadlock would hold up all tests
    thread.start()
    thread.join(60)
    assert (outcome, len(depths)) == ([3], 3)


def test_names_have_any_characters_that_print(registered):
    name = "tést.\U0001f600"
    tvm.register_func(name, lambda x, y: x.copyto(y))
    found = np.zeros(8, "float32")
    tvm.build(*called(name), "llvm")(np.ones(8, "float32"), found)
    assert found.all()
    with pytest.raises(tvm.TVMError, match="expected a name of printable characters"):
        called("a\x01")


def test_an_exception_of_a_function_reaches_the_caller(registered):
    calls = []

    def refuse(x, y):
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("no such luck")

    tvm.register_func("test.refuse", refuse)
    built = tvm.build(*called("test.refuse"), "llvm")
    arrays = np.zeros(8, "float32"), np.zeros(8, "float32")
    with pytest.raises(tvm.TVMError, match=r"'test.refuse' raised ValueError: no such luck") as at:
        built(*arrays)
    assert isinstance(at.value.__cause__, ValueError)
    built(*arrays)  # the second time it does not
    assert len(calls) == 2


def test_a_name_that_nobody_registered_is_told_when_it_is_called(registered):
    tvm.register_func("test.known", lambda x, y: None)
    built = tvm.build(*called("test.knwon"), "llvm")
    with pytest.raises(tvm.TVMError, match=r"no function .* 'test.knwon' .*mean 'test.known'"):
        built(np.zeros(8, "float32"), np.zeros(8, "float32"))


def test_a_gpu_calls_no_functions():
    with pytest.raises(tvm.TVMError, match=r"te.extern: B calls the function 'test.f', .* a GPU"):
        tvm.build(*called("test.f"), "cuda -emulate")


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        (lambda b: b.access_ptr("r"), "an address has no shape; pass the buffer"),
        (lambda b: [1], r"expected an expression, an axis or a number, got \[1\]"),
    ],
)
def test_what_no_function_gets_is_refused(argument, problem):
    a = te.placeholder((8,), name="A")
    with pytest.raises(tvm.TVMError, match=problem):
        te.extern((8,), [a], lambda i, o: tir.call_packed("test.f", argument(i[0])), name="B")


def product_of(function, shapes, dtypes=("float32", "float32"), **options):
    """Return what a function of contrib gives for random matrices, and these."""
    drawn = np.random.default_rng(0)
    given = [
        drawn.integers(0, 9, shape).astype(d) for shape, d in zip(shapes, dtypes, strict=True)
    ]
    a, b = (te.placeholder(x.shape, str(x.dtype)) for x in given)
    c = function(a, b, **options)
    found = np.zeros(c.shape, c.dtype)
    tvm.build(te.create_schedule(c.op), [a, b, c], "llvm")(*given, found)
    return found, given


def test_products_are_those_of_numpy():
    found, (a, b) = product_of(cblas.matmul, [(3, 4), (5, 4)], transb=True)
    np.testing.assert_array_equal(found, a @ b.T)
    found, (a, b) = product_of(cblas.batch_matmul, [(1, 4, 3), (6, 4, 5)], transa=True)
    np.testing.assert_array_equal(found, np.swapaxes(a, 1, 2) @ b)
    found, (a, b) = product_of(mkl.matmul_u8s8s32, [(3, 400), (400, 5)], ("uint8", "int8"))
    np.testing.assert_array_equal(found, a.astype(int) @ b.astype(int))
    with pytest.raises(tvm.TVMError, match=r"rows and columns fit, got \[3, 4\] and \[5, 4\]"):
        cblas.matmul(te.placeholder((3, 4)), te.placeholder((5, 4)))


def test_random_numbers_are_drawn_whenever_they_are_computed():
    r = random.uniform(2, 4, (1000,))
    built = tvm.build(te.create_schedule(r.op), [r], "llvm")
    first, second = np.zeros(1000, "float32"), np.zeros(1000, "float32")
    built(first)
    built(second)
    assert 2 <= first.min() < first.max() <= 4
    assert (first != second).any()


def test_functions_of_libraries_are_found_by_name():
    multiply = tvm.get_global_func("tvm.contrib.cblas.matmul")
    c = tvm.nd.array(np.zeros((2, 2), "float32"))
    multiply(tvm.nd.array(np.eye(2, dtype="float32")), tvm.nd.array(np.ones((2, 2), "float32")), c)
    np.testing.assert_array_equal(c.numpy(), 1)
    assert tvm.get_global_func("tvm.contrib.cudnn.conv2d", allow_missing=True) is None


@autotune.template("test_packed_functions")
def by_function(name, n):
    """A product by a function of that name, with a loop behind it to tune."""
    cfg = autotune.get_config()
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    c = te.extern(
        (n, n), [a, b], lambda i, o: tir.call_packed(name, *i, o[0], False, False), name="C"
    )
    d = te.compute((n, n), lambda i, j: te.max(c[i, j], 0.0), "D")
    s = te.create_schedule(d.op)
    cfg.define_split("tile", d.op.axis[1], num_outputs=2)
    cfg["tile"].apply(s, d, d.op.axis[1])
    cfg.add_flop(2 * n**3)
    return s, [a, b, d]


def tuned(name):
    """Run two trials on the CPU."""
    task = autotune.create("test_packed_functions", (name, 64), "llvm")
    return autotune.tuner.GridSearchTuner(task).tune(
        2, autotune.measure_option("local", "local"), finalists=0
    )


def test_trials_call_functions_of_libraries():
    result = tuned("tvm.contrib.cblas.matmul")
    assert (result.trials, result.failures) == (2, {})


def test_trials_refuse_functions_of_the_script(registered):
    tvm.register_func("test.product", lambda a, b, c, *flags: None)
    with pytest.raises(tvm.TVMError, match=r"'test.product', which this script registered: a tri"):
        tuned("test.product")


def test_trials_refuse_functions_of_libraries_that_the_script_replaced(registered):
    name = "tvm.contrib.cblas.matmul"
    tvm.register_func(name, lambda a, b, c, *flags: None)
    with pytest.raises(tvm.TVMError, match=f"'{name}', which this script registered"):
        tuned(name)


def test_a_project_in_c_has_no_functions_of_python():
    kernel = kernel_of(called("tvm.contrib.cblas.matmul"), Target("c"))
    with pytest.raises(tvm.TVMError, match=r"it calls 'tvm.contrib.cblas.matmul', functions of P"):
        _c_image(kernel, "c")


def test_an_exported_library_calls_what_its_process_registers(registered, tmp_path):
    path = str(tmp_path / "f.so")
    tvm.build(*called("test.later"), "llvm").export_library(path)
    script = f"""
import numpy as np
from autotune import tvm
f, found = tvm.runtime.load_module({path!r}), np.zeros(8, "float32")
tvm.register_func("test.later", lambda x, y: y.copyfrom(x.numpy() + 1))
f(np.ones(8, "float32"), found)
assert (found == 2).all()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_schedules_of_operators_and_lowered_functions_take_externs(registered):
    tvm.register_func("test.same", lambda x, y: x.copyto(y))
    a = te.placeholder((8,), name="A")
    b = te.extern((8,), [a], lambda i, o: tir.call_packed("test.same", i[0], o[0]), name="B")
    found, given = np.zeros(8, "float32"), np.arange(8, dtype="float32")
    lowered = tvm.lower(topi.generic.schedule_extern([b]), [a, b])
    tvm.build(lowered, "llvm")(given, found)
    np.testing.assert_array_equal(found, given)
