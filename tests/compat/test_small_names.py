"""Names of TVM that scripts use in passing, and what is said of those that are not here."""

import importlib

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import GraphError
from autotune.tvm import relay, te, tir, topi
from autotune.tvm.contrib import cc
from autotune.tvm.contrib.debugger import debug_executor
from tests.scripts import run_python


def test_functions_stand_for_operators_of_expressions():
    a = te.placeholder((8,), "int32", name="A")
    x = te.placeholder((8,), name="X")

    def bits(i):
        both = tir.bitwise_and(a[i], 6) + tir.bitwise_or(a[i], 1) + tir.bitwise_xor(a[i], 3)
        moved = tir.shift_left(a[i], 2) - tir.shift_right(a[i], 1) + tir.bitwise_not(a[i])
        return both + moved

    b = te.compute((8,), bits, name="B")
    y = te.compute(
        (8,),
        lambda i: tir.if_then_else(
            tir.likely(i < 7), tir.fma(x[i], 2, 1), tir.infinity("float32")
        ),
        name="Y",
    )
    numbers, floats = np.arange(8, dtype="int32"), np.arange(8, dtype="float32")
    found, real = np.zeros_like(numbers), np.zeros_like(floats)
    tvm.build(te.create_schedule(b.op), [a, b], "llvm")(numbers, found)
    tvm.build(te.create_schedule(y.op), [x, y], "llvm")(floats, real)
    expected = (numbers & 6) + (numbers | 1) + (numbers ^ 3)
    assert (found == expected + (numbers << 2) - (numbers >> 1) + ~numbers).all()
    assert real.tolist() == [*(2 * floats[:7] + 1), np.inf]


def test_texts_and_lists_are_those_of_python():
    assert tvm.runtime.String("conv2d") == "conv2d"
    tensor = te.placeholder((2, 3))
    assert isinstance(tensor.shape, tvm.ir.Array)
    assert tvm.ir.container.Map is dict


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("tir.Load", "SourceKernel"),
        ("te.extern_primfunc", "SourceKernel"),
        ("contrib.peak", "no library of a GPU is called"),
        ("relay.TupleWrapper", "networks are rewritten by relay.build"),
        ("relay.testing.nat", "networks are those of relay.testing"),
        ("target.list_tags", "the targets are"),
        ("topi.utils.is_target", "SourceKernel"),
        ("auto_scheduler.task_scheduler.derive_similarity_tag", "docs/migrating.md"),
        ("autotvm.measure.measure_methods.no_such", "docs/migrating.md"),
        ("hexagon", "docs/migrating.md"),
        ("topi.nn.conv2d.conv2d_of_another_kind", "SourceKernel"),
        ("topi.nn.pooling.no_such", "SourceKernel"),
    ],
)
def test_any_other_name_says_what_to_use_or_where_that_is_listed(name, advice):
    module, _, attribute = f"autotune.tvm.{name}".rpartition(".")
    place = importlib.import_module(module)
    assert not hasattr(place, attribute)
    with pytest.raises(AttributeError, match=f"has no attribute '{attribute}': .*{advice}"):
        getattr(place, attribute)
    with pytest.raises(ImportError, match=f"{name} is not here: .*{advice}"):
        exec(f"from {module} import {attribute}")


def test_who_asks_whether_a_package_beside_tvm_is_there_is_told_no(tmp_path):
    (tmp_path / "script.py").write_text(
        "from importlib.util import find_spec\n"
        "print(find_spec('vta'), find_spec('nnvm'), find_spec('topi').name)\n"
        "import vta\nimport tvm\nprint(find_spec('nnvm'), type(vta).__name__)\n"
    )
    said = run_python("-m", "autotune.tvm", tmp_path / "script.py").stdout
    assert said == "None None topi\nNone Absent\n"


def test_a_debug_executor_returns_the_times_of_kernels():
    module, params = relay.testing.mlp.get_workload(1, 4, (1, 4, 4))
    library = relay.build(module, "llvm", params=params)
    found = debug_executor.GraphModuleDebug(library["default"](tvm.cpu()))
    data = np.zeros((1, 1, 4, 4), "float32")
    assert "dense" in str(found.profile(data=data))
    with pytest.raises(GraphError, match="collectors must be None"):
        found.profile(collectors=[1], data=data)


def test_a_test_takes_what_suits_its_target():
    ways = {"generic": "any", ("gpu", "rocm"): "threads"}
    assert topi.testing.dispatch("cuda", ways) == "threads"
    assert topi.testing.dispatch("llvm", ways) == "any"
    with pytest.raises(GraphError, match=r"entry for one of llvm, .*, got \('gpu'"):
        topi.testing.dispatch("llvm", {("gpu",): 1})


def test_the_compiler_and_the_libraries_of_a_target_are_known(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("CC", "gcc")
    assert cc.get_cc().endswith("gcc")
    assert tvm.target.Target("cuda -libs=cudnn,cublas").libs == ("cudnn", "cublas")
    assert tvm.target.Target("llvm").libs == ()


# A file of tests as those of TVM are.
TESTS = """
import tvm.testing

rows = tvm.testing.parameter(2, 3, ids=["two", "three"])

@tvm.testing.fixture
def twice(rows):
    return 2 * rows

@tvm.testing.fixture(cache_return_value=True)
def four():
    return 4

def test_rows(rows, twice, four):
    assert twice == rows + rows and four == 4

if __name__ == "__main__":
    tvm.testing.main()
"""


def test_a_script_of_tests_has_parameters_and_runs_them(tmp_path):
    (tmp_path / "test_rows.py").write_text(TESTS)
    done = run_python(
        "-m", "autotune.tvm", "test_rows.py", "-v", "-p", "no:cacheprovider", cwd=tmp_path
    )
    assert "test_rows[two] PASSED" in done.stdout
    assert "2 passed" in done.stdout
