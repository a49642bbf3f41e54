"""Tensor intrinsics as scripts of TVM declare and use them."""

from pathlib import Path

import numpy as np
import pytest
from autotune.tvm.topi.cuda.tensor_intrin import dp4a

from autotune import tvm
from autotune.errors import CompileError, ExpressionError, LoweringError
from autotune.tvm import autotvm, te
from autotune.tvm.contrib import clang, utils

GEMV = """
  extern "C" int gemv_update(float *cc, float *aa, float *bb, int m, int l, int stride) {
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < l; ++j) cc[i] += aa[j] * bb[i * stride + j];
    return 0;
  }
  extern "C" {
    int gemv_reset(float *cc, int m) {
      for (int i = 0; i < m; ++i) { cc[i] = 0.0; }
      return 0;
    }
  }
"""


def micro_kernel(m, k):
    """Return a matrix by a vector, as a micro kernel in C."""
    a, b = te.placeholder((k,), name="a"), te.placeholder((m, k), name="b")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((m,), lambda i: te.sum(a[r] * b[i, r], axis=r), name="c")
    Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    Bb = tvm.tir.decl_buffer(
        b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1]
    )
    Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def statements(ins, outs):
        aa, bb = ins
        (cc,) = outs

        def call(name, *args):
            ib = tvm.tir.ir_builder.create()
            ib.emit(tvm.tir.call_extern("int32", name, *args))
            return ib.get()

        update = call(
            "gemv_update", cc.access_ptr("w"), aa.access_ptr("r"), bb.access_ptr("r"), m, k,
            bb.strides[0],
        )  # fmt: skip
        return update, call("gemv_reset", cc.access_ptr("w"), m), update

    return te.decl_tensor_intrin(c.op, statements, binds={a: Ab, b: Bb, c: Cb})


@autotvm.template("tests/tensorized")
def tensorized(n):
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", C.op.axis[1], num_outputs=2, filter=lambda e: e.size[1] > 1)
    cfg.define_split("tile_k", k, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, C.op.axis[1])
    ko, ki = cfg["tile_k"].apply(s, C, k)
    s[C].reorder(C.op.axis[0], yo, ko, yi, ki)
    s[C].tensorize(yi, micro_kernel(cfg["tile_y"].size[1], cfg["tile_k"].size[1]))
    s[C].pragma(C.op.axis[0], "import_llvm", clang.create_llvm(GEMV))
    return s, [A, B, C]


def test_a_template_with_a_micro_kernel_is_tuned_and_replayed(tmp_path):
    log = str(tmp_path / "tensorized.log")
    task = autotvm.task.create("tests/tensorized", args=(16,), target="llvm")
    option = autotvm.measure_option(
        autotvm.LocalBuilder(), autotvm.LocalRunner(number=1, repeat=1)
    )
    autotvm.tuner.RandomTuner(task).tune(
        n_trial=3, measure_option=option, callbacks=[autotvm.callback.log_to_file(log)]
    )
    assert {result.error_no for _, result in autotvm.record.load_from_file(log)} == {0}
    with autotvm.apply_history_best(log), tvm.target.Target("llvm"):
        function = tvm.build(*tensorized(16))
    a, b = (np.random.default_rng(i).random((16, 16), "float32") for i in range(2))
    found = np.full((16, 16), 7, "float32")
    function(a, b, found)
    np.testing.assert_allclose(found, a @ b.T, rtol=1e-5)


def dp4a_product(dtype, m=8, n=8, k=32):
    """Return the schedule of a product A * B^T of bytes, and the dtype of its sums."""
    total = "int32" if dtype == "int8" else "uint32"
    A, B = te.placeholder((m, k), dtype, "A"), te.placeholder((n, k), dtype, "B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute(
        (m, n), lambda i, j: te.sum(A[i, r].astype(total) * B[j, r].astype(total), axis=r)
    )
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "local")
    i, j = s[C].op.axis
    s[C].bind(i, te.thread_axis("blockIdx.x"))
    s[C].bind(j, te.thread_axis("threadIdx.x"))
    s[CC].compute_at(s[C], j)
    AL = s.cache_read(A, "local", [CC])
    ko, ki = s[CC].split(CC.op.reduce_axis[0], factor=4)
    s[AL].compute_at(s[CC], ko)
    s[CC].tensorize(ki, dp4a("local", "global", "local", (dtype, dtype)))
    return s, [A, B, C], total


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_dp4a_is_that_of_numpy(dtype):
    s, args, total = dp4a_product(dtype)
    a, b = (np.random.default_rng(i).integers(0, 99, (8, 32)).astype(dtype) for i in range(2))
    found = np.zeros((8, 8), total)
    function = tvm.build(s, args, "cuda -emulate")
    function(a, b, found)
    np.testing.assert_array_equal(found, a.astype(total) @ b.T.astype(total))
    assert "alignas(16) " in function.get_source()


def test_dp4a_asks_for_memory_and_dtypes():
    with pytest.raises(ExpressionError, match="expected dtypes of int8 or uint8 twice"):
        dp4a(dtypes=("int8", "uint8"))
    A, B = (te.placeholder((4, 4), "int8", name) for name in "AB")
    k = te.reduce_axis((0, 4), name="k")
    C = te.compute(
        (4, 4), lambda i, j: te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k)
    )
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    s[C].tensorize(k, dp4a("shared", "global", "global"))
    with pytest.raises(LoweringError, match="buffer x: expected memory of scope shared, A is in"):
        tvm.build(s, [A, B, C], "cuda -emulate")


def test_text_in_c_is_kept_and_written(tmp_path):
    folder = utils.tempdir()
    text = clang.create_llvm(GEMV, output=folder.relpath("gemv.ll"))
    assert 'extern "C"' not in text
    assert Path(folder.relpath("gemv.ll")).read_text() == text
    source = tmp_path / "twice.c"
    source.write_text("int twice(int x) { return 2 * x; }\n")
    assert clang.create_llvm([str(source)]) == source.read_text()
    with pytest.raises(CompileError, match="cannot read"):
        clang.create_llvm(str(tmp_path / "gone.c"))
    with pytest.raises(CompileError, match='a brace after extern "C" is not closed'):
        clang.create_llvm('extern "C" { int f();\n')
