"""TorchScript as an ordinary module, which torch can export: its graph, run operator by operator.

The operators of a traced or scripted model are those of ATen, so calling them one by one is a
program that `torch.export` reads as any other. Branches and loops run as their conditions say for
the example inputs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.errors import GraphError
from autotune.utils.lazy_torch import torch

# Operators on Python's numbers, lists and truth values, which ATen has under names of tensors.
_ON_NUMBERS: dict[str, Callable[..., Any]] = {
    "aten::Bool": bool,
    "aten::Float": float,
    "aten::FloatImplicit": float,
    "aten::Int": int,
    "aten::IntImplicit": int,
    "aten::ScalarImplicit": lambda a: a,
    "aten::__and__": operator.and_,
    "aten::__contains__": operator.contains,
    "aten::__getitem__": operator.getitem,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::__not__": operator.not_,
    "aten::__or__": operator.or_,
    "aten::add": lambda a, b, alpha=1: a + b,
    "aten::append": lambda a, b: [*a, b],
    "aten::ceil": lambda a: int(-(-a // 1)),
    "aten::div": lambda a, b, rounding_mode=None: a // b if rounding_mode else a / b,
    "aten::eq": operator.eq,
    "aten::floor": lambda a: int(a // 1),
    "aten::floor_divide": operator.floordiv,
    "aten::floordiv": operator.floordiv,
    "aten::ge": operator.ge,
    "aten::gt": operator.gt,
    "aten::le": operator.le,
    "aten::len": len,
    "aten::list": list,
    "aten::lt": operator.lt,
    "aten::mul": operator.mul,
    "aten::ne": operator.ne,
    "aten::neg": operator.neg,
    "aten::remainder": operator.mod,
    "aten::sub": lambda a, b, alpha=1: a - b,
    "prim::NumToTensor": lambda a: a,
    "prim::max": max,
    "prim::min": min,
    "prim::unchecked_cast": lambda a: a,
    "prim::unchecked_unwrap_optional": lambda a: a,
    "aten::_unwrap_optional": lambda a: a,
}
# What is asked of a tensor.
_OF_TENSORS: dict[str, Callable[..., Any]] = {
    "aten::dim": lambda x: x.dim(),
    "aten::is_floating_point": lambda x: x.is_floating_point(),
    "aten::numel": lambda x: x.numel(),
    "aten::size": lambda x, dim=None: list(x.shape) if dim is None else x.shape[dim],
    "prim::device": lambda x: x.device,
    "prim::dtype": lambda x: x.dtype,
    "prim::is_cuda": lambda x: x.is_cuda,
    "prim::layout": lambda x: x.layout,
    "prim::shape": lambda x: list(x.shape),
}
_LISTS: dict[str, Callable[..., Any]] = {
    "prim::ListConstruct": lambda *parts: list(parts),
    "prim::TupleConstruct": lambda *parts: tuple(parts),
    "prim::TupleIndex": operator.getitem,
}
_NOTHING = ("prim::Print", "aten::warn", "prim::RaiseException", "aten::_assert_tensor_metadata")


@dataclass(frozen=True)
class _Place:
    """A module within the script, by the names that lead to it."""

    names: tuple[str, ...] = ()


def module_of_script(script: Any) -> Any:
    """Return a module that computes what a ScriptModule or a scripted function does."""
    pytorch = torch("from_pytorch", GraphError)
    is_module = isinstance(script, pytorch.jit.ScriptModule)
    graph = script.inlined_graph

    class Script(pytorch.nn.Module):  # type: ignore[misc, name-defined]
        """The graph of a script, with its parameters under their names."""

        def __init__(self) -> None:
            super().__init__()
            # In a list, so that torch does not see it as a module of this one.
            self.script = [script]
            if is_module:
                _copy_tensors(pytorch, script, self)

        def forward(self, *args: Any) -> Any:
            given = (_Place(), *args) if is_module else args
            return _Run(pytorch, script, self).results(graph, given)

    return Script().eval()


def _copy_tensors(pytorch: Any, source: Any, to: Any) -> None:
    """Give a module the parameters and buffers of a script, in modules of the same names."""
    for name, child in source.named_children():
        inner = pytorch.nn.Module()
        _copy_tensors(pytorch, child, inner)
        to.add_module(name, inner)
    for name, parameter in source.named_parameters(recurse=False):
        to.register_parameter(name, pytorch.nn.Parameter(parameter.data, requires_grad=False))
    for name, buffer in source.named_buffers(recurse=False):
        to.register_buffer(name, buffer)


@dataclass
class _Run:
    """One run of a graph of TorchScript.

    Attributes:
        torch: the module.
        script: what the graph is of.
        holder: has the tensors.
        known: what each value of the graph is.
    """

    torch: Any
    script: Any
    holder: Any
    known: dict[str, Any] = field(default_factory=dict)

    def results(self, graph: Any, given: Sequence[Any]) -> Any:
        """Run a graph."""
        inputs = list(graph.inputs())
        if len(given) > len(inputs):
            raise GraphError(
                f"from_pytorch: the script takes {len(inputs) - 1} inputs, got {len(given) - 1}"
            )
        for each, value in zip(inputs, given, strict=False):
            self.known[each.debugName()] = value
        found = self._block(graph)
        return found[0] if len(found) == 1 else tuple(found)

    def _block(self, block: Any) -> list[Any]:
        for node in block.nodes():
            self._node(node)
        return [self._value(each) for each in block.outputs()]

    def _value(self, value: Any) -> Any:
        return self.known[value.debugName()]

    def _node(self, node: Any) -> None:
        kind, outputs = node.kind(), list(node.outputs())
        inputs = [self._value(each) for each in node.inputs()]
        if kind in ("prim::ListUnpack", "prim::TupleUnpack"):
            results = list(inputs[0])
        elif kind == "prim::If":
            results = self._block(list(node.blocks())[0 if bool(inputs[0]) else 1])
        elif kind == "prim::Loop":
            results = self._loop(node, inputs)
        else:
            made = self._made(node, kind, inputs)
            results = [made] if len(outputs) == 1 else list(made or ())
        for each, result in zip(outputs, results, strict=False):
            self.known[each.debugName()] = result

    def _loop(self, node: Any, inputs: Sequence[Any]) -> list[Any]:
        (body,) = node.blocks()
        most, goes_on, *carried = inputs
        number = 0
        while number < most and bool(goes_on):
            for each, value in zip(body.inputs(), (number, *carried), strict=True):
                self.known[each.debugName()] = value
            goes_on, *carried = self._block(body)
            number += 1
        return carried

    def _made(self, node: Any, kind: str, inputs: list[Any]) -> Any:
        if kind == "prim::Constant":
            output = node.output()
            return output.toIValue()
        if kind == "prim::GetAttr":
            return self._attribute(inputs[0], node.s("name"))
        if kind in _LISTS:
            return _LISTS[kind](*inputs)
        if kind in _NOTHING:
            if kind == "prim::RaiseException":
                raise GraphError(f"from_pytorch: the script raises {inputs[0]}")
            return None
        tensors = any(isinstance(each, self.torch.Tensor) for each in _flat(inputs))
        if kind in _OF_TENSORS and tensors:
            return _OF_TENSORS[kind](*inputs)
        is_list = bool(inputs) and isinstance(inputs[0], (list, tuple, dict))
        if kind in _ON_NUMBERS and (not tensors or is_list or kind.startswith("prim::")):
            return _ON_NUMBERS[kind](*inputs)
        return self._called(node, kind, inputs)

    def _attribute(self, owner: _Place, name: str) -> Any:
        names = (*owner.names, name)
        held, there = self.holder, self.script
        for each in names:
            held = getattr(held, each, None)
            there = getattr(there, each)
        if isinstance(held, self.torch.Tensor):
            return held
        return _Place(names) if isinstance(there, self.torch.nn.Module) else there

    def _called(self, node: Any, kind: str, inputs: list[Any]) -> Any:
        """Call an operator by its overload."""
        namespace, _, name = kind.partition("::")
        overload = node.schema().partition("(")[0].partition(".")[2] or "default"
        try:
            function = getattr(getattr(getattr(self.torch.ops, namespace), name), overload)
        except (AttributeError, RuntimeError):
            raise GraphError(
                f"from_pytorch: {kind} of TorchScript is not supported; pass the nn.Module "
                "itself with example inputs"
            ) from None
        args, named = [], {}
        for value, argument in zip(inputs, function._schema.arguments, strict=False):
            if argument.kwarg_only:
                named[argument.name] = value
            else:
                args.append(value)
        return function(*args, **named)


def _flat(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for each in values:
        found.extend(_flat(each) if isinstance(each, (list, tuple)) else [each])
    return found
