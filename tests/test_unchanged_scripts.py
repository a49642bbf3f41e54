"""Scripts of AutoTVM run: with their import lines changed, and as they are."""

import re
import subprocess
import sys

import pytest

from autotune.tvm.names import GONE
from tests.scripts import rewritten, run_python

# AutoTVM's matrix multiplication, with the import lines it has in TVM.
SCRIPT = """
import tvm
from tvm import autotvm
from tvm import te
import tvm.testing
from tvm.autotvm.task.space import SplitEntity
from tvm.autotvm.tuner.index_based_tuner import RandomTuner
from tvm.contrib.util import tempdir
import numpy as np

@autotvm.template("migration/matmul")
def matmul(n, dtype):
    A = te.placeholder((n, n), name="A", dtype=dtype)
    B = te.placeholder((n, n), name="B", dtype=dtype)
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    assert isinstance(cfg["tile_y"], SplitEntity)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, s[C].op.reduce_axis[0], yi, xi)
    return s, [A, B, C]

log = tempdir().relpath("matmul.log")
task = autotvm.task.create("migration/matmul", args=(32, "float32"), target="llvm")
option = autotvm.measure_option(
    builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner(number=1, cooldown_interval=0)
)
RandomTuner(task).tune(
    n_trial=3, measure_option=option, callbacks=[autotvm.callback.log_to_file(log)]
)
with autotvm.apply_history_best(log), tvm.target.Target("llvm"):
    s, args = matmul(32, "float32")
    func = tvm.build(s, args)
a, b = np.random.rand(2, 32, 32).astype("float32")
c = tvm.nd.empty((32, 32))
func(tvm.nd.array(a), tvm.nd.array(b), c)
tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)
print("done")
"""


def test_a_script_runs_with_only_its_import_lines_changed():
    changed = re.sub("(?m)^(import|from) tvm.*", lambda found: rewritten(found[0]), SCRIPT)
    assert "from tvm" not in changed
    assert run_python("-c", changed).stdout.strip().endswith("done")


def test_a_script_runs_unchanged(tmp_path):
    (tmp_path / "matmul.py").write_text(SCRIPT)
    ended = run_python("-m", "autotune.tvm", "matmul.py", cwd=tmp_path)
    assert ended.stdout.strip().endswith("done")


# As scripts were before TVM 0.7: expressions at the top, and topi a package of its own.
OLD_SCRIPT = """
import numpy as np
import topi
import tvm
from topi.util import get_const_tuple, simplify
from tvm.contrib.dlpack import to_pytorch_func

A = tvm.placeholder((4, 6), name="A")
k = tvm.reduce_axis((0, 6), "k")
B = tvm.compute((4,), lambda i: tvm.sum(A[i, k], axis=k), name="B")
C = topi.nn.relu(tvm.compute(B.shape, lambda i: tvm.select(B[i] > 2.0, tvm.exp(B[i]), B[i])))
assert isinstance(C, tvm.tensor.Tensor) and get_const_tuple(C.shape) == (simplify(4),)
tvm.build(tvm.create_schedule(C.op), [A, C], "llvm", name="rows").export_library("rows.so")
a = np.random.rand(4, 6).astype("float32")
c = tvm.ndarray.empty((4,), "float32", tvm.context("llvm", 0))
with tvm.target.create("llvm"):
    assert tvm.target.current_target().kind.name == "llvm"
to_pytorch_func(tvm.module.load("rows.so"))(tvm.nd.array(a), c)
sums = a.sum(1)
tvm.testing.assert_allclose(c.asnumpy(), np.where(sums > 2, np.exp(sums), sums), rtol=1e-5)
print("done")
"""


def test_a_script_of_tvm_0_6_runs_unchanged(tmp_path):
    (tmp_path / "old.py").write_text(OLD_SCRIPT)
    ended = run_python("-m", "autotune.tvm", "old.py", cwd=tmp_path)
    assert ended.stdout.strip().endswith("done")


def test_a_module_runs_unchanged_and_gets_its_arguments(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "show.py").write_text(
        "import sys\nfrom tvm.autotvm.task.space import SplitEntity\n"
        "print(SplitEntity.__name__, *sys.argv[1:])\n"
    )
    ended = run_python("-m", "autotune.tvm", "-m", "tools.show", "-m", "x", cwd=tmp_path)
    assert ended.stdout == "SplitEntity -m x\n"


