"""Names of TVM that their own module cannot give here: they stand in a higher row, or nowhere.

TVM's module paths are real modules of this package wherever there is something to put into them,
so that readers, debuggers and type checkers find them. This table holds the rest: names that moved
to a folder which their old module must not import, and names that are gone and say what to use. A
module asks it with::

    if not TYPE_CHECKING:  # a type checker goes on to report unknown names
        __getattr__ = resolver(__name__)
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

# Least similarity at which a public name is offered for an unknown one.
_NEAR = 0.7

# Name -> where it stands: "module:name", or "module" for a module.
MOVED = {
    "autotune.TVMError": "autotune.error:TVMError",
    "autotune.autotvm": "autotune",
    "autotune.context": "autotune.runtime:device",
    "autotune.convert": "autotune.runtime:convert",
    "autotune.task.ApplyHistoryBest": "autotune.record:ApplyHistoryBest",
    "autotune.task.dispatcher.ApplyHistoryBest": "autotune.record:ApplyHistoryBest",
    "autotune.tir.expr": "autotune.tir",
    "autotune.tir.stmt": "autotune.tir",
    "autotune.utils.EmptyContext": "autotune.util:EmptyContext",
    "autotune.utils.format_si_prefix": "autotune.util:format_si_prefix",
    "autotune.utils.get_const_int": "autotune.util:get_const_int",
    "autotune.utils.get_const_tuple": "autotune.util:get_const_tuple",
    "autotune.utils.get_rank": "autotune.util:get_rank",
}

# What to use -> the names, and the modules with all below them, that are gone.
_GONE = {
    "models of relay are not read; create each task: autotune.create(name, args, target)": """
        apply_graph_best contrib.graph_executor contrib.graph_runtime graph_tuner relax relay
        task.ApplyGraphBest task.TaskExtractEnv task.dispatcher.ApplyGraphBest
        task.extract_from_multiple_program task.extract_from_program task.nnvm_integration
        task.relay_integration task.topi_integration.TaskExtractEnv""",
    "there is no tracker; LocalRunner(devices=[0, 1]) uses several devices of this host": """
        RPCRunner measure.RPCRunner measure.default_module_loader measure.request_remote
        measure.measure_methods.RPCRunner measure.measure_methods.check_remote
        measure.measure_methods.default_module_loader measure.measure_methods.request_remote
        measure.measure_methods.run_through_rpc rpc""",
    "builders and runners hold their processes themselves; use concurrent.futures for yours": """
        contrib.popen_pool measure.Executor measure.LocalExecutor measure.executor
        measure.local_executor util.pool_map utils.pool_map""",
    "write such a kernel in CUDA C++ or C, and tune it as an autotune.SourceKernel": """
        contrib.cublas contrib.cudnn te.decl_tensor_intrin te.extern te.hybrid te.scan
        tir.call_intrin tir.decl_buffer tir.ir_builder""",
    'the targets are "cuda", "llvm" and "c", with options as in Target("cuda -arch=sm_90")': """
        contrib.ndk ext_dev measure.measure_methods.set_cuda_target_arch metal micro opencl rocm
        target.arm_cpu target.create target.mali target.rocm vulkan""",
    "autotune.build compiles; nothing else is to be called": """
        contrib.cc contrib.clang contrib.nvcc""",
    "options are in autotune.transform.PassContext; schedules have the pragmas of loops": """
        build_config tir.transform""",
    "write the schedule as a template, and tune it with autotune.tuner.AutoTuner": """
        auto_scheduler meta_schedule""",
    "autotune.lower(s, args) gives the loops, autotune.build(s, args) what can be called": """
        IRModule contrib.tedd script te.create_prim_func""",
    "there is no registry of functions; import what you need": """
        get_global_func register_func""",
    "ready templates are in autotune.templates, operators in autotune.topi": """
        topi.arm_cpu topi.cuda topi.generic topi.x86""",
    "it is a method of the space: task.config_space.point2knob, .knob2point": """
        tuner.model_based_tuner.knob2point tuner.model_based_tuner.point2knob""",
    "the process has one scope: set autotune.env.GLOBAL_SCOPE.silent": """
        env.AutotvmGlobalScope env.reset_global_scope""",
    "TVM moved it in 0.7: write autotune.te.<name>": """
        all any compute const create_schedule if_then_else max_value min_value placeholder
        reduce_axis select sum thread_axis var""",
    "write function.__name__": "util.get_func_name utils.get_func_name",
    "built functions take torch tensors and all other DLPack arrays as they are": "contrib.dlpack",
    "time_evaluator times; Target('cuda -emulate') finds faults": "contrib.debugger",
    "use urllib.request.urlretrieve": "contrib.download",
    "module.export_library(path) and autotune.load_module(path) need no packer": "contrib.tar",
    "SqliteDatabase(path) keeps records without a server": "database.RedisDatabase",
    "limits of the target are checked before anything is compiled": """
        measure.measure_methods.gpu_verify_pass""",
    "download a log of TopHub, and pass it to autotune.apply_history_best(path)": "tophub",
    "use te.compute for the gradient": "te.gradient",
    "indices are simplified by themselves; expressions are in autotune.ir": "arith",
    "write autotune.nd": "ndarray",
}
GONE = {f"autotune.{name}": advice for advice, names in _GONE.items() for name in names.split()}


def load(home: str) -> Any:
    """Return what stands at ``"module:name"`` or ``"module"``."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)


def resolver(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module: moved names are loaded, gone ones explained.

    Asking for an attribute that is gone is an AttributeError, so that `hasattr` answers. Of
    ``from module import name`` Python drops that error with its text, and imports a submodule of
    the name if the module is a package; so each such module is made one, and `Explainer` answers.
    """
    home = sys.modules[module]
    if not hasattr(home, "__path__"):
        home.__path__ = []

    def find(name: str) -> Any:
        full = f"{module}.{name}"
        if full in MOVED:
            return load(MOVED[full])
        if full in GONE:
            raise AttributeError(f"{full} is not here: {GONE[full]}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}{_meant(module, name)}")

    return find


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" where ``name`` may be a slip of a known one; else nothing."""
    near = difflib.get_close_matches(name, list(known), 1, _NEAR)
    return f"; did you mean {near[0]!r}?" if near else ""


def _meant(module: str, name: str) -> str:
    if name.startswith("_"):
        return ""  # asked by Python and by tools, not by a user
    moved = [full.rpartition(".")[2] for full in MOVED if full.rpartition(".")[0] == module]
    public = [one for one in dir(sys.modules[module]) if not one.startswith("_")]
    return did_you_mean(name, [*public, *moved])


class Explainer:
    """Says what to use when a module of TVM is imported that is gone.

    It finds nothing, and stands last on `sys.meta_path`: it is asked only about modules that no
    other finder knows, which could not be imported anyway.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raise ModuleNotFoundError with the advice, if there is one.

        It has no ``name``: ``from module import name`` passes over errors that name the import.
        """
        if fullname in GONE:
            raise ModuleNotFoundError(f"{fullname} is not here: {GONE[fullname]}")
