"""Functions of numbers by the names of LLVM and C, and rules of a script for what they are."""

import numpy as np
import pytest

from autotune import tvm
from autotune.driver import kernel_hash, kernel_of
from autotune.target import Target
from autotune.te import intrin_rules
from autotune.tvm import te, tir, topi
from autotune.tvm.ir import register_intrin_lowering, register_op_attr


@pytest.fixture
def rules(monkeypatch):
    """Forget the rules of a test."""
    monkeypatch.setattr(intrin_rules, "_RULES", {})


def computed(function, *values, target="llvm"):
    """Return what a function of numbers gives for each."""
    given = [np.array(each, "float32") for each in values]
    tensors = [te.placeholder(each.shape, name=f"x{i}") for i, each in enumerate(given)]
    y = te.compute(tensors[0].shape, lambda i: function(*[each[i] for each in tensors]), "y")
    s = te.create_schedule(y.op)
    if target != "llvm":
        s[y].bind(y.op.axis[0], te.thread_axis("threadIdx.x"))
    found = np.zeros(len(given[0]), y.dtype)
    tvm.build(s, [*tensors, y], target)(*given, found)
    return found


@pytest.mark.parametrize("signature", [(), (tir.const(3, "uint32"),)])
def test_intrinsics_of_llvm_are_functions_of_te(signature):
    found = computed(
        lambda *x: tir.call_llvm_pure_intrin("float32", "llvm.fma.f32", *signature, *x),
        [1, 2], [3, 4], [5, 6],
    )  # fmt: skip
    np.testing.assert_array_equal(found, [8, 14])
    found = computed(
        lambda x, y: tir.call_llvm_intrin("float32", "llvm.maxnum.f32", *signature[:1], x, y),
        [1, 5], [3, 4],
    )  # fmt: skip
    np.testing.assert_array_equal(found, [3, 5])


@pytest.mark.parametrize("target", ["llvm", "cuda -emulate"])
def test_functions_of_c_need_no_text(target):
    x = [0.5, 8.0]
    for name, wanted in (("cbrtf", np.cbrt), ("expm1f", np.expm1)):
        found = computed(lambda v, n=name: tir.call_pure_extern("float32", n, v), x, target=target)
        np.testing.assert_allclose(found, wanted(np.float32(x)), rtol=1e-6)
    with pytest.raises(tvm.TVMError, match=r"calling 'cbrtg': te has no such function"):
        computed(lambda v: tir.call_pure_extern("float32", "cbrtg", v), x, target=target)


def test_a_rule_replaces_a_function_for_its_target(rules):
    seen = []

    def rule(op):
        assert isinstance(op, tir.Call)
        seen.append((op.op.name, op.dtype))
        return tir.call_pure_extern("float32", "sinf", op.args[0])

    register_intrin_lowering("tir.cos", target="llvm", f=rule, level=99)
    register_intrin_lowering("tir.cos", target="llvm", f=lambda op: op.args[0])
    np.testing.assert_allclose(computed(te.cos, [1.0]), np.sin([1.0]), rtol=1e-6)
    assert seen == [("tir.cos", "float32")]
    np.testing.assert_allclose(
        computed(te.cos, [1.0], target="cuda -emulate"), np.cos([1.0]), 1e-6
    )


def test_a_function_that_rules_alone_define(rules):
    with pytest.raises(tvm.TVMError, match=r"calling 'tir.mylog': te has no such function"):
        tir.call_intrin("float32", "tir.mylog", 1.0)
    register_op_attr("tir.mylog", "TCallEffectKind", tir.CallEffectKind.Pure)

    def mylog(x):
        return tir.call_intrin("float32", "tir.mylog", x)

    with pytest.raises(tvm.TVMError, match="no C function for mylog of float32"):
        computed(mylog, [2.0])
    tvm.target.register_intrin_rule("default", "mylog", lambda op: te.log(op.args[0]) * 2)
    np.testing.assert_allclose(computed(mylog, [2.0]), [2 * np.log(2)], rtol=1e-6)


def test_a_rule_may_keep_a_call_or_use_the_function_itself(rules):
    register_intrin_lowering("tir.exp", "llvm", lambda op: op)
    np.testing.assert_allclose(computed(te.exp, [1.0]), np.exp([1.0]), rtol=1e-6)
    register_intrin_lowering("tir.exp", "llvm", lambda op: te.exp(op.args[0]) + 1.0)
    np.testing.assert_allclose(computed(te.exp, [1.0]), np.exp([1.0]) + 1, rtol=1e-6)


