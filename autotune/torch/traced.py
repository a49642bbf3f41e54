"""A graph of dynamo as a module that torch can export without losing what it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from autotune.utils.lazy_torch import torch


class Number:
    """Stands for a tensor of which only the number is asked."""

    def __init__(self, value: object) -> None:
        self._value = value

    def item(self) -> object:
        """Return the number."""
        return self._value


def name_of(place: int) -> str:
    """Return the name under which a module holds an argument."""
    return f"argument_{place}"


def module_of(
    graph_module: Any, static: Mapping[int, Any], numbers: Mapping[int, Number], count: int
) -> Any:
    """Return a module that holds static arguments of a graph and numbers, and takes the others.

    Args:
        graph_module: the graph.
        static: parameters and buffers, by their places among the arguments.
        numbers: what stands for tensors that are asked for numbers, by their places.
        count: of all arguments.
    """
    pytorch: Any = torch()
    run = _with_autocast(pytorch, graph_module)

    class Held(pytorch.nn.Module):  # type: ignore[misc]
        """A graph of dynamo."""

        def __init__(self) -> None:
            super().__init__()
            for number, tensor in static.items():
                if isinstance(tensor, pytorch.nn.Parameter):
                    self.register_parameter(name_of(number), tensor)
                else:
                    self.register_buffer(name_of(number), tensor)

        def forward(self, *others: Any) -> Any:
            left = iter(others)
            args = [
                getattr(self, name_of(i)) if i in static
                else numbers[i] if i in numbers else next(left)
                for i in range(count)
            ]  # fmt: skip
            return run(*args)

    return Held().eval()


def _with_autocast(pytorch: Any, graph_module: Any) -> Any:
    """Return a graph whose regions of `torch.autocast` are entered while it is exported.

    What dynamo calls for them is recorded then and not run, so calls within would not be cast.
    """
    modes = pytorch.amp.autocast_mode
    ends = modes._enter_autocast, modes._exit_autocast
    if all(node.target not in ends for node in graph_module.graph.nodes):
        return graph_module

    class Regions(pytorch.fx.Interpreter):  # type: ignore[misc]
        """Runs a graph, and leaves all regions where a call within one raises."""

        def run(self, *args: Any) -> Any:
            with ExitStack() as self.entered:
                return super().run(*args)

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target not in ends:
                return super().call_function(target, args, kwargs)
            if target is modes._enter_autocast:
                region = self.entered.enter_context(ExitStack())
                region.enter_context(pytorch.amp.autocast(*args))
                return region
            return args[0].close()

    return Regions(graph_module).run


@contextmanager
def kept_calls(graph_module: Any) -> Iterator[None]:
    """Let torch keep assertions, and other libraries' operators whose results nobody reads.

    These may have effects, of which torch asks the operator's schema alone; of assertions torch
    itself keeps those with a message.
    """
    pytorch = torch()
    known: set[Any] = getattr(pytorch.fx.node, "_side_effectful_functions", set())
    added: set[Any] = {pytorch.ops.aten._assert_async.default}
    for node in graph_module.graph.nodes:
        packet = getattr(node.target, "overloadpacket", node.target)
        name = getattr(packet, "_qualified_op_name", "aten::")
        if name.partition("::")[0] not in ("aten", "prims"):
            added.update(getattr(packet, each) for each in packet.overloads())
    added -= known
    known |= added
    try:
        yield
    finally:
        known -= added
