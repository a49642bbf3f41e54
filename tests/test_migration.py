"""Import lines of AutoTVM are changed mechanically; names of TVM are found or explained."""

from importlib import import_module
from types import ModuleType

import pytest

import autotune
from autotune.tvm.names import GONE
from autotune.utils.names import load
from tests.scripts import rewritten, run_python

# Import lines as scripts have them.
LINES = """\
import tvm
import tvm as tvm
import tvm.testing
import tvm.te as te
import tvm.topi as topi
import tvm.autotvm
import tvm.autotvm as autotvm
import tvm.autotvm.feature as feature
import tvm.autotvm.tuner as tuner
from tvm import autotvm
from tvm import te, autotvm
from tvm import te, tir, topi
from tvm import nd
from tvm import testing
from tvm import TVMError
from tvm.error import TVMError
from tvm.te import create_schedule
from tvm.te.schedule import Schedule
from tvm.te.tensor import Tensor
from tvm.tir import const, IntImm
from tvm.target import Target
from tvm.target.target import Target
from tvm.driver import build, lower
from tvm.runtime import Module
from tvm.runtime.ndarray import NDArray
from tvm.runtime.module import Module
from tvm.testing import assert_allclose
from tvm.contrib import utils
from tvm.contrib.utils import tempdir
from tvm.contrib.util import tempdir
from tvm.topi.testing import conv2d_nchw_python
from tvm.topi.utils import get_const_tuple, traverse_inline
from tvm.topi.util import get_const_tuple
from tvm.topi.nn.utils import get_pad_tuple
from tvm.topi.nn.util import get_pad_tuple
from tvm.topi.nn.winograd_util import winograd_transform_matrices
from tvm.autotvm import MeasureInput, MeasureResult
from tvm.autotvm import database, env, feature, measure, record, task, tuner, utils
from tvm.autotvm import callback, measure_option, apply_history_best, LocalRunner
from tvm.autotvm.feature import ana_lower, get_itervar_feature, get_flatten_name
from tvm.autotvm.feature import get_buffer_curve_sample_flatten
from tvm.autotvm.database import Database, DummyDatabase, filter_inputs
from tvm.autotvm.env import GLOBAL_SCOPE
from tvm.autotvm.measure import MeasureErrorNo, create_measure_batch
from tvm.autotvm.measure.measure import Builder, MeasureResult, Runner
from tvm.autotvm.measure.measure_methods import BuildResult, InstantiationError, Runner
from tvm.autotvm.measure.measure_methods import LocalBuilder, LocalRunner
from tvm.autotvm.record import encode, load_from_file, pick_best, split_workload
from tvm.autotvm.task import ConfigEntity, create, get_config, serialize_args
from tvm.autotvm.task import ApplyHistoryBest
from tvm.autotvm.task.code_hash import attach_code_hash
from tvm.autotvm.task.dispatcher import ApplyConfig, ApplyHistoryBest, DispatchContext
from tvm.autotvm.task.space import FallbackConfigEntity, SplitEntity, get_factors
from tvm.autotvm.task.space import OtherOptionEntity, VirtualAxis, get_pow2s
from tvm.autotvm.task.task import FlopCalculationError, Task, compute_flop
from tvm.autotvm.task.topi_integration import deserialize_args, get_workload
from tvm.autotvm.tuner import XGBTuner, GATuner, RandomTuner, GridSearchTuner
from tvm.autotvm.tuner.callback import log_to_file, progress_bar
from tvm.autotvm.tuner.droplet_tuner import DropletTuner
from tvm.autotvm.tuner.ga_tuner import GATuner
from tvm.autotvm.tuner.gridsearch_tuner import GridSearchTuner
from tvm.autotvm.tuner.index_based_tuner import IndexBaseTuner, RandomTuner
from tvm.autotvm.tuner.metric import average_recall, max_curve, recall_curve
from tvm.autotvm.tuner.model_based_tuner import CostModel, FeatureCache, submodular_pick
from tvm.autotvm.tuner.model_based_tuner import ModelBasedTuner, ModelOptimizer
from tvm.autotvm.tuner.sa_model_optimizer import SimulatedAnnealingOptimizer
from tvm.autotvm.tuner.tuner import Tuner
from tvm.autotvm.tuner.xgboost_cost_model import XGBoostCostModel
from tvm.autotvm.tuner.xgboost_tuner import XGBTuner
from tvm.autotvm.utils import EmptyContext, get_const_int, get_const_tuple, get_rank
from tvm.autotvm.util import format_si_prefix, get_const_tuple
from tvm.autotvm import tuner as tuners
from tvm.tir.expr import Var
from tvm.te.operation import compute
from tvm.driver.build_module import build
from tvm import convert, transform
from tvm.topi.utils import simplify, ravel_index, unravel_index, const_matrix
from tvm.contrib import dlpack
from tvm.contrib.dlpack import to_pytorch_func
from tvm import expr, module, schedule, stmt, tensor
import tvm.contrib.utils
""".splitlines()
# Import lines that cannot work, as the rule makes them, and a part of what they are answered.
REFUSED = [
    ("from autotune.tvm import relax", "autotune.create(name"),
    ("from autotune.tvm import te, relax", "autotune.create(name"),
    ("import autotune.tvm.relax.testing", "autotune.create(name"),
    ("from autotune.tvm.relax import testing", "autotune.create(name"),
    ("from autotune.tvm.rpc import TrackerSession", "LocalRunner"),
    ("from autotune.tvm.autotvm.measure.measure_methods import check_remote", "LocalRunner"),
    ("from autotune.tvm.contrib import hexagon", "-arch=sm_90"),
    (
        "from autotune.tvm.autotvm.measure.local_executor import LocalExecutor",
        "concurrent.futures",
    ),
    ("import autotune.tvm.meta_schedule as runtime", "AutoTuner"),
    ("from autotune.tvm.contrib import cublas", "SourceKernel"),
    ("from autotune.tvm.contrib.nvcc import compile_cuda", "tvm.build"),
    ("from autotune.tvm.autotvm.database import RedisDatabase", "SqliteDatabase"),
    ("from autotune.tvm.autotvm.tophub import check_backend", "apply_history_best"),
    ("from autotune import nd", "from autotune import tvm"),
    ("import autotune.testing", "from autotune import tvm"),
    ("from autotune.feature import ana_lower", "from autotune import tvm"),
    ("from autotune.task.space import SplitEntity", "from autotune import tvm"),
]
# Modules at TVM's paths, and where what they hold is at home.
ALIASES = {
    "autotune.tvm.nd": "autotune.runtime",
    "autotune.tvm.runtime.ndarray": "autotune.runtime",
    "autotune.tvm.contrib.util": "autotune.tvm.contrib.utils",
    "autotune.tvm.te": "autotune.te",
    "autotune.tvm.topi.util": "autotune.tvm.topi.utils",
    "autotune.tvm.topi.nn.util": "autotune.topi.nn",
    "autotune.tvm.topi.nn.utils": "autotune.topi.nn",
    "autotune.tvm.topi.nn.winograd_util": "autotune.topi.nn",
    "autotune.tvm.autotvm.database": "autotune.record",
    "autotune.tvm.autotvm.env": "autotune.task.scope",
    "autotune.tvm.autotvm.feature": "autotune.features",
    "autotune.tvm.autotvm.measure.measure": "autotune.measure",
    "autotune.tvm.autotvm.tuner.gridsearch_tuner": "autotune.tuner",
    "autotune.tvm.autotvm.tuner.metric": "autotune.cost_model.metrics",
}


