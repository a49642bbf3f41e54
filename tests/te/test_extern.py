"""Tensors that hand-written statements compute, on a CPU and on an emulated GPU."""

import numpy as np
import pytest

from autotune import build, lower, te
from autotune.driver.kernel_hash import schedule_hash
from autotune.errors import ExpressionError, LoweringError, ScheduleError
from autotune.te import ir_builder
from autotune.te.extern_call import extern_call
from autotune.te.flop import FlopError


def running_sums(n=10, between=False):
    """Return sums of all elements so far, of an input or of what is computed from it."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2, "B") if between else a

    def statements(ins, outs):
        ib = ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        y[0] = x[0]
        with ib.for_range(1, n, name="i") as i:
            y[i] = y[i - 1] + x[i]
        return ib.get()

    c = te.extern((n,), [b], statements, name="sums")
    d = te.compute((n,), lambda i: c[i] + 1.0, "D") if between else c
    return a, d


@pytest.mark.parametrize("between", [False, True])
def test_statements_stand_between_computes(between):
    a, d = running_sums(between=between)
    found = np.zeros(10, "float32")
    build(te.create_schedule(d.op), [a, d], "llvm")(np.arange(10, dtype="float32"), found)
    wanted = np.cumsum(np.arange(10)) * 2 + 1 if between else np.cumsum(np.arange(10))
    np.testing.assert_array_equal(found, wanted)


def test_several_outputs_have_shapes_and_dtypes_of_their_own():
    a = te.placeholder((4, 6), "int32", "A")

    def statements(ins, outs):
        ib = ir_builder.create()
        x, (most, count) = ib.buffer_ptr(ins[0]), map(ib.buffer_ptr, outs)
        best = ib.allocate("int32", (1,), name="best", scope="local")
        with ib.for_range(0, 4, name="i") as i:
            best[0] = x[i, 0]
            count[i] = 0.0
            with ib.for_range(0, 6, name="j") as j:
                with ib.if_scope(x[i, j] > best[0]):
                    best[0] = x[i, j]
                with ib.else_scope():
                    count[i] = count[i] + 1.0
            most[i] = best[0]
        return ib.get()

    most, count = te.extern([(4,), (4,)], [a], statements, "most", ["int32", "float32"])
    values = np.random.default_rng(0).integers(0, 99, (4, 6)).astype("int32")
    found = np.zeros(4, "int32"), np.zeros(4, "float32")
    build(te.create_schedule(most.op), [a, most, count], "llvm")(values, *found)
    np.testing.assert_array_equal(found[0], values.max(1))
    new = [sum(row[j] > max(row[:j], default=row[0]) for j in range(6)) for row in values]
    np.testing.assert_array_equal(found[1], 6 - np.array(new))


def test_a_function_of_a_text_computes_an_output():
    a = te.placeholder((8,), name="A")
    text = "void twice(float* x, float* y, int n) { for (int i = 0; i < n; ++i) y[i] = 2 * x[i]; }"

    def statements(ins, outs):
        ib = ir_builder.create()
        ib.scope_attr(None, "pragma_import_c", text)
        ib.emit(extern_call("int32", "twice", ins[0].access_ptr("r"), outs[0].access_ptr("w"), 8))
        return ib.get()

    b = te.extern((8,), [a], statements, "twice")
    found = np.zeros(8, "float32")
    s = te.create_schedule(b.op)
    build(s, [a, b], "llvm")(np.arange(8, dtype="float32"), found)
    np.testing.assert_array_equal(found, np.arange(8) * 2)
    assert "for once" not in str(lower(s, [a, b]))


def reversed_in_blocks(n=64, threads=16, named=True):
    """Return elements in reverse within blocks, through shared memory."""
    a = te.placeholder((n,), name="A")

    def statements(ins, outs):
        ib = ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        if named:
            block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
            ib.scope_attr(block, "thread_extent", n // threads)
            ib.scope_attr(thread, "thread_extent", threads)
            part = ib.allocate("float32", (threads,), name="part", scope="shared")
            part[thread] = x[block * threads + thread]
            y[block * threads + thread] = part[threads - 1 - thread]
        else:
            y[0] = x[0]
        return ib.get()

    b = te.extern((n,), [a], statements, "B")
    return te.create_schedule(b.op), [a, b]


def test_statements_for_a_gpu_name_their_threads():
    schedule, args = reversed_in_blocks()
    text = str(lower(schedule, args))
    assert "grid=(4, 1, 1) block=(16, 1, 1)" in text
    assert text.count("barrier(shared)") == 1
    found, given = np.zeros(64, "float32"), np.arange(64, dtype="float32")
    build(schedule, args, "cuda -emulate")(given, found)
    np.testing.assert_array_equal(found, given.reshape(4, 16)[:, ::-1].reshape(-1))


def test_statements_for_another_target_are_refused():
    with pytest.raises(LoweringError, match="its statements name no threads of a GPU"):
        build(*reversed_in_blocks(named=False), "cuda -emulate")
    with pytest.raises(LoweringError, match=r"te.extern: B: .*\(blockIdx.x\).*is a CPU"):
        build(*reversed_in_blocks(), "llvm")


def test_an_extern_has_no_loops_to_schedule():
    a, d = running_sums(between=True)
    (c,) = d.op.input_tensors
    (b,) = c.op.input_tensors
    s = te.create_schedule(d.op)
    with pytest.raises(ScheduleError, match=r"compute_at: sums is a te.extern.*no loops"):
        s[c].compute_at(s[d], d.op.axis[0])
    s[b].compute_inline()
    with pytest.raises(LoweringError, match="sums reads all of B, which is computed in parts"):
        lower(s, [a, d])
    with pytest.raises(FlopError, match=r"sums is a te\.extern"):
        te.compute_flop(s)
    with pytest.raises(ExpressionError, match=r"sums is a te\.extern"):
        te.workload_key([a, d])
    assert te.compute_bytes([a, d]) == 0


def test_hashes_tell_statements_apart():
    def hashed(between):
        a, d = running_sums(between=between)
        return schedule_hash(te.create_schedule(d.op), [a, d])

    assert hashed(True) == hashed(True)
    assert hashed(True) != hashed(False)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (((4,), [3], None), "inputs must be tensors, got 3"),
        (((4,), [], lambda ins, outs: None), "expected dtype= for inputs of none"),
        (((4,), [], lambda ins, outs: 3, "E", "int32"), "expected a statement or a call, got 3"),
        (((4,), [], None, "E", ["int32", "int8"]), "2 dtypes for 1 outputs"),
    ],
)
def test_what_is_no_extern_is_refused(arguments, problem):
    with pytest.raises(ExpressionError, match=problem):
        te.extern(*arguments)


def test_inputs_stay_as_they_are():
    def statements(ins, outs):
        ib = ir_builder.create()
        ib.buffer_ptr(ins[0])[0] = 3.0
        return ib.get()

    a = te.placeholder((4,), name="A")
    with pytest.raises(ExpressionError, match="its statements store to the input A"):
        te.extern((4,), [a], statements)


def test_a_builder_refuses_what_is_no_statement():
    ib = ir_builder.create()
    for call, problem in (
        (lambda: ib.emit(3), "expected a statement or an expression, got 3"),
        (lambda: ib.for_range(0, 4, kind="fast").__enter__(), "kind must be one of serial"),
        (lambda: ib.else_scope().__enter__(), "expected an if_scope right before it"),
        (lambda: ib.scope_attr(3, "thread_extent", 4), "expected a thread axis such as"),
        (lambda: ib.allocate("int32", 4, scope="texture"), "a scope of local or shared"),
        (lambda: ib.buffer_ptr(3), "expected a buffer, got 3"),
    ):
        with pytest.raises(ExpressionError, match=problem):
            call()
    with ib.for_range(0, 4), pytest.raises(ExpressionError, match="a scope is still open"):
        ib.get()


def test_names_and_hints_hold_for_what_follows():
    ib = ir_builder.create()
    out = te.decl_buffer((8,), "int32", name="out")
    with ib.for_range(0, 8, name="i", for_type="unroll") as i:
        double = ib.let("double", i * 2)
        with ib.new_scope():
            ib.scope_attr(None, "pragma_auto_unroll_max_step", 4)
            ib.buffer_ptr(out)[i] = double + 1
    text = str(ib.get())
    assert "for i in 0..8:  # unrolled\n  let double = i * 2" in text
    assert "auto_unroll_max_step=4" in text


@pytest.mark.parametrize("kind", ["serial", "parallel", "unroll", "vectorize"])
def test_loops_of_any_kind_are_around_loops_as_long_as_their_variable_says(kind):
    a = te.placeholder((8,), "int32", "A")

    def triangle(ins, outs):
        ib = ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, name="k", kind=kind) as k:
            with ib.for_range(0, k, name="j") as j:
                y[j, k] = x[j]
            with ib.for_range(k, 8, name="j") as j:
                y[j, k] = -1
        return ib.get()

    b = te.extern((8, 8), [a], triangle, "B", "int32")
    given, found = np.arange(8, dtype="int32"), np.zeros((8, 8), "int32")
    build(te.create_schedule(b.op), [a, b], "llvm")(given, found)
    above = np.triu(np.ones((8, 8)), 1) > 0
    np.testing.assert_array_equal(found, np.where(above, given[:, None], -1))


def statements_at(place, extent=8):
    """Return statements that read and write an element for each turn of a loop."""

    def statements(ins, outs):
        ib = ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, extent, name="i") as i:
            place(ib, x, y, i)
        return ib.get()

    return statements


def store_next(ib, x, y, i):
    y[i + 1] = x[i]


def store_after_a_local_row(ib, x, y, i):
    row = ib.allocate("float32", (4,), name="row")
    row[i] = x[i]
    y[i] = row[0]


def store_under_a_condition(ib, x, y, i):
    with ib.if_scope(i < 7):
        y[i + 1] = te.if_then_else(i > 0, x[i - 1], 0.0)
    y[te.floormod(i + 1, 8)] = x[i]


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (store_next, r"te.extern\('B'\) writes element 8 of B, which has 8 \(index i \+ 1\)"),
        (store_after_a_local_row, r"writes element 7 of row, which has 4"),
        (lambda ib, x, y, i: ib.emit(y.buffer.vstore(i, x[i - 3])), "reads element -3 of A"),
    ],
)
def test_an_element_that_is_not_there_is_told(place, problem):
    a = te.placeholder((8,), name="A")
    with pytest.raises(ExpressionError, match=problem):
        te.extern((8,), [a], statements_at(place), "B")


def test_what_a_condition_may_leave_out_is_no_mistake():
    a = te.placeholder((8,), name="A")
    te.extern((8,), [a], statements_at(store_under_a_condition), "B")
    n = te.var("n")
    te.extern((8,), [a], statements_at(store_next, n), "B")