def test_help_is_printed_and_no_failure():
    helped = run_python("-m", "autotune.tvm", "--help")
    assert "runs a script of TVM as it is" in helped.stdout


# Imports TVM at the top, where a spawned child runs it again, and inside of the function.
SPAWNING = """
import multiprocessing
import sys
import tvm

def loops(n):
    from tvm import te
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    return str(tvm.lower(te.create_schedule(b.op), [a, b]))

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(1) as pool:
        assert pool.map(loops, [4, 8]) == [loops(4), loops(8)]
    print("done")
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children_of_an_unchanged_script_find_tvm_too(tmp_path, method):
    (tmp_path / "script.py").write_text(SPAWNING)
    assert run_python("-m", "autotune.tvm", tmp_path / "script.py", method).stdout == "done\n"


def test_a_walk_through_the_modules_loads_all_of_them_and_serves_nothing():
    run_python(
        "-c",
        "import importlib, pkgutil, sys, autotune.tvm\n"
        "for one in pkgutil.walk_packages(autotune.tvm.__path__, 'autotune.tvm.'):\n"
        "    if not one.name.endswith('__main__'):\n"
        "        importlib.import_module(one.name)\n"
        "assert 'autotune.tvm.te.tensor' in sys.modules and 'tvm' not in sys.modules\n",
    )


def test_a_served_module_is_the_one_of_the_wing(tmp_path):
    (tmp_path / "script.py").write_text(
        "import tvm.autotvm.tuner.xgboost_tuner as served\nfrom tvm import te\n"
        "import autotune.tvm.autotvm.tuner.xgboost_tuner as wing\nimport autotune.tvm.te\n"
        "assert served is wing and te is autotune.tvm.te\n"
        "assert wing.__spec__.name == 'autotune.tvm.autotvm.tuner.xgboost_tuner'\n"
    )
    assert run_python("-m", "autotune.tvm", tmp_path / "script.py").stdout == ""


# Imports as scripts have at their top, much of it never used; and what each says when it is.
UNUSED = """
import nnvm.testing
import tvm.micro as micro
import vta
from tvm import no_name_of_this_package, relax
from tvm.autotvm.measure.local_executor import LocalExecutor
from tvm.contrib import cublas
from tvm.relay import data_dep_optimization as ddo
from tvm.relay.frontend import from_keras
from tvm.relay.op.contrib.cutlass import partition_for_cutlass

for use in (
    lambda: micro.Session(), lambda: vta.get_env(), lambda: relax.build, lambda: LocalExecutor(1),
    lambda: cublas.matmul(1), lambda: from_keras(1), lambda: nnvm.testing.resnet,
    lambda: isinstance(1, LocalExecutor), lambda: issubclass(int, LocalExecutor),
    lambda: LocalExecutor[0], lambda: partition_for_cutlass(1),
    lambda: no_name_of_this_package(1), lambda: ddo.simplify_fc_transpose,
):
    try:
        use()
    except (AttributeError, ImportError) as error:
        print(error)
try:
    class Mine(LocalExecutor): ...
except ImportError as error:
    print(error)
"""


def test_an_unchanged_script_may_ask_whether_a_name_is_there(tmp_path):
    (tmp_path / "script.py").write_text(
        "import tvm\nfrom tvm import tir\nprint(hasattr(tir, 'no_name'), hasattr(tvm, 'tir'))\n"
        "try:\n    tir.ceill\nexcept AttributeError as error:\n    print(error)\n"
        "from tvm import autotmv\n"
        "try:\n    autotmv.task\nexcept AttributeError as error:\n    print(error)\n"
    )
    said = run_python("-m", "autotune.tvm", tmp_path / "script.py").stdout
    assert said.startswith("False True\n")
    assert "did you mean 'ceil'" in said
    assert "did you mean 'autotvm'" in said


# Imports for whose failure a script has another way.
GUARDED = """
try:
    import vta
except ImportError:
    vta = None
try:
    from tvm.contrib import cublas
    from tvm.contrib.cudnn import conv
