"""The backend of `torch.compile`: graphs that dynamo captures run as compiled networks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from autotune.errors import AutotuneError, GraphError
from autotune.importers import exported, read_program
from autotune.torch.compiling import Compiling, device_of
from autotune.torch.tensor_network import TensorNetwork
from autotune.utils.lazy_torch import torch

logger = logging.getLogger("autotune")
# Dynamo's mark of tensors that it passes because a module holds them.
_STATIC = "_dynamo_static_input_type"


def backend(
    graph_module: Any, example_inputs: Sequence[Any], options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Return what runs a graph of dynamo: ``torch.compile(model, backend="autotune")``.

    A network is compiled at the first call with each set of shapes. Parameters become constants;
    when they are written the network is compiled anew, from kernels that are compiled already. A
    graph with an operator that cannot be imported, that writes its inputs, or that needs gradients
    runs by torch itself, which is said once in a warning.

    Args:
        graph_module: the graph.
        example_inputs: what dynamo traced it with.
        options: ``tune``, seconds for each network, and ``log``, a path.

    Raises:
        KernelError: an option is invalid.
    """
    how = Compiling.of(options)
    pytorch = torch()
    tensors = [each for each in example_inputs if isinstance(each, pytorch.Tensor)]
    if pytorch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        logger.warning(
            "torch.compile(backend='autotune'): gradients are enabled and the graph has tensors "
            "that require them; autotune has no backward pass, so torch runs it eagerly. For "
            "inference call the model under torch.no_grad() or torch.inference_mode()"
        )
        return graph_module.forward  # type: ignore[no-any-return]
    return Specialised(graph_module, how)


class Specialised:
    """A graph of dynamo, compiled for each set of shapes that it is called with.

    Dynamo guards the shapes of a graph, unless some are symbols: then it passes them as numbers.
    """

    def __init__(self, graph_module: Any, how: Compiling) -> None:
        self._graph_module = graph_module
        self._how = how
        self._lock = threading.Lock()
        self._known: list[_Network] = []
        # Keys of what torch runs.
        self._refused: list[_Key] = []

    def __call__(self, *args: Any) -> Any:
        """Run on what dynamo passes."""
        for network in self._known:
            if network.key.fits(args):
                results = network(args)
                return self._renewed(network, args) if results is None else results
        if not any(key.fits(args) for key in self._refused):
            made = self._compiled(args)
            results = None if made is None else made(args)
            if results is not None:
                return results
        return self._graph_module(*args)

    def _renewed(self, network: _Network, args: Sequence[Any]) -> Any:
        """Return the results of a network whose parameters were written."""
        with self._lock:
            self._known = [each for each in self._known if each is not network]
        return self(*args)

    def _compiled(self, args: Sequence[Any]) -> _Network | None:
        """Return a network for these shapes; None, after a warning, where torch is to run."""
        key = _Key(args)
        with self._lock:
            for each in self._known:  # another thread was faster
                if each.key.fits(args):
                    return each
            try:
                made = _Network(self._graph_module, self._how, args, key)
            except AutotuneError as error:
                logger.warning("torch.compile(backend='autotune'): torch runs a graph: %s", error)
                self._refused.append(key)
                return None
            self._known = [made, *self._known]
            return made


class _Key:
    """What a network is compiled for: its parameters, and the shapes of all else.

    Attributes:
        static: places of the parameters among the arguments.
    """

    def __init__(self, args: Sequence[Any]) -> None:
        self._torch = torch()
        tensor, parameter = self._torch.Tensor, self._torch.nn.Parameter
        self.static = [
            i for i, each in enumerate(args) if isinstance(each, tensor)
            and (isinstance(each, parameter) or hasattr(each, _STATIC))
        ]  # fmt: skip
        # Held, so that no other tensor gets the identity of one that is gone.
        self._held = [args[i] for i in self.static]
        self._ids = [id(each) for each in self._held]
        self._rest = [i for i in range(len(args)) if i not in set(self.static)]
        self._shapes = self._now(args)

    def _now(self, args: Sequence[Any]) -> list[object]:
        tensor = self._torch.Tensor
        return [
            (each.shape, each.stride()) if isinstance(each, tensor) else each
            for each in [args[i] for i in self._rest]
        ]

    def fits(self, args: Sequence[Any]) -> bool:
        """Return whether arguments are those parameters, and of those shapes."""
        return [id(args[i]) for i in self.static] == self._ids and self._now(args) == self._shapes


class _Network:
    """A graph of dynamo with the parameters that it was called with, as a compiled network."""

    def __init__(self, graph_module: Any, how: Compiling, args: Sequence[Any], key: _Key) -> None:
        self.key = key
        pytorch = torch()
        places = [i for i in range(len(args)) if i not in set(key.static)]
        module = _module(pytorch, graph_module, {i: args[i] for i in key.static}, len(args))
        program = read_program(exported(module, [args[i] for i in places]))
        if program.mutated:
            raise GraphError(f"it writes {', '.join(sorted(program.mutated))} in place")
        tensors = [each for each in args if isinstance(each, pytorch.Tensor)]
        where = device_of(tensors[0]) if tensors else device_of(pytorch.empty(0))
        apart = {str(each.device) for each in tensors if each.device != tensors[0].device}
        if apart:
            raise GraphError(f"its tensors are on {tensors[0].device} and {', '.join(apart)}")
        self._inputs = [
            i for i, each in zip(places, program.inputs, strict=True) if each is not None
        ]
        self._run = TensorNetwork(program, partial(how.compile, where=where), where)

    def __call__(self, args: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return the results; None if parameters were written."""
        results = self._run([args[i] for i in self._inputs])
        return None if results is None else tuple(results)


def _module(pytorch: Any, graph_module: Any, static: Mapping[int, Any], count: int) -> Any:
    """Return a module that holds the static arguments of a graph, and takes the others."""

    class Held(pytorch.nn.Module):  # type: ignore[misc]
        """A graph of dynamo."""

        def __init__(self) -> None:
            super().__init__()
            for number, tensor in static.items():
                if isinstance(tensor, pytorch.nn.Parameter):
                    self.register_parameter(f"argument_{number}", tensor)
                else:
                    self.register_buffer(f"argument_{number}", tensor)

        def forward(self, *others: Any) -> Any:
            left = iter(others)
            args = [
                getattr(self, f"argument_{i}") if i in static else next(left) for i in range(count)
            ]
            return graph_module(*args)

    return Held().eval()