def test_kernels_of_other_rules_have_other_hashes(rules):
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: te.exp(x[i]), "y")

    def hash_for(target):
        return kernel_hash((te.create_schedule(y.op), [x, y]), Target(target))

    before = hash_for("llvm")
    register_intrin_lowering("tir.log", "llvm", lambda op: te.exp(op.args[0]))
    assert hash_for("llvm") == before  # nothing calls it
    register_intrin_lowering("tir.exp", "llvm", lambda op: te.exp(op.args[0]) + 1.0)
    first = hash_for("llvm")
    register_intrin_lowering("tir.exp", "llvm", lambda op: te.exp(op.args[0]) + 2.0)
    assert len({before, first, hash_for("llvm")}) == 3
    assert hash_for("cuda") == before


def test_a_rule_keeps_the_type(rules):
    register_intrin_lowering("tir.exp", "llvm", lambda op: op.args[0].astype("int32"))
    with pytest.raises(tvm.TVMError, match=r"the rule of 'exp' returned .* expected float32"):
        computed(te.exp, [1.0])


def test_functions_of_cuda_alone_are_refused_on_a_cpu():
    def normal(v):
        return tir.call_pure_extern("float32", "normcdff", v)

    with pytest.raises(tvm.TVMError, match=r"calling 'normcdff': te has no such function"):
        computed(normal, [0.0])
    assert "normcdff(" in source_of(normal)


def source_of(function):
    """Return the CUDA text of a function of numbers."""
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: function(x[i]), "y")
    s = te.create_schedule(y.op)
    s[y].bind(y.op.axis[0], te.thread_axis("threadIdx.x"))
    return kernel_of((s, [x, y]), Target("cuda")).source


def test_blocks_do_not_wait_for_each_other():
    with pytest.raises(tvm.TVMError, match="blocks of a kernel do not wait for each other"):
        tir.call_intrin("int32", "tir.tvm_storage_sync", "global")


def test_barriers_that_scripts_write_are_those_that_are_put_in():
    a = te.placeholder((8,), name="A")

    def statements(ins, outs):
        ib = tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        i = te.thread_axis("threadIdx.x")
        ib.scope_attr(i, "thread_extent", 8)
        row = ib.allocate("float32", (8,), name="row", scope="shared")
        row[i] = x[i]
        ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", "shared"))
        y[i] = row[7 - i]
        return ib.get()

    b = te.extern((8,), [a], statements, "B")
    text = tvm.build(te.create_schedule(b.op), [a, b], "cuda -emulate").get_source()
    assert text.count("__syncthreads()") == 1


def test_lanes_of_a_warp_exchange_values():
    a = te.placeholder((32,), name="A")

    def statements(ins, outs):
        ib = tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        i = te.thread_axis("threadIdx.x")
        ib.scope_attr(i, "thread_extent", 32)
        mask = tir.call_intrin("uint32", "tir.tvm_warp_activemask")
        y[i] = tir.call_intrin("float32", "tir.tvm_warp_shuffle", mask, x[i], 31 - i, 32, 32)
        return ib.get()

    b = te.extern((32,), [a], statements, "B")
    found, given = np.zeros(32, "float32"), np.arange(32, dtype="float32")
    tvm.build(te.create_schedule(b.op), [a, b], "cuda -emulate")(given, found)
    np.testing.assert_array_equal(found, given[::-1])


def test_counts_are_added_at_an_address(rules):
    register = tvm.target.intrin.register_intrin_rule
    register("cuda", "atomic_add", lambda op: tir.call_extern(op.dtype, "atomicAdd", *op.args))
    a = te.placeholder((100,), name="A")

    def statements(ins, outs):
        ib = tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        i = te.thread_axis("threadIdx.x")
        ib.scope_attr(i, "thread_extent", 100)
        with ib.if_scope(x[i] > 0.5):
            at = tir.call_intrin("handle", "tir.address_of", y[0])
            ib.emit(tir.call_intrin("int32", "tir.atomic_add", at, topi.cast(1, "int32")))
        return ib.get()

    b = te.extern((1,), [a], statements, "B", "int32")
    found, given = np.zeros(1, "int32"), np.linspace(0, 1, 100, dtype="float32")
    tvm.build(te.create_schedule(b.op), [a, b], "cuda -emulate")(given, found)
    assert found[0] == (given > 0.5).sum()
