"""AutoTVM scripts work with only their import lines changed, and changed mechanically."""

import re
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

import autotune
from autotune.migration import GONE, MOVED, load

# What the rule of docs/migrating.md makes of import lines as scripts have them.
DIFF = """\
- import tvm
+ import autotune as tvm
- import tvm as tvm
+ import autotune as tvm
- import tvm.testing
+ import autotune.testing
- import tvm.te as te
+ import autotune.te as te
- import tvm.topi as topi
+ import autotune.topi as topi
- import tvm.autotvm
+ import autotune
- import tvm.autotvm as autotvm
+ import autotune as autotvm
- import tvm.autotvm.feature as feature
+ import autotune.feature as feature
- import tvm.autotvm.tuner as tuner
+ import autotune.tuner as tuner
- from tvm import autotvm
+ import autotune as autotvm
- from tvm import te, autotvm
+ from autotune import te, autotvm
- from tvm import te, tir, topi
+ from autotune import te, tir, topi
- from tvm import nd
+ from autotune import nd
- from tvm import testing
+ from autotune import testing
- from tvm import TVMError
+ from autotune import TVMError
- from tvm.error import TVMError
+ from autotune.error import TVMError
- from tvm.te import create_schedule
+ from autotune.te import create_schedule
- from tvm.te.schedule import Schedule
+ from autotune.te.schedule import Schedule
- from tvm.te.tensor import Tensor
+ from autotune.te.tensor import Tensor
- from tvm.tir import const, IntImm
+ from autotune.tir import const, IntImm
- from tvm.target import Target
+ from autotune.target import Target
- from tvm.target.target import Target
+ from autotune.target.target import Target
- from tvm.driver import build, lower
+ from autotune.driver import build, lower
- from tvm.runtime import Module
+ from autotune.runtime import Module
- from tvm.runtime.ndarray import NDArray
+ from autotune.runtime.ndarray import NDArray
- from tvm.runtime.module import Module
+ from autotune.runtime.module import Module
- from tvm.testing import assert_allclose
+ from autotune.testing import assert_allclose
- from tvm.contrib import utils
+ from autotune.contrib import utils
- from tvm.contrib.utils import tempdir
+ from autotune.contrib.utils import tempdir
- from tvm.contrib.util import tempdir
+ from autotune.contrib.util import tempdir
- from tvm.topi.testing import conv2d_nchw_python
+ from autotune.topi.testing import conv2d_nchw_python
- from tvm.topi.utils import get_const_tuple, traverse_inline
+ from autotune.topi.utils import get_const_tuple, traverse_inline
- from tvm.topi.util import get_const_tuple
+ from autotune.topi.util import get_const_tuple
- from tvm.topi.nn.utils import get_pad_tuple
+ from autotune.topi.nn.utils import get_pad_tuple
- from tvm.topi.nn.util import get_pad_tuple
+ from autotune.topi.nn.util import get_pad_tuple
- from tvm.topi.nn.winograd_util import winograd_transform_matrices
+ from autotune.topi.nn.winograd_util import winograd_transform_matrices
- from tvm.autotvm import MeasureInput, MeasureResult
+ from autotune import MeasureInput, MeasureResult
- from tvm.autotvm import database, env, feature, measure, record, task, tuner, utils
+ from autotune import database, env, feature, measure, record, task, tuner, utils
- from tvm.autotvm import callback, measure_option, apply_history_best, LocalRunner
+ from autotune import callback, measure_option, apply_history_best, LocalRunner
- from tvm.autotvm.feature import ana_lower, get_itervar_feature, get_flatten_name
+ from autotune.feature import ana_lower, get_itervar_feature, get_flatten_name
- from tvm.autotvm.feature import get_buffer_curve_sample_flatten
+ from autotune.feature import get_buffer_curve_sample_flatten
- from tvm.autotvm.database import Database, DummyDatabase, filter_inputs
+ from autotune.database import Database, DummyDatabase, filter_inputs
- from tvm.autotvm.env import GLOBAL_SCOPE
+ from autotune.env import GLOBAL_SCOPE
- from tvm.autotvm.measure import MeasureErrorNo, create_measure_batch
+ from autotune.measure import MeasureErrorNo, create_measure_batch
- from tvm.autotvm.measure.measure import Builder, MeasureResult, Runner
+ from autotune.measure.measure import Builder, MeasureResult, Runner
- from tvm.autotvm.measure.measure_methods import BuildResult, InstantiationError, Runner
+ from autotune.measure.measure_methods import BuildResult, InstantiationError, Runner
- from tvm.autotvm.measure.measure_methods import LocalBuilder, LocalRunner
+ from autotune.measure.measure_methods import LocalBuilder, LocalRunner
- from tvm.autotvm.record import encode, load_from_file, pick_best, split_workload
+ from autotune.record import encode, load_from_file, pick_best, split_workload
- from tvm.autotvm.task import ConfigEntity, create, get_config, serialize_args
+ from autotune.task import ConfigEntity, create, get_config, serialize_args
- from tvm.autotvm.task import ApplyHistoryBest
+ from autotune.task import ApplyHistoryBest
- from tvm.autotvm.task.code_hash import attach_code_hash
+ from autotune.task.code_hash import attach_code_hash
- from tvm.autotvm.task.dispatcher import ApplyConfig, ApplyHistoryBest, DispatchContext
+ from autotune.task.dispatcher import ApplyConfig, ApplyHistoryBest, DispatchContext
- from tvm.autotvm.task.space import FallbackConfigEntity, SplitEntity, get_factors
+ from autotune.task.space import FallbackConfigEntity, SplitEntity, get_factors
- from tvm.autotvm.task.space import OtherOptionEntity, VirtualAxis, get_pow2s
+ from autotune.task.space import OtherOptionEntity, VirtualAxis, get_pow2s
- from tvm.autotvm.task.task import FlopCalculationError, Task, compute_flop
+ from autotune.task.task import FlopCalculationError, Task, compute_flop
- from tvm.autotvm.task.topi_integration import deserialize_args, get_workload
+ from autotune.task.topi_integration import deserialize_args, get_workload
- from tvm.autotvm.tuner import XGBTuner, GATuner, RandomTuner, GridSearchTuner
+ from autotune.tuner import XGBTuner, GATuner, RandomTuner, GridSearchTuner
- from tvm.autotvm.tuner.callback import log_to_file, progress_bar
+ from autotune.tuner.callback import log_to_file, progress_bar
- from tvm.autotvm.tuner.droplet_tuner import DropletTuner
+ from autotune.tuner.droplet_tuner import DropletTuner
- from tvm.autotvm.tuner.ga_tuner import GATuner
+ from autotune.tuner.ga_tuner import GATuner
- from tvm.autotvm.tuner.gridsearch_tuner import GridSearchTuner
+ from autotune.tuner.gridsearch_tuner import GridSearchTuner
- from tvm.autotvm.tuner.index_based_tuner import IndexBaseTuner, RandomTuner
+ from autotune.tuner.index_based_tuner import IndexBaseTuner, RandomTuner
- from tvm.autotvm.tuner.metric import average_recall, max_curve, recall_curve
+ from autotune.tuner.metric import average_recall, max_curve, recall_curve
- from tvm.autotvm.tuner.model_based_tuner import CostModel, FeatureCache, submodular_pick
+ from autotune.tuner.model_based_tuner import CostModel, FeatureCache, submodular_pick
- from tvm.autotvm.tuner.model_based_tuner import ModelBasedTuner, ModelOptimizer
+ from autotune.tuner.model_based_tuner import ModelBasedTuner, ModelOptimizer
- from tvm.autotvm.tuner.sa_model_optimizer import SimulatedAnnealingOptimizer
+ from autotune.tuner.sa_model_optimizer import SimulatedAnnealingOptimizer
- from tvm.autotvm.tuner.tuner import Tuner
+ from autotune.tuner.tuner import Tuner
- from tvm.autotvm.tuner.xgboost_cost_model import XGBoostCostModel
+ from autotune.tuner.xgboost_cost_model import XGBoostCostModel
- from tvm.autotvm.tuner.xgboost_tuner import XGBTuner
+ from autotune.tuner.xgboost_tuner import XGBTuner
- from tvm.autotvm.utils import EmptyContext, get_const_int, get_const_tuple, get_rank
+ from autotune.utils import EmptyContext, get_const_int, get_const_tuple, get_rank
- from tvm.autotvm.util import format_si_prefix, get_const_tuple
+ from autotune.util import format_si_prefix, get_const_tuple
"""
# Import lines that cannot work, as the rule makes them, and a part of what they are answered.
REFUSED = [
    ("from autotune import relay", "autotune.create(name, args, target)"),
    ("from autotune import te, relay", "autotune.create(name, args, target)"),
    ("import autotune.relay.testing", "autotune.create(name, args, target)"),
    ("from autotune.relay import testing", "autotune.create(name, args, target)"),
    ("from autotune.graph_tuner import DPTuner", "autotune.create(name, args, target)"),
    ("from autotune.measure import RPCRunner", "LocalRunner"),
    ("from autotune.measure.measure_methods import request_remote", "LocalRunner"),
    ("from autotune.measure.measure_methods import set_cuda_target_arch", "-arch=sm_90"),
    ("from autotune.measure.local_executor import LocalExecutor", "concurrent.futures"),
    ("import autotune.contrib.graph_runtime as runtime", "autotune.create(name, args, target)"),
    ("from autotune.contrib import nvcc", "autotune.build"),
    ("from autotune.contrib.nvcc import compile_cuda", "autotune.build"),
    ("from autotune.database import RedisDatabase", "SqliteDatabase"),
    ("import autotune.tophub", "apply_history_best"),
]
# Modules at TVM's paths, and where what they hold is at home.
ALIASES = {
    "autotune.database": "autotune.record.database",
    "autotune.env": "autotune.task.scope",
    "autotune.feature": "autotune.features",
    "autotune.nd": "autotune.runtime.ndarray",
    "autotune.contrib.util": "autotune.contrib.utils",
    "autotune.runtime.ndarray": "autotune.runtime",
    "autotune.topi.util": "autotune.topi.utils",
    "autotune.topi.nn.util": "autotune.topi.nn",
    "autotune.topi.nn.utils": "autotune.topi.nn",
    "autotune.topi.nn.winograd_util": "autotune.topi.nn",
    "autotune.tuner.gridsearch_tuner": "autotune.tuner",
}
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


