"""TVM's ``relay.build``: from a module and its parameters to a library."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping

from autotune.errors import GraphError
from autotune.graph.passes import OWN, OWN_LAYERS, RELAY_TEMPLATES
from autotune.lowering.pass_context import PassContext
from autotune.network import ApplyHistoryBest, CompiledNetwork, NetworkInstance, compile_network
from autotune.network.export import export_network
from autotune.network.search_tasks import pipeline_for
from autotune.runtime.arrays.array import NDArray, array
from autotune.runtime.device_module import DeviceModule
from autotune.target import Target
from autotune.task import DispatchContext, FallbackContext
from autotune.tvm.relay.function import Function, IRModule, graph_of
from autotune.tvm.relay.unused_records import RecordedChoices
from autotune.utils.check import Check
from autotune.utils.names import Elsewhere

# What TVM does in several files.
_IN_ONE_FILE = {
    "save": "export_library(path) writes it to one file, which load_module(path) reads",
    "import_module": "the file that export_library writes holds the device code as well",
}


class GraphExecutorFactoryModule(Elsewhere):
    """A compiled network: ``lib["default"](dev)`` makes one that can be run.

    Attributes:
        ir_mod: what it was built from; None for one that was loaded.
        target: what for.
        libmod_name: its name.
        network: the network as autotune has it.
    """

    elsewhere = _IN_ONE_FILE

    def __init__(
        self, network: CompiledNetwork, ir_mod: object = None, libmod_name: str = "default"
    ) -> None:
        self.network = network
        self.ir_mod = ir_mod
        self.target = network.target
        self.libmod_name = libmod_name

    def __getitem__(self, name: str) -> Callable[..., NetworkInstance]:
        if name == "debug_create":  # of the name of the library, and the device
            return lambda libmod_name, device: self[libmod_name](device)
        if name != self.libmod_name:
            raise GraphError(f"library: expected {self.libmod_name!r}, got {name!r}")
        return self.network.instance

    def get_function(self, name: str) -> Callable[..., NetworkInstance]:
        """Return what makes the network of a name: ``lib.get_function("default")(device)``."""
        return self[name]

    @property
    def params(self) -> dict[str, NDArray]:
        """The constants, named p0, p1, ..."""
        return {f"p{i}": array(each.array) for i, each in enumerate(self.network.plan.constants)}

    def get_params(self) -> dict[str, NDArray]:
        """Return `params`."""
        return self.params

    def get_lib(self) -> GraphExecutorFactoryModule:
        """Return the library: itself."""
        return self

    @property
    def lib(self) -> GraphExecutorFactoryModule:
        """The library: itself."""
        return self

    @property
    def imported_modules(self) -> list[DeviceModule]:
        """The kernels, with `get_source`."""
        return [DeviceModule(module.kernel, self.target) for module in self.network.modules]

    def get_source(self, fmt: str = "") -> str:
        """Return the text of all kernels, in C or CUDA.

        Raises:
            GraphError: a form is asked for that the kernels do not have.
        """
        return "\n".join(each.get_source(fmt) for each in self.imported_modules)

    def get_graph_json(self) -> str:
        """Return the order of kernels as JSON, for readers; it is not what is executed."""
        plan = self.network.plan
        nodes = [{"op": "null", "name": name, "inputs": []} for name in plan.input_names]
        for step in plan.steps:
            name = self.network.modules[step.kernel].name
            attrs = {"func_name": name, "num_inputs": str(len(step.places) - 1)}
            nodes.append({"op": "tvm_op", "name": name, "attrs": attrs})  # type: ignore[dict-item]
        return json.dumps({"nodes": nodes, "arg_nodes": [*range(len(plan.inputs))]}, indent=2)

    get_executor_config = get_graph_json

    def export_library(self, file_name: str | os.PathLike[str], *_: object, **__: object) -> None:
        """Write kernels, plan and weights to one file; `tvm.runtime.load_module` reads it."""
        export_network(self.network, file_name)

    def __iter__(self) -> Iterator[object]:
        warnings.warn(
            "legacy graph executor behavior of producing json / lib / params will be removed in "
            "the next release; use the library itself: lib['default'](dev)",
            DeprecationWarning,
            stacklevel=2,
        )
        return iter((self.get_graph_json(), self, self.params))


def build(
    ir_mod: object,
    target: str | Target | None = None,
    target_host: object = None,
    executor: object = None,
    runtime: object = None,
    workspace_memory_pools: object = None,
    constant_memory_pools: object = None,
    params: Mapping[str, object] | None = None,
    mod_name: str = "default",
) -> GraphExecutorFactoryModule:
    """Compile a network. What has no tuned record runs untuned.

    With the option ``relay.backend.use_auto_scheduler`` of the pass context, the records of
    `auto_scheduler.ApplyHistoryBest` are used; else those of `autotvm.apply_history_best`.

    Args:
        ir_mod: a module, its function, or an expression.
        target: what for; by default the current target.
        target_host: accepted for TVM's scripts, as are the next four.
        executor: accepted.
        runtime: accepted.
        workspace_memory_pools: accepted.
        constant_memory_pools: accepted.
        params: numbers of the parameters, by name.
        mod_name: the name under which the library gives the network.

    Raises:
        GraphError: there is no target, or functions of the network cannot be compiled.
    """
    del target_host, executor, runtime, workspace_memory_pools, constant_memory_pools
    Check(GraphError, "relay.build").text("mod_name", mod_name, "default")
    chosen = Target.current() if target is None else Target(target)
    if chosen is None:
        raise GraphError("relay.build: target must be given, or be around as `with Target(...)`")
    context = PassContext.current()
    graph = graph_of(ir_mod).bind({} if params is None else params)
    history = ApplyHistoryBest.current
    wanted = bool(context.config.get("relay.backend.use_auto_scheduler"))
    if wanted and not history.is_empty:
        network = compile_network(
            graph, chosen, pipeline_for(chosen), context.opt_level, choose=history.choose
        )
    else:
        dispatch = DispatchContext.current
        own = OWN if isinstance(dispatch, FallbackContext) else OWN_LAYERS
        recorded = RecordedChoices(dispatch)
        network = compile_network(graph, chosen, own, context.opt_level, choose=recorded.choose)
        recorded.warn(chosen)
    return GraphExecutorFactoryModule(network, ir_mod, mod_name)


def optimize(
    mod: object, target: object = None, params: Mapping[str, object] | None = None
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return a network as simplified as it can be for any target, to be read or built.

    Parameters are constants of it, norms are folded into layers, and what occurs twice is computed
    once. `build` fuses operators and chooses layouts.

    Args:
        mod: a module, its function, or an expression.
        target: accepted for TVM's scripts.
        params: numbers of the parameters, by name.

    Returns:
        The network, and its parameters: none are left.
    """
    del target
    graph = graph_of(mod).bind({} if params is None else params)
    simpler = RELAY_TEMPLATES(graph, PassContext.current().opt_level)
    return IRModule.from_expr(simpler), {}


def bind_params_by_name(function: object, params: Mapping[str, object]) -> Function:
    """Return a function whose parameters are constants."""
    return IRModule.from_expr(graph_of(function).bind(params))["main"]
