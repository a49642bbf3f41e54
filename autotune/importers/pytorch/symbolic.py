"""A program of torch that is traced once for many sizes, and the program of each set of them."""

from __future__ import annotations

import logging
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotune.importers.pytorch.nodes import mapped
from autotune.importers.pytorch.writes import inputs_of, memory_of
from autotune.utils.lazy_torch import torch

logger = logging.getLogger("autotune")


@dataclass(frozen=True)
class FixedProgram:
    """A program of fixed sizes, with what is read of an exported one under the same names."""

    graph: Any
    graph_module: Any
    graph_signature: Any
    state_dict: Mapping[str, Any]
    constants: Mapping[str, Any]
    call_spec: Any


class SymbolicProgram:
    """An exported program some of whose sizes are symbols.

    Tracing a model takes seconds, giving its calls other sizes milliseconds: their results get the
    shapes and strides that torch found as terms of the symbols, and share memory as they did. What
    torch assumed of sizes while it traced it wrote down; where it does not hold there is no
    program, and the model is to be traced again.

    Args:
        program: of which the inputs' sizes may be symbols, and no call writes to memory.
    """

    def __init__(self, program: Any) -> None:
        pytorch = torch()
        self._program = program
        self._nodes = list(program.graph.nodes)
        vals = [each.meta.get("val") for each in self._nodes if each.op == "placeholder"]
        self._mode = pytorch._guards.detect_fake_mode(vals)
        by_name = {each.name: each for each in self._nodes if each.op == "placeholder"}
        self._inputs = [by_name[name] for name in inputs_of(program)]

    def at(self, args: Sequence[Any]) -> FixedProgram | None:
        """Return the program for inputs of these sizes; None where it was not traced for such."""
        pytorch = torch()
        with pytorch.no_grad(), pytorch._C._DisableAutocast():
            try:
                sizes = self._sizes(args)
                return None if sizes is None else _Fixing(self._program, self._mode, sizes).run()
            except Exception:  # ours, or whatever torch raises where a call refuses these sizes
                logger.debug("", exc_info=True)
                return None

    def _sizes(self, args: Sequence[Any]) -> _Sizes | None:
        """Return the numbers of all symbols; None where the inputs do not fit what was traced."""
        tensor = torch().Tensor
        pairs: list[tuple[Any, int]] = []
        for node, given in zip(self._inputs, args, strict=True):
            traced = node.meta["val"]
            if isinstance(traced, tensor):
                if (given.dtype, given.device, given.dim()) != (
                    traced.dtype, traced.device, traced.dim()
                ):  # fmt: skip
                    return None
                pairs += zip(traced.shape, given.shape, strict=True)
                pairs += zip(traced.stride(), given.stride(), strict=True)
            elif isinstance(traced, torch().SymInt):
                pairs.append((traced, given))
            elif type(traced) is not type(given) or traced != given:
                return None
        sizes = _Sizes({
            each.node.expr: number for each, number in pairs
            if not isinstance(each, int) and each.node.expr.is_Symbol
        })  # fmt: skip
        if any(sizes.number(each) != number for each, number in pairs):
            return None
        return sizes if sizes.hold(self._mode.shape_env) else None


class _OtherError(Exception):
    """The program was traced for other sizes."""


class _Sizes:
    """What each symbol stands for."""

    def __init__(self, values: Mapping[Any, int]) -> None:
        self._values = values
        self._known: dict[Any, Any] = {}

    def number(self, symbolic: Any) -> Any:
        """Return what a symbolic number of torch stands for; others are their own."""
        node = getattr(symbolic, "node", None)
        if node is None:
            return symbolic
        if node.expr not in self._known:
            found = node.expr.xreplace(self._values)
            if _is_open(found):
                raise _OtherError
            self._known[node.expr] = node.pytype(found)
        return self._known[node.expr]

    def hold(self, shape_env: Any) -> bool:
        """Return whether they are as torch assumed while it traced."""
        for symbol, ends in shape_env.var_to_range.items():
            number = shape_env.replace(symbol).xreplace(self._values)
            if not _is_open(number) and not ends.lower <= number <= ends.upper:
                return False
        later = [
            each for several in shape_env.deferred_runtime_asserts.values() for each in several
        ]
        assumed = [shape_env.replace(each.expr) for each in (*shape_env.guards, *later)]
        return all(bool(each.xreplace(self._values)) for each in assumed)


def _is_open(number: Any) -> bool:
    """Return whether a symbol is left in a number."""
    return bool(getattr(number, "free_symbols", ()))


