"""Loops that an intrinsic replaces compute what they did; others are refused."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune import build, lower, te
from autotune.driver import kernel_of
from autotune.driver.kernel_hash import schedule_hash
from autotune.errors import ExpressionError, LoweringError, ScheduleError
from autotune.te import ir_builder
from autotune.te.extern_call import extern_call
from autotune.workload import ScheduleSteps
from tests.golden.cases.tensorized import GEMV, dp4a, gemv, int8_product, tensorized


def check_product(schedule, args, target="llvm"):
    a, b, c = args
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-9, 9, [*map(int, t.shape)]).astype(t.dtype) for t in (a, b))
    found = np.full([*map(int, c.shape)], 99, c.dtype)
    build(schedule, args, target)(left, right, found)
    np.testing.assert_array_equal(found, left.astype(c.dtype) @ right.T.astype(c.dtype))


@settings(max_examples=6, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 2, 5]),
    st.sampled_from([1, 3, 4]), st.booleans(),
)  # fmt: skip
def test_any_product_by_vectors_is_that_of_numpy(m, jo, ko, rows, steps, reset):
    intrin = gemv(rows, steps) if reset else whole_and_part(rows, steps)
    check_product(*tensorized(m, jo * rows, ko * steps, rows, steps, intrin))


def whole_and_part(rows, steps):
    """Return an intrinsic that sets in its first statement what the other one adds to."""
    a, b = te.placeholder((steps,), name="a"), te.placeholder((rows, steps), name="b")
    k = te.reduce_axis((0, steps), "k")
    c = te.compute((rows,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")

    def statements(ins, outs):
        (vector, matrix), (sums,) = ins, outs

        def loops(first):
            ib = ir_builder.create()
            x, y, z = map(ib.buffer_ptr, (vector, matrix, sums))
            with ib.for_range(0, rows, name="i") as i:
                if first:
                    z[i] = 0.0
                with ib.for_range(0, steps, name="j") as j:
                    z[i] = z[i] + x[j] * y[i, j]
            return ib.get()

        return loops(True), None, loops(False)

    buffers = {b: te.decl_buffer(b.shape, name="b", strides=[te.var("s"), 1])}
    return te.decl_tensor_intrin(c.op, statements, "loops", buffers)


def test_without_first_values_the_first_part_is_the_whole_statement():
    schedule, args = tensorized(intrin=whole_and_part(16, 16))
    assert "if k.outer == 0:" in str(lower(schedule, args))
    check_product(schedule, args)


@pytest.mark.parametrize("virtual", [False, True])
def test_products_of_8_bit_integers_are_those_of_numpy(virtual):
    check_product(*int8_product(virtual=virtual), "cuda -emulate")


def test_what_other_threads_read_behind_addresses_is_awaited():
    text = str(lower(*int8_product()))
    assert text.count("barrier(shared)") == 2


def elementwise(intrin, n=64, factor=16, value=lambda x: x + 1.0, dtype="float32"):
    a = te.placeholder((n,), dtype, "A")
    b = te.compute((n,), lambda i: value(a[i]), "B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=factor)
    s[b].tensorize(inner, intrin)
    return s, [a, b], outer


def added_one(n=16, value=lambda x: x + 1.0, **declared):
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: value(a[i]), "b")
    buffers = {a: te.decl_buffer((n,), name="a", **declared)}

    def statement(ins, outs):
        return extern_call("int32", "add_one", outs[0].access_ptr("w"), ins[0].access_ptr("r"))

    return te.decl_tensor_intrin(b.op, statement, "add_one", buffers)


@pytest.mark.parametrize(
    ("intrin", "loops", "problem"),
    [
        (
            added_one(value=lambda x: x + 2.0), {},
            r"something else.*\n.*loops: .*store of A\[.*\] \+ 1.0f\n.*store of a\[i\] \+ 2.0f",
        ),
        (added_one(8), {}, r"dimensions of \[8\], the loops run over \[16\]; split"),
        (added_one(), {"n": 60}, r"cut off where .* does not hold; expected extents"),
        (added_one(), {"dtype": "float64", "value": lambda x: x + 1.0}, "something else"),
        (added_one(offset_factor=32), {}, r"buffer a: .*multiple of 32, got i.outer \* 16"),
        (added_one(strides=[2]), {}, r"buffer a: expected strides of \[2\], .* has \[1\]"),
    ],
    ids=["value", "extent", "tail", "dtype", "offset", "strides"],
)  # fmt: skip
def test_loops_that_the_intrinsic_does_not_compute_are_refused(intrin, loops, problem):
    schedule, args, _ = elementwise(intrin, **loops)
    with pytest.raises(LoweringError, match=f"(?s)tensorize: B by add_one.*{problem}"):
        lower(schedule, args)


def test_a_region_that_is_not_dense_needs_strides():
    schedule, args = tensorized(intrin=gemv(16, 16, strides=False))
    with pytest.raises(LoweringError, match=r"buffer b: it is declared without strides"):
        lower(schedule, args)


def test_parts_of_a_sum_need_a_statement_that_adds():
    intrin = gemv(16, 16)
    alone = te.decl_tensor_intrin(
        intrin.op, lambda ins, outs: intrin.body, "whole", intrin.buffers
    )
    with pytest.raises(LoweringError, match=r"reduces over 'k.outer', outside of what whole"):
        lower(*tensorized(intrin=alone))


def test_what_is_computed_inside_the_loops_is_refused():
    schedule, (a, b, c) = tensorized()
    packed = schedule.cache_read(b, "global", [c])
    schedule[packed].compute_at(schedule[c], schedule[c].leaf_iter_vars[3])
    with pytest.raises(LoweringError, match=r"B.global is computed at 'j.inner'.*outside"):
        lower(schedule, [a, b, c])


def test_an_axis_is_tensorized_last_and_by_an_intrinsic():
    schedule, args, _ = elementwise(added_one())
    stage = schedule[args[1]]
    stage.split(stage.leaf_iter_vars[-1], factor=4)
    with pytest.raises(LoweringError, match=r"'i.inner' of B was split or fused since"):
        lower(schedule, args)
    with pytest.raises(ScheduleError, match=r"expected what te.decl_tensor_intrin returns, got 3"):
        stage.tensorize(stage.leaf_iter_vars[-1], 3)


def test_a_function_that_nothing_defines_is_refused():
    schedule, args, _ = elementwise(added_one())
    with pytest.raises(LoweringError, match=r"calling 'add_one'.*import_c"):
        kernel_of((schedule, args), "llvm")


def test_an_intrinsic_may_bring_the_function_that_it_calls():
    def statement(ins, outs):
        ib = ir_builder.create()
        ib.scope_attr(None, "pragma_import_c", text)
        ib.emit(extern_call("int32", "add_one", outs[0].access_ptr("w"), ins[0].access_ptr("r")))
        return ib.get()

    text = (
        "int add_one(float *y, float *x) {"
        " for (int i = 0; i < 16; i++) y[i] = x[i] + 1;"
        " return 0; }"
    )
    intrin = te.decl_tensor_intrin(added_one().op, statement, "add_one")
    schedule, args, _ = elementwise(intrin)
    given = np.arange(64, dtype="float32")
    found = np.zeros_like(given)
    build(schedule, args, "llvm")(given, found)
    np.testing.assert_array_equal(found, given + 1)


def test_intrinsics_are_declared_of_computes_and_return_statements():
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] * 2, "b")
    c = te.compute((4,), lambda i: b[i] * 2, "c")
    for op, body, problem in (
        (a.op, None, "expected the operation of a te.compute"),
        (c.op, None, "c reads b, which is computed"),
        (b.op, lambda ins, outs: 3, "expected a statement.*got 3"),
    ):
        with pytest.raises(ScheduleError, match=problem):
            te.decl_tensor_intrin(op, body)


def test_buffers_say_what_they_are_read_as():
    buffer = te.decl_buffer((4, 4), "int8", name="B")
    assert str(buffer.vload((1, 2))) == "B[6]"
    with pytest.raises(ExpressionError, match=r"a word of 32 bits such as int8x4, got int8x8"):
        buffer.vload(0, "int8x8")
    with pytest.raises(ExpressionError, match=r"expected 'r', 'w' or 'rw', got 'x'"):
        buffer.access_ptr("x")
    with pytest.raises(ExpressionError, match="1 strides for 2 dimensions"):
        te.decl_buffer((4, 4), strides=[1])
    with pytest.raises(ExpressionError, match=r"elements of int8, got a value of int32"):
        buffer.vstore(0, te.var("x"))


def test_a_word_of_elements_is_aligned():
    a, b, _ = int8_product()[1]
    r = te.reduce_axis((0, 60), "r")
    c = te.compute(
        (32, 64),
        lambda i, j: te.sum(a[i, r + 1].astype("int32") * b[j, r].astype("int32"), axis=r),
    )
    s = te.create_schedule(c.op)
    _, inner = s[c].split(r, factor=4)
    s[c].tensorize(inner, dp4a())
    with pytest.raises(LoweringError, match=r"multiple of 4, got i"):
        lower(s, [a, b, c])


def test_steps_name_intrinsics_that_a_replay_finds():
    schedule, args = tensorized()
    again = te.replay(schedule.outputs, schedule.steps)
    assert str(lower(again, args)) == str(lower(schedule, args))
    (step,) = (each for each in schedule.steps if each.tag == "tensorize")
    assert te.step_from_json(step.to_json()) == step
    unknown = te.step_from_json(["tensorize", "2", 0, "gone:1234"])
    with pytest.raises(ScheduleError, match="gone:1234 is not declared in this process"):
        te.take_step(unknown, te.create_schedule(args[2].op))


def test_hashes_tell_intrinsics_and_texts_apart():
    def hashed(text=GEMV, **options):
        schedule, args = tensorized(intrin=gemv(16, 16, **options))
        schedule[args[2]].pragma(args[2].op.axis[0], "import_c", text)
        return schedule_hash(schedule, args)

    assert hashed() == hashed()
    assert len({hashed(), hashed(reset=False), hashed(strides=False), hashed(GEMV + " ")}) == 4


def test_intrinsics_differ_by_what_their_calls_do_behind_addresses():
    def key(dtype="int32", access="w", extent=None):
        intrin = added_one()

        def statement(ins, outs):
            return extern_call(dtype, "f", outs[0].access_ptr(access, extent=extent))

        return te.decl_tensor_intrin(intrin.op, statement, "f").key

    assert key() == key()
    assert len({key(), key("float32"), key(access="rw"), key(extent=1)}) == 4


def test_text_is_imported_once_and_is_no_loop():
    schedule, args = tensorized()
    text = kernel_of((schedule, args), "llvm").source
    assert text.count("void gemv_update(") == 1
    assert not re.search("import_c", str(lower(schedule, args)))
    schedule[args[2]].pragma(args[2].op.axis[0], "import_c", 3)
    with pytest.raises(LoweringError, match="expected text of functions in C"):
        lower(schedule, args)


def test_a_log_brings_no_text_of_functions():
    schedule, _ = tensorized()
    with pytest.raises(ScheduleError, match="pragma import_c: text of functions is taken from a"):
        ScheduleSteps.from_json(ScheduleSteps(tuple(schedule.steps)).to_json())
