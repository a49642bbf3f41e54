"""Modules that scripts for TVM import, in the forms that it took between 0.6 and 0.19."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import AutotuneError, TargetError
from autotune.tvm import relay, rpc, te, topi
from autotune.tvm.contrib.pickle_memoize import memoize
from autotune.tvm.contrib.utils import tempdir


def doubled(n=8):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    return te.create_schedule(b.op), a, b


def test_a_local_session_takes_and_loads_a_library():
    s, a, b = doubled()
    folder = tempdir()
    tvm.build(s, [a, b], "llvm", name="twice").export_library(folder.relpath("twice.tar"))
    remote = rpc.LocalSession()
    remote.upload(folder.relpath("twice.tar"))
    dev = remote.cpu()
    x = np.arange(8, dtype="float32")
    out = tvm.nd.empty((8,), device=dev)
    remote.load_module("twice.tar")(tvm.nd.array(x, dev), out)
    np.testing.assert_array_equal(out.numpy(), 2 * x)
    assert bytes(remote.download("twice.tar")) == Path(folder.relpath("twice.tar")).read_bytes()


def test_a_local_session_says_which_files_it_has():
    remote = rpc.LocalSession()
    with pytest.raises(AutotuneError, match=r"path must be one of \[\], got 'twice.tar'"):
        remote.load_module("twice.tar")
    with pytest.raises(AutotuneError, match=r"upload: cannot copy nowhere\.tar: No such file"):
        remote.upload("nowhere.tar")


def test_a_session_of_another_host_says_what_to_use():
    with pytest.raises(AttributeError, match=r"rpc.connect_tracker is not here: .*LocalRunner"):
        rpc.connect_tracker("localhost", 9190)


def test_memoize_computes_once():
    calls = []

    @memoize("tests.sums")
    def sums(n):
        calls.append(n)
        return n + 1

    assert [sums(1), sums(1), sums(2)] == [2, 2, 3]
    assert calls == [1, 2]


def test_types_are_inferred_by_a_pass_that_changes_nothing():
    x = relay.var("x", shape=(1, 3, 8, 8))
    mod = tvm.IRModule.from_expr(relay.nn.relu(x))
    assert relay.transform.InferType()(mod) is mod
    assert mod["main"].params[0].checked_type.concrete_shape == (1, 3, 8, 8)


def test_the_loops_of_a_lowered_function_are_its_script():
    s, a, b = doubled()
    lowered = tvm.lower(s, [a, b])
    assert lowered.script() == lowered.astext(show_meta_data=True) == str(lowered)


def test_a_generic_function_has_bodies_for_targets():
    @tvm.target.generic_func
    def schedule(outs):
        return f"default {outs}"

    @schedule.register(["cuda", "gpu"])
    def schedule_cuda(outs):
        return f"cuda {outs}"

    assert schedule(1) == "default 1"
    with tvm.target.create("cuda -arch=sm_90"):
        assert schedule(1) == "cuda 1"
    with tvm.target.create("llvm") as target:
        assert schedule(1) == "default 1"
        assert target.target_name == "llvm"
    with pytest.raises(TargetError, match="'gpu' has a function already"):
        schedule.register("gpu", schedule_cuda, override=False)


def test_pools_take_the_arguments_of_07():
    data = te.placeholder((1, 4, 9, 9), name="data")
    pooled = topi.nn.pool(data, [3, 3], [2, 2], [1, 1, 1, 1], "avg", False, "NCHW", False)
    assert tuple(pooled.shape) == (1, 4, 5, 5)


def test_a_shape_is_simplified_by_the_pass_of_06():
    assert tvm.ir_pass.Simplify(te.placeholder((3, 4)).shape[1]).value == 4


def test_a_task_takes_the_template_key_of_06():
    @tvm.autotvm.template("old_modules.keyed")
    def keyed(n):
        s, a, b = doubled(n)
        tvm.autotvm.get_config().define_knob("k", [1, 2])
        return s, [a, b]

    assert (
        len(tvm.autotvm.task.create(keyed, (8,), "llvm", template_key="direct").config_space) == 2
    )


OPERATORS = """
import topi
from topi.nn.pad import pad
from tvm.topi.nn.dilate import dilate
from tvm.topi.nn.conv2d import conv2d_nchw
from topi.nn.pooling import pool
import tvm.topi.nn.softmax
from tvm.topi import nn
assert topi.nn.pad is pad and nn.dilate is dilate and nn.conv2d_nchw is conv2d_nchw
assert callable(nn.softmax) and nn.pool is pool
"""


def test_a_module_of_operators_leaves_the_operator_of_its_name(tmp_path):
    script = tmp_path / "operators.py"
    script.write_text(OPERATORS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-m", "autotune.tvm", script], check=True, env=environment)
    plain = OPERATORS.replace("import topi\n", "from autotune.tvm import topi\n")
    plain = plain.replace("from topi", "from autotune.tvm.topi").replace(" tvm.", " autotune.tvm.")
    script.write_text(plain)
    subprocess.run([sys.executable, script], check=True, env=environment)


@pytest.mark.parametrize(
    ("padding", "sides"),
    [
        (2, (2, 2, 2, 2, 2, 2)),
        ((1, 2, 3), (1, 2, 3, 1, 2, 3)),
        ([1, 2, 3, 4, 5, 6], (1, 2, 3, 4, 5, 6)),
        ("VALID", (0, 0, 0, 0, 0, 0)),
        ("SAME", (1, 1, 2, 1, 0, 2)),
    ],
)
def test_a_padding_of_volumes_has_six_sides(padding, sides):
    assert topi.nn.get_pad_tuple3d(padding, (3, 2, 5)) == sides


def test_a_callback_that_compiles_cuda_is_taken_and_not_called():
    from autotune.tvm.contrib import nvcc

    @tvm.register_func
    def tvm_callback_cuda_compile(code):
        return nvcc.compile_cuda(code, target="ptx")

    @tvm.register_func("tvm_callback_cuda_compile", override=True)
    def other(code, target):
        raise AssertionError

    assert tvm._ffi.register_func is tvm.register_func
    assert callable(other)
    with pytest.raises(AttributeError, match=r"tvm\.build compiles"):
        tvm_callback_cuda_compile("")


def test_a_registered_function_is_found_by_its_name_and_others_are_none_or_explained():
    @tvm.register_func("compat.twice")
    def twice(x):
        return 2 * x

    assert tvm.get_global_func("compat.twice") is twice
    assert tvm._ffi.get_global_func("tvm.contrib.cublas.matmul", allow_missing=True) is None
    with pytest.raises(
        AutotuneError, match=r"find global function 'compat\.twise'.*'compat\.twice'"
    ):
        tvm.get_global_func("compat.twise")
    with pytest.raises(AutotuneError, match="is registered already; pass override"):
        tvm.register_func("compat.twice", twice)
    tvm.register_func("compat.twice", abs, override=True)
    assert tvm.get_global_func("compat.twice") is abs


def test_a_postprocessor_gets_the_text_of_cuda_kernels_and_returns_what_is_compiled(monkeypatch):
    monkeypatch.setattr("autotune.runtime.host.registered._registered", {})
    s, a, b = doubled()
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    seen = []

    def of_ones(target=None):
        result = tvm.nd.array(np.zeros(8, "float32"))
        tvm.build(s, [a, b], target)(tvm.nd.array(np.ones(8, "float32")), result)
        return result.numpy()[0]

    @tvm.register_func
    def tvm_callback_cuda_postproc(code):
        return code.replace("2.0f", "7.0f")

    assert of_ones("cuda -emulate") == 7

    @tvm.register_func("tvm_callback_cuda_postproc", override=True)
    def as_of_later_versions(code, target):
        seen.append(target)
        return code

    with tvm.target.Target("cuda -emulate") as target:
        assert of_ones() == 2
    assert seen == [target]
    tvm.register_func("tvm_callback_cuda_postproc", len, override=True)
    with pytest.raises(AutotuneError, match="len is given the text of the kernel and returns the"):
        of_ones("cuda -emulate")