def run(line):
    names = {}
    exec(line, names)
    names.pop("__builtins__")
    return names


@pytest.mark.parametrize("line", LINES)
def test_an_import_line_changed_by_the_rule_gives_things_of_ours(line):
    found = run(rewritten(line))
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
        ("autotune.task", "get_confg", "get_config"),
        ("autotune.measure", "LocalRuner", "LocalRunner"),
        ("autotune.tvm", "TVMErorr", "TVMError"),
        ("autotune.tvm.te", "reduce_axes", "reduce_axis"),
        ("autotune.tvm.topi", "broadcast_tu", "broadcast_to"),
        ("autotune.tvm.topi.nn", "sofmax", "softmax"),
        ("autotune.tvm.nd", "aray", "array"),
        ("autotune.tvm.autotvm", "get_confg", "get_config"),
        ("autotune.tvm.autotvm.measure.measure_methods", "LocalBuidler", "LocalBuilder"),
        ("autotune.tvm.autotvm.tuner", "XGBtuner", "XGBTuner"),
        ("autotune.tvm.autotvm.tuner.callback", "log_to_fil", "log_to_file"),
        ("autotune.tvm.autotvm.record", "load_from_fil", "load_from_file"),
    ],
)
def test_a_slip_of_a_name_is_answered_with_the_name(module, slip, meant):
    with pytest.raises(AttributeError, match=f"; did you mean '{meant}'"):
        getattr(load(module), slip)


def test_what_is_neither_here_nor_known_is_the_usual_error():
    with pytest.raises(
        AttributeError, match=r"module 'autotune\.measure' has no attribute 'Tpyo'"
    ):
        run("import autotune; autotune.measure.Tpyo")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'autotune\.tpyo'"):
        run("import autotune.tpyo")


# `import autotune as autotvm` needs no other change in scripts that import nothing else of TVM.
@pytest.mark.parametrize(
    "name",
    [
        "GLOBAL_SCOPE",
        "apply_history_best",
        "callback.progress_bar",
        "database.SqliteDatabase",
        "env.GLOBAL_SCOPE",
        "feature.get_itervar_feature",
        "measure.measure.MeasureResult",
        "measure.measure_methods.LocalRunner",
        "record.load_from_file",
        "task.ApplyHistoryBest",
        "task.space.SplitEntity",
        "task.dispatcher.ApplyConfig",
        "tuner.metric.max_curve",
        "tuner.gridsearch_tuner.GridSearchTuner",
        "tuner.xgboost_tuner.XGBTuner",
        "RPCRunner",
        "measure.RPCRunner",
        "tophub.context",
        "util.get_rank",
        "utils.get_const_tuple",
    ],
)
def test_a_public_name_of_autotvm_is_found_from_autotune(name):
    ours, wing = autotune, import_module("autotune.tvm.autotvm")
    for part in name.split("."):
        ours, wing = getattr(ours, part), getattr(wing, part)
    assert ours is wing


@pytest.mark.parametrize("name", ["nd", "tir", "testing", "TVMError", "contrib", "transform"])
def test_a_name_of_tvm_asked_of_autotune_says_where_it_is(name):
    with pytest.raises(AttributeError, match=r"TVM's names are in autotune\.tvm: from autotune"):
        getattr(autotune, name)


def test_what_we_use_ourselves_does_not_load_tvms_names():
    code = (
        "import sys, autotune.templates, autotune.cli.main, autotune.cli.demo, autotune.tuner\n"
        "print([name for name in sys.modules if name.startswith('autotune.tvm')])"
    )
    assert run_python("-c", code).stdout == "[]\n"