LINES = list(
    zip(
        [line[2:] for line in DIFF.splitlines() if line[0] == "-"],
        [line[2:] for line in DIFF.splitlines() if line[0] == "+"],
        strict=True,
    )
)


def rewritten(line):
    """Change an import line as docs/migrating.md says."""
    if line == "from tvm import autotvm":
        return "import autotune as autotvm"
    if line in ("import tvm", "import tvm as tvm"):
        return "import autotune as tvm"
    return line.replace("tvm.autotvm", "autotune").replace(" tvm", " autotune")


def run(line):
    names = {}
    exec(line, names)
    names.pop("__builtins__")
    return names


@pytest.mark.parametrize(("old", "new"), LINES)
def test_an_import_line_is_changed_mechanically(old, new):
    assert rewritten(old) == new


@pytest.mark.parametrize(("old", "new"), LINES)
def test_a_changed_import_line_gives_things_of_ours(old, new):
    found = run(new)
    assert found
    for name, value in found.items():
        kind = value if isinstance(value, type) or callable(value) else type(value)
        home = value.__name__ if isinstance(value, ModuleType) else kind.__module__
        assert home.split(".")[0] in ("autotune", "contextlib"), f"{name} is {value!r}"


@pytest.mark.parametrize(("line", "advice"), REFUSED)
def test_an_import_line_without_counterpart_says_what_to_use(line, advice):
    with pytest.raises(ImportError) as caught:
        run(line)
    assert advice in str(caught.value)


