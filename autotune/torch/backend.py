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
            "torch.compile(backend='autotune'): gradients are enabled and the graph has parameters "
            "that require them; autotune has no backward pass, so torch runs it eagerly. For "
            "inference call the model under torch.no_grad() or torch.inference_mode()"
        )
        return graph_module.forward  # type: ignore[no-any-return]
    return Specialised(graph_module, how)


class Specialised:
    """A graph of dynamo, compiled for each set of shapes that it is called with."""

    def __init__(self, graph_module: Any, how: Compiling) -> None:
        self._graph_module = graph_module
        self._how = how
        self._torch = torch()
        self._lock = threading.Lock()
        self._known: dict[object, _Network | None] = {}

    def __call__(self, *args: Any) -> Any:
        """Run on what dynamo passes."""
        key = self._key(args)
        if key not in self._known:
            with self._lock:
                if key not in self._known:
                    self._known[key] = self._compiled(args)
        network = self._known[key]
        if network is not None and network.is_stale:
            with self._lock:
                network = self._known[key] = self._compiled(args)
        return self._graph_module(*args) if network is None else network(args)

    def _key(self, args: Sequence[Any]) -> object:
        """Return what a network is compiled for: shapes, numbers, and which parameters."""
        return tuple(
            [
                (id(each) if is_static(each) else tuple(each.shape), each.stride(), each.device)
                if isinstance(each, self._torch.Tensor)
                else each
                for each in args
            ]
        )

    def _compiled(self, args: Sequence[Any]) -> _Network | None:
        """Return a network for these shapes; None, after a warning, where torch is to run."""
        try:
            return _Network(self._graph_module, self._how, args)
        except AutotuneError as error:
            logger.warning("torch.compile(backend='autotune'): torch runs a graph: %s", error)
            return None


def is_static(tensor: Any) -> bool:
    """Return whether dynamo passes a tensor because a module holds it."""
    held = type(tensor).__name__ == "Parameter" or isinstance(tensor, torch().nn.Parameter)
    return held or getattr(tensor, "_dynamo_static_input_type", None) is not None


class _Network:
    """A graph of dynamo with the parameters that it was called with, as a compiled network."""

    def __init__(self, graph_module: Any, how: Compiling, args: Sequence[Any]) -> None:
        pytorch = torch()
        static = [
            i for i, each in enumerate(args) if isinstance(each, pytorch.Tensor) and is_static(each)
        ]
        self._places = [i for i in range(len(args)) if i not in static]
        module = _module(pytorch, graph_module, {i: args[i] for i in static}, len(args))
        program = read_program(exported(module, [args[i] for i in self._places]))
        if program.mutated:
            raise GraphError(f"it writes {', '.join(sorted(program.mutated))} in place")
        tensors = [each for each in args if isinstance(each, pytorch.Tensor)]
        where = device_of(tensors[0]) if tensors else device_of(pytorch.empty(0))
        apart = {str(each.device) for each in tensors if each.device != tensors[0].device}
        if apart:
            raise GraphError(f"its tensors are on {tensors[0].device} and {', '.join(apart)}")
        # Held, so that another tensor cannot get the identity of one that is gone.
        self._static = [args[i] for i in static]
        self._inputs = [
            i for i, each in zip(self._places, program.inputs, strict=True) if each is not None
        ]
        self._run = TensorNetwork(program, partial(how.compile, where=where), where)

    @property
    def is_stale(self) -> bool:
        """Whether parameters were written."""
        return self._run.is_stale

    def __call__(self, args: Sequence[Any]) -> Any:
        return tuple(self._run([args[i] for i in self._inputs]))


def _module(pytorch: Any, graph_module: Any, static: Mapping[int, Any], count: int) -> Any:
    """Return a module that holds the static arguments of a graph, and takes the others."""

    class Held(pytorch.nn.Module):  # type: ignore[misc, name-defined]
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