except (ValueError, ModuleNotFoundError):
    cublas = None
def relax():
    try:
        from tvm import relax
    except Exception as error:
        return str(error)
print(vta, cublas, relax())
try:
    import nnvm
except ValueError:
    pass
print(type(nnvm).__name__)
"""


def test_an_import_in_a_try_fails_so_that_a_script_takes_its_other_way(tmp_path):
    (tmp_path / "script.py").write_text(GUARDED)
    said = run_python("-m", "autotune.tvm", tmp_path / "script.py").stdout.splitlines()
    assert said[0].startswith("None None ")
    assert "relax is not here: " in said[0]
    assert said[1] == "Absent"


# Other ways to find out what is there.
ASKING = """
import contextlib
import importlib
import importlib.util
def load():
    import tvm.contrib.thrust
def asked(ask, *arguments):
    try:
        return ask(*arguments)
    except ImportError:
        return "fails"
try:
    import tvm.micro as micro
except ImportError:
    micro = "fails"
with contextlib.suppress(ImportError):
    from tvm import relax
print(micro, "relax" in globals(), asked(load))
print(asked(importlib.import_module, "tvm.meta_schedule"), asked(exec, "import tvm.dlight"))
print(importlib.util.find_spec("tvm.vulkan"), importlib.util.find_spec("tvm.te").name)
def main():
    import tvm.rocm
    return tvm.rocm
try:
    print(type(main()).__name__)
except Exception as error:
    print(error)
"""


def test_a_script_that_asks_whether_a_module_is_there_is_told_no(tmp_path):
    (tmp_path / "script.py").write_text(ASKING)
    said = run_python("-m", "autotune.tvm", tmp_path / "script.py").stdout.splitlines()
    assert said == ["fails False fails", "fails fails", "None tvm.te", "Absent"]


def test_an_unchanged_script_may_import_what_is_not_here_until_it_uses_it(tmp_path):
    (tmp_path / "script.py").write_text(UNUSED)
    said = run_python("-m", "autotune.tvm", tmp_path / "script.py").stdout.splitlines()
    assert len(said) == 14
    assert said[2] == f"autotune.tvm.relax is not here: {GONE['autotune.tvm.relax']}"
    assert all(" is not here: " in line for line in said)
    assert "export the model to ONNX" in said[5]


# In TVM up to 0.5 `/` of integers was C's.
DIVIDING = """
import tvm
import numpy as np

A = tvm.placeholder((4,), name="A")
B = tvm.compute((8,), lambda i: A[i / 2], name="B")
a, b = np.arange(4, dtype="float32"), np.zeros(8, "float32")
tvm.build(tvm.create_schedule(B.op), [A, B], "llvm")(a, b)
print(b.astype(int).tolist())
"""


def test_integers_are_divided_as_in_c_in_an_unchanged_script(tmp_path):
    (tmp_path / "script.py").write_text(DIVIDING)
    ended = subprocess.run(
        [sys.executable, "-m", "autotune.tvm", "script.py"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stdout == "[0, 0, 1, 1, 2, 2, 3, 3]\n"
    assert "a division of integers, taken for te.truncdiv" in ended.stderr


def test_an_unchanged_script_comes_before_a_tvm_that_is_installed(tmp_path):
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "__init__.py").write_text("raise ImportError('not this one')\n")
    (tmp_path / "script.py").write_text("import tvm\nprint(tvm.__name__)\n")
    ended = run_python("-m", "autotune.tvm", "script.py", cwd=tmp_path)
    assert ended.stdout == "autotune.tvm\n"


@pytest.mark.parametrize(
    ("arguments", "said"), [([], "usage: "), (["-m"], "usage: "), (["nowhere.py"], "nowhere.py")]
)
def test_nothing_to_run_is_said(arguments, said):
    ended = subprocess.run(
        [sys.executable, "-m", "autotune.tvm", *arguments], capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_autotvms_commands_on_logs_run(tmp_path):
    (tmp_path / "empty.log").write_text("")
    ended = run_python("-m", "autotune.tvm.autotvm.record", "--i", tmp_path / "empty.log")
    assert (ended.stdout, ended.stderr) == ("", "")