@pytest.mark.parametrize("alias", ALIASES)
def test_a_module_at_tvms_path_holds_the_things_themselves(alias):
    module, home = import_module(alias), import_module(ALIASES[alias])
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is getattr(home, name)


@pytest.mark.parametrize("name", MOVED)
def test_a_moved_name_is_what_stands_at_its_new_place(name):
    module, _, attribute = name.rpartition(".")
    assert getattr(import_module(module), attribute) is load(MOVED[name])
    assert run(f"from {module} import {attribute}")[attribute] is load(MOVED[name])


@pytest.mark.parametrize("name", GONE)
def test_a_gone_name_is_explained_however_it_is_asked_for(name):
    module, _, attribute = name.rpartition(".")
    assert not hasattr(import_module(module), attribute)
    with pytest.raises(AttributeError) as asked:
        getattr(import_module(module), attribute)
    with pytest.raises(ImportError) as imported:
        run(f"from {module} import {attribute}")
    for caught in (asked, imported):
        assert str(caught.value) == f"{name} is not here: {GONE[name]}"


@pytest.mark.parametrize("name", GONE)
def test_a_gone_module_is_explained_when_something_below_it_is_imported(name):
    with pytest.raises(ModuleNotFoundError) as caught:
        run(f"import {name}.more")
    assert str(caught.value) == f"{name} is not here: {GONE[name]}"


@pytest.mark.parametrize(
    ("module", "slip", "meant"),
    [
        ("autotune", "aply_history_best", "apply_history_best"),
        ("autotune", "get_confg", "get_config"),
        ("autotune", "TVMErorr", "TVMError"),
        ("autotune.te", "reduce_axes", "reduce_axis"),
        ("autotune.measure", "LocalRuner", "LocalRunner"),
        ("autotune.measure.measure_methods", "LocalBuidler", "LocalBuilder"),
        ("autotune.topi", "broadcast_tu", "broadcast_to"),
        ("autotune.topi.nn", "sofmax", "softmax"),
        ("autotune.tuner", "XGBtuner", "XGBTuner"),
        ("autotune.callback", "log_to_fil", "log_to_file"),
        ("autotune.record", "load_from_fil", "load_from_file"),
        ("autotune.nd", "aray", "array"),
    ],
)
def test_a_slip_of_a_name_is_answered_with_the_name(module, slip, meant):
    with pytest.raises(AttributeError, match=f"; did you mean '{meant}'"):
        getattr(load(module) if module != "autotune.callback" else autotune.callback, slip)


def test_what_is_neither_here_nor_known_is_the_usual_error():
    with pytest.raises(
        AttributeError, match=r"module 'autotune\.measure' has no attribute 'Tpyo'"
    ):
        run("import autotune; autotune.measure.Tpyo")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'autotune\.tpyo'"):
        run("import autotune.tpyo")


def test_a_script_runs_with_only_its_import_lines_changed():
    changed = re.sub("(?m)^(import|from) tvm.*", lambda found: rewritten(found[0]), SCRIPT)
    assert "from tvm" not in changed
    ended = subprocess.run(
        [sys.executable, "-c", changed], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip().endswith("done")