class _Fixing:
    """The writing of one program of fixed sizes."""

    def __init__(self, program: Any, mode: Any, sizes: _Sizes) -> None:
        self._program = program
        self._mode = mode
        self._sizes = sizes
        self._graph = torch().fx.Graph()
        # What became of each node: a node of the new graph, or a number.
        self._made: dict[Any, Any] = {}
        # Nodes that are not as they were traced.
        self._changed: set[Any] = set()
        # By the memory of a traced tensor, that of what became of it.
        self._memory: dict[int, Any] = {}

    def run(self) -> FixedProgram:
        for node in self._program.graph.nodes:
            match node.op:
                case "placeholder":
                    self._input(node)
                case "call_function":
                    self._call(node)
                case "output":
                    results = mapped(node.args[0], self._made.__getitem__)
                    self._graph.output(tuple(results)).meta = dict(node.meta)
                case _:
                    raise _OtherError
        program = self._program
        return FixedProgram(
            self._graph, program.graph_module, self._signature(results), program.state_dict,
            program.constants, program.call_spec,
        )  # fmt: skip

    def _input(self, node: Any) -> None:
        made, traced = self._copy(node), node.meta["val"]
        if not isinstance(traced, torch().Tensor):
            self._made[node] = made.meta["val"] = self._sizes.number(traced)
            self._changed.add(node)
            return
        if any(isinstance(each, torch().SymInt) for each in (*traced.shape, *traced.stride())):
            made.meta["val"] = self._tensor(traced)
            self._changed.add(node)
        else:
            self._keep_memory(node)

    def _call(self, node: Any) -> None:
        traced = node.meta.get("val")
        if isinstance(traced, int | float | _symbolic()):
            self._made[node] = self._sizes.number(traced)
            self._changed.add(node)
            return
        args, kwargs = (mapped(each, self._made.__getitem__) for each in (node.args, node.kwargs))
        inputs = node.all_input_nodes
        if self._changed.isdisjoint(inputs):
            self._copy(node)
            self._keep_memory(node)
            return
        if node.target is not operator.getitem and _may_write(node.target):
            raise _OtherError
        self._changed.add(node)
        if traced is None:
            self._assert(node, args, kwargs)
            return
        made = self._copy(node)
        made.meta["val"] = self._with_sizes(traced)

    def _assert(self, node: Any, args: Any, kwargs: Any) -> None:
        """Make an assertion about sizes now; one about numbers is made by the program."""
        if any(hasattr(self._made[each], "meta") for each in node.all_input_nodes):
            self._copy(node)
            return
        with self._mode:
            node.target(*args, **kwargs)

    def _with_sizes(self, traced: Any) -> Any:
        """Return a traced result with these sizes."""
        if isinstance(traced, (list, tuple)):
            return type(traced)(map(self._with_sizes, traced))
        if isinstance(traced, torch().Tensor):
            return self._tensor(traced)
        return self._sizes.number(traced)

    def _tensor(self, traced: Any) -> Any:
        """Return a traced tensor without numbers with these sizes."""
        pytorch, memory = torch(), memory_of(traced)
        if memory not in self._memory:
            size = self._sizes.number(traced.untyped_storage().nbytes())
            self._memory[memory] = pytorch.UntypedStorage(size, device="meta")
        offset = self._sizes.number(traced.storage_offset())
        made = pytorch.empty(0, dtype=traced.dtype, device="meta")
        made.set_(self._memory[memory], offset, *self._geometry(traced))
        return type(traced)(self._mode, made, traced.device)

    def _keep_memory(self, node: Any) -> None:
        """Note where results are that stay as they were traced; others may be views of them."""
        for each in _several(node.meta.get("val")):
            if isinstance(each, torch().Tensor):
                self._memory[memory_of(each)] = each.untyped_storage()

    def _copy(self, node: Any) -> Any:
        made = self._graph.create_node(
            node.op, node.target, *self._arguments(node), node.name, node.type
        )
        made.meta = dict(node.meta)
        self._made[node] = made
        return made

    def _arguments(self, node: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = (mapped(each, self._made.__getitem__) for each in (node.args, node.kwargs))
        return tuple(args), kwargs

    def _geometry(self, tensor: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return shape and strides of a traced tensor with these sizes."""
        number = self._sizes.number
        return tuple(map(number, tensor.shape)), tuple(map(number, tensor.stride()))

    def _signature(self, results: Sequence[Any]) -> Any:
        """Return the signature, with the numbers of results that are sizes."""
        signature = self._program.graph_signature
        constant = torch().export.graph_signature.ConstantArgument
        specs = [
            replace(spec, arg=constant("", made)) if isinstance(made, int | float) else spec
            for spec, made in zip(signature.output_specs, results, strict=True)
        ]  # fmt: skip
        return replace(signature, output_specs=specs)


def _several(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (list, tuple)) else (result,)


def _symbolic() -> Any:
    pytorch = torch()
    return pytorch.SymInt | pytorch.SymFloat | pytorch.SymBool


def _may_write(target: Any) -> bool:
    """Return whether a call may do more than compute, or does what torch alone knows."""
    schema = getattr(target, "_schema", None)
    return schema is None or schema.is_mutable
