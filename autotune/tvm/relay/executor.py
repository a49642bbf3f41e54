"""TVM's ``relay.create_executor``: a network as a function of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autotune.errors import GraphError
from autotune.graph import Value, Variable
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.device import Device
from autotune.target import Target
from autotune.tvm.contrib.graph_executor import GraphModule
from autotune.tvm.relay.expr import bind
from autotune.tvm.relay.function import Function, IRModule
from autotune.tvm.relay.library import GraphExecutorFactoryModule, build
from autotune.utils.check import Check

__all__ = ["CompiledFunction", "Executor", "Result", "create_executor"]

Result = NDArray | list[NDArray]


class Executor:
    """Compiles networks, and makes functions of them.

    Attributes:
        mod: the module whose main function `evaluate` takes by default.
        device: where it runs; None for the target's.
        target: what is compiled for.
        params: numbers of parameters, by name.
    """

    def __init__(
        self,
        mod: object,
        device: Device | None,
        target: str | Target,
        params: Mapping[str, object] | None,
    ) -> None:
        self.mod = mod
        self.device = device
        self.target = Target(target)
        self.params = params

    def evaluate(
        self, expr: object = None, binds: Mapping[Variable, Value] | None = None
    ) -> Callable[..., Result] | Result:
        """Return a network as a function, or the value of an expression.

        Args:
            expr: the module, function or expression; by default the executor's module.
            binds: values of variables.

        Raises:
            GraphError: there is no network, or it cannot be compiled.
        """
        network = self.mod if expr is None else expr
        if network is None:
            raise GraphError("evaluate: expected expr, as the executor was created without mod")
        if binds:
            network = bind(network, binds)
        library = build(network, self.target, params=self.params)
        function = CompiledFunction(library, self.device)
        return function if isinstance(network, (Function, IRModule)) else function()


class CompiledFunction:
    """A compiled network that is called with its inputs, and returns arrays of its own."""

    def __init__(self, library: GraphExecutorFactoryModule, device: Device | None) -> None:
        self.module = GraphModule(library[library.libmod_name](device))
        self.names = library.network.plan.input_names

    def __call__(self, /, *inputs: object, **named: object) -> Result:
        """Run on inputs in the order of the network, or by name.

        Raises:
            GraphError: an input is missing, unknown, or given twice.
        """
        self.set_inputs(inputs, named)
        return self.run()

    def set_inputs(self, inputs: Sequence[object], named: Mapping[str, object]) -> None:
        """Keep all inputs for the next run: first those in order, then by name.

        Raises:
            GraphError: an input is missing, unknown, or given twice.
        """
        given = dict(zip(self.names, inputs, strict=False))
        wrong = [*(given.keys() & named.keys()), *(named.keys() - {*self.names})]
        given |= named
        if wrong or len(inputs) > len(self.names) or len(given) < len(self.names):
            raise GraphError(
                f"network: expected one value for each of {', '.join(self.names) or 'no inputs'}; "
                f"got {len(inputs)} in order and {', '.join(named) or 'none'} by name"
            )
        for name, value in given.items():
            self.module.set_input(name, value)

    def run(self) -> Result:
        """Run on the inputs that are set, and return arrays that later runs do not overwrite."""
        self.module.run()
        outputs = [self.module.get_output(i) for i in range(self.module.get_num_outputs())]
        copies = [each.copyto(each.device) for each in outputs]
        return copies[0] if len(copies) == 1 else copies


def create_executor(
    kind: str = "debug",
    mod: object = None,
    device: Device | None = None,
    target: str | Target = "llvm",
    params: Mapping[str, object] | None = None,
    ctx: Device | None = None,
) -> Executor:
    """Return what makes functions of networks: ``create_executor("graph", mod).evaluate()(x)``.

    Args:
        kind: one of TVM's, ``"debug"``, ``"graph"``, ``"vm"`` or ``"aot"``; all do the same.
        mod: the module; without it `Executor.evaluate` takes one.
        device: where it runs, by default the target's; ``ctx`` is the same by TVM's old name.
        target: what is compiled for.
        params: numbers of the parameters, by name; others are inputs of the function.

    Raises:
        GraphError: there is no such kind.
    """
    Check(GraphError, "create_executor").one_of("kind", kind, ("debug", "graph", "vm", "aot"))
    return Executor(mod, ctx if device is None else device, target, params)
