"""Names of TVM that autotune does not have, with their replacements.

TVM has more in its modules than this package. `explain_modules` lets each of them say so, without
a line in the modules themselves, of which a type checker goes on to report unknown names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from autotune.utils.names import missing


def _advice_with(name: str) -> str:
    return GONE[f"autotune.tvm.{name}"]


# What to use -> the names, and the modules with all below them, that are gone.
_GONE = {
    "networks are those of relay.testing and relay.nn; or autotune.create(name, args, target)": """
        autotvm.task.TaskExtractEnv
        autotvm.task.nnvm_integration
        autotvm.task.topi_integration.TaskExtractEnv
        relax relay.testing.check_grad relay.testing.darknet relay.testing.dense
        relay.testing.tf relay.testing.yolo_detection""",
    "networks are rewritten by relay.build; autotune.graph has their nodes, to walk or change": """
        relay.backend.aot relay.backend.compile_engine relay.backend.contrib
        relay.backend.executor_factory relay.backend.graph_executor_codegen
        relay.backend.interpreter relay.backend.te_compiler relay.backend.utils relay.backend.vm
        instrument ir.instrument relay.ExprMutator relay.ExprVisitor relay.Call
        relay.analysis.count_layers relay.analysis.post_order_visit
        relay.dataflow_pattern relay.expr.Call relay.expr_functor relay.op.annotation
        relay.op.op relay.op.strategy relay.transform.function_pass transform.function_pass
        transform.module_pass""",
    "networks have no control flow: write loops and branches in Python": """
        relay.If relay.Let relay.Match relay.ScopeBuilder relay.adt relay.loops relay.prelude
        relay.scope_builder""",
    "the text form of relay is not read; ir.load_json reads what ir.save_json wrote": """
        parser relay.fromtext relay.parse""",
    "layers of integers are those of a network in integers, as from_onnx reads it": """
        relay.qnn""",
    "time a network by GraphModule.benchmark, its kernels by contrib.debugger.debug_executor": """
        runtime.profiler_vm runtime.profiling""",
    "autotune devices prints what is here, autotune.__version__ the version": """
        libinfo support""",
    "tvmc.load, tune, compile and run do all that there is": """
        driver.tvmc.arguments driver.tvmc.common driver.tvmc.micro driver.tvmc.registry
        driver.tvmc.shape_parser""",
    "there is no tracker; LocalRunner(devices=[0, 1]) uses several devices of this host, "
    "rpc.LocalSession() stands for it, and a fleet uses other hosts (docs/fleet.md)": """
        auto_scheduler.utils.check_remote autotvm.measure.default_module_loader
        autotvm.measure.measure_methods.check_remote
        autotvm.measure.measure_methods.default_module_loader
        autotvm.measure.measure_methods.run_through_rpc
        exec rpc.Server rpc.TrackerSession rpc.connect rpc.connect_tracker rpc.proxy rpc.server
        rpc.tracker""",
    "graph_executor.GraphModule runs a network; on a GPU a CUDA graph is used by itself": """
        contrib.cuda_graph contrib.pipeline_executor""",
    "builders and runners hold their processes themselves; use concurrent.futures for yours": """
        autotvm.measure.Executor autotvm.measure.LocalExecutor autotvm.measure.executor
        autotvm.measure.local_executor autotvm.util.pool_map autotvm.utils.pool_map
        auto_scheduler.utils.call_func_with_timeout contrib.popen_pool""",
    "loops are not as long as data says; write the kernel as an autotune.SourceKernel": """
        relay.data_dep_optimization topi.nn.sparse_dense topi.nn.sparse_transpose topi.sparse""",
    "no library of a GPU is called: topi has its operators, autotune.templates kernels for many "
    "of them, and a kernel in CUDA C++ or C is an autotune.SourceKernel": """
        contrib.cublas contrib.cublaslt contrib.cudnn contrib.cutlass contrib.miopen
        contrib.mps contrib.nnpack contrib.rocblas
        contrib.sort contrib.thrust""",
    "loops in TIR are neither read nor changed: write the computation by te.compute, or the "
    "kernel in CUDA C++ or C as an autotune.SourceKernel": """
        hybrid script te.create_prim_func te.hybrid tir.Block tir.For tir.PrimFunc
        tir.Schedule tir.function tir.schedule tir.stmt_functor tir.transform""",
    "functions on numbers are those of te, such as te.exp; a kernel with others, in CUDA C++ or "
    "C, is an autotune.SourceKernel": """
        te.trace tir.clz tir.ldexp tir.nextafter
        tir.reinterpret
        intrin""",
    "write such a kernel in CUDA C++ or C, and tune it as an autotune.SourceKernel": """
        topi.image.affine_grid
        topi.image.crop_and_resize topi.image.dilation2d topi.image.grid_sample topi.reinterpret
        topi.searchsorted topi.unique topi.vision topi.x86.tensor_intrin
        tir.buffer""",
    'the targets are "cuda", "llvm" and "c", with options as in Target("cuda -arch=sm_90")': """
        contrib.coreml_runtime contrib.emcc contrib.ethosu contrib.hexagon contrib.rocm
        contrib.spirv contrib.tflite_runtime
        contrib.tvmjs contrib.xcode ext_dev metal micro
        opencl rocm target.arm_cpu target.mali target.rocm vulkan""",
    "tvm.build compiles; nothing else is to be called": """
        contrib.nvcc.compile_cuda contrib.nvcc.find_cuda_path
        contrib.nvcc.get_target_compute_version contrib.nvcc.have_fp16
        contrib.nvcc.have_tensorcore contrib.nvcc.parse_compute_version""",
    "write the schedule as a template, and tune it with autotune.tuner.AutoTuner": """
        dlight meta_schedule te.SpecializedCondition""",
    "tvm.lower(s, args) gives the loops, tvm.build(s, args) what can be called": """
        api codegen contrib.tedd container ir.base ir.make_node make node runtime.Object
        runtime.container te.schedule.InferBound
        te.schedule.ScheduleOps tir.BufferLoad tir.BufferStore tir.StringImm""",
    "relay.build compiles each operator itself, and hands no part of a network to a library": """
        relay.op.contrib""",
    "ready templates are in autotune.templates, operators in autotune.topi": """
        topi.arm_cpu topi.bifrost topi.hls topi.intel_graphics topi.mali topi.rocm""",
    "tensor cores are used by autotune.templates ('gemm.cuda'), and the auto-scheduler": """
        topi.cuda.batch_matmul_tensorcore_cuda topi.cuda.conv2d_hwnc_tensorcore
        topi.cuda.conv3d_ndhwc_tensorcore topi.cuda.dense_tensorcore_cuda
        topi.cuda.schedule_conv2d_hwnc_tensorcore topi.cuda.schedule_conv3d_ndhwc_tensorcore
        topi.cuda.schedule_dense_tensorcore_cuda""",
    "the process has one scope: set autotvm.env.GLOBAL_SCOPE.silent": """
        autotvm.env.AutotvmGlobalScope autotvm.env.reset_global_scope""",
    "write function.__name__": "autotvm.util.get_func_name autotvm.utils.get_func_name",
    "debug_executor prints the time of each kernel; autotune.network.check compares them": """
        contrib.debugger.debug_result""",
    "SqliteDatabase(path) keeps records without a server": "autotvm.database.RedisDatabase",
    "limits of the target are checked before anything is compiled": """
        autotvm.measure.measure_methods.gpu_verify_pass tir.analysis.verify_memory
        tir.analysis.calculate_inout_tensors_bytes""",
    "SketchPolicy tries neighbours of the best states by itself; TuningOptions says how many": """
        auto_scheduler.dynamic_gradient_search auto_scheduler.space
        auto_scheduler.task_scheduler.droplet_exploitation""",
    "download a log of TopHub, and pass it to autotune.apply_history_best(path)": """
        autotvm.tophub.check_backend autotvm.tophub.download_package
        autotvm.tophub.load_reference_log""",
    "export the model to ONNX, as tf2onnx or mxnet.onnx do, and read it by from_onnx": """
        relay.frontend.from_caffe relay.frontend.from_caffe2 relay.frontend.from_coreml
        relay.frontend.from_darknet relay.frontend.from_keras relay.frontend.from_mxnet
        relay.frontend.from_oneflow relay.frontend.from_paddle relay.frontend.from_tensorflow
        relay.frontend.from_tensorflow2 relay.frontend.from_tflite""",
    "extents are constant: build the network once for each shape that comes": "relay.Any",
    "print(module) lists nodes, autotune.network.report(library.network.instance()) times": """
        contrib.relay_viz""",
    "use te.compute for the gradient": "te.gradient",
    "relay.transform.ToMixedPrecision takes 16-bit floats; integers are those of the model": """
        relay.quantize""",
    "tvm.arith.Analyzer().simplify(expr) simplifies": """
        arith.ModularSet arith.IterMapResult arith.detect_iter_map arith.detect_linear_equation
        arith.solve_linear_equations""",
}
GONE = {
    f"autotune.tvm.{name}": advice for advice, names in _GONE.items() for name in names.split()
}
# What is said of all other names that are not in a module.
_LISTED = "docs/migrating.md lists what is missing, and what to use"
OTHERS = {
    "autotune.tvm": f"autotune has nothing of this name; {_LISTED}",
    "autotune.tvm.auto_scheduler": f"the search has no such part; {_LISTED}",
    "autotune.tvm.autotvm": f"tuners, tasks and records have no such part; {_LISTED}",
    "autotune.tvm.contrib": _advice_with("contrib.cublas"),
    "autotune.tvm.relay": _advice_with("relay.Call"),
    "autotune.tvm.relay.testing": _advice_with("relay.testing.check_grad"),
    "autotune.tvm.target": _advice_with("target.rocm"),
    "autotune.tvm.te": _advice_with("topi.unique"),
    "autotune.tvm.testing": "decorators and fixtures of pytest do the rest",
    "autotune.tvm.tir": _advice_with("tir.For"),
    "autotune.tvm.topi": _advice_with("topi.searchsorted"),
}


def resolver(module: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a module: modules below it are imported, gone names explained.

    Asking for an attribute that is gone is an AttributeError, so that `hasattr` answers.
    """

    def find(name: str) -> object:
        full = f"{module}.{name}"
        # Of modules that are gone the finder of all imports knows too, to explain them.
        places = getattr(sys.modules[module], "__path__", [])
        if name.startswith("_") or full in GONE or PathFinder.find_spec(full, places) is None:
            raise missing(module, name, GONE, OTHERS)
        return import_module(full)

    return find


def explain_modules() -> None:
    """Let the modules of this package explain names that they do not have, in this process."""
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the modules of this package as Python does, and has them loaded by `_Loader`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module below this package; None for any other."""
        if not fullname.startswith("autotune.tvm."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def explain_names(module: ModuleType) -> None:
    """Give a module that has no ``__getattr__`` of its own that of `resolver`.

    Of ``from module import name`` Python drops an AttributeError with its text, and imports a
    submodule of the name if the module is a package; so each module is made one, and the
    import of a module that is gone is explained too (`autotune.utils.names.Explainer`).
    """
    vars(module).setdefault("__path__", [])
    vars(module).setdefault("__getattr__", resolver(module.__name__))


class _Loader(SourceFileLoader):
    """Lets a module explain names that it does not have."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, see `explain_names`."""
        super().exec_module(module)
        explain_names(module)
