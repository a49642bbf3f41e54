"""From a program of ATen operators, as torch exports it, to a graph: call by call."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.errors import GraphError
from autotune.graph import Constant, TensorType, Value
from autotune.importers.pytorch import complex_numbers, converters
from autotune.importers.pytorch.call import Bound, Call, Converter, converter_of
from autotune.importers.pytorch.complex_numbers import Complex, has_complex, is_of_complex
from autotune.importers.pytorch.movement import moved, only_moves
from autotune.importers.pytorch.nodes import has_turn, in_order, mapped, origin_of, types_of
from autotune.importers.pytorch.tensors import empty_like, is_empty, numbers_of, type_of
from autotune.utils.lazy_torch import torch

__all__ = ["Translation", "converters"]  # the converters enter themselves as they are imported

# Operators whose result nobody reads.
_CHECKS = ("_assert", "sym_constrain", "_check", "copy_")
# Operators that read the type of their input only: what they make is known.
_OF_TYPE = (
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full",
    "new_empty", "new_empty_strided",
)  # fmt: skip


_PUTS = ("aten.index_put.default", "aten._unsafe_index_put.default")
# What also writes at indices that are known only at run time.
_WRITES: Mapping[str, Converter] = {
    **dict.fromkeys(("aten.scatter.src", "aten.scatter.value"), converters.sort.scattered),
    **dict.fromkeys(_PUTS, converters.index.written),
}
# Operators some of whose tensors may have no elements.
_JOINS = ("cat", "concat", "concatenate", "slice_scatter")


@dataclass
class Translation:
    """The translation of one program.

    Attributes:
        known: tensors that are computed while importing: buffers of whole numbers, and what
            follows from them and from nothing else; and all tensors without elements.
        values: what each other node became: a value of the graph, two of them where it is complex,
            a list of these, or None where an operator is missing.
        missing: operators that cannot be translated, how often each is called.
        own: converters of the caller, by names of operators.
        bounds: of indices that are not known.
    """

    own: Mapping[str, Converter] = field(default_factory=dict)
    bounds: list[Bound] = field(default_factory=list)
    known: dict[Any, Any] = field(default_factory=dict)
    values: dict[Any, Any] = field(default_factory=dict)
    missing: Counter[str] = field(default_factory=Counter)

    def run(self, nodes: Sequence[Any]) -> None:
        """Translate all calls.

        Raises:
            GraphError: operators are missing, all of which are listed, or a call is refused.
        """
        for node in nodes:
            if node.op == "call_function":
                self._call(node)
        if self.missing:
            listed = ", ".join(f"{name} ({n})" for name, n in sorted(self.missing.items()))
            raise GraphError(
                f"PyTorch: these operators cannot be imported (how often each is called): {listed}"
            )

    def goes_on_without(self, node: Any, reason: str) -> bool:
        """Return whether the translation goes on without a tensor that no graph can have."""
        return False

    def value(self, node: Any) -> Value:
        """Return the value of a node; numbers that are known become a constant.

        Raises:
            GraphError: it is complex.
        """
        found = self._real_or_complex(node)
        if isinstance(found, Complex):
            raise GraphError(
                f"PyTorch: {node.name} is complex, and networks neither write nor return complex "
                "tensors; return torch.view_as_real of it"
            )
        return found

    def _real_or_complex(self, node: Any) -> Value | Complex:
        if node not in self.values:
            tensor = self.known[node]
            self.values[node] = (
                complex_numbers.constant(tensor, node.name)
                if has_complex(tensor)
                else Constant(type_of(tensor), lambda: numbers_of(tensor), node.name)
            )
        found: Value | Complex = self.values[node]
        return found

    def has_value(self, node: Any) -> bool:
        """Return whether a node became one value of the graph, or is known."""
        return isinstance(self.values.get(node), Value) or node in self.known

    def _some(self, node: Any) -> Value | None:
        """Return the value of a node; None where it has no elements."""
        return None if is_empty(self.known.get(node)) else self.value(node)

    def _call(self, node: Any) -> None:
        name = str(node.target)
        if node.target is operator.getitem:
            self._part(node)
        elif is_check(node) or is_assertion(node):
            self.values[node] = None
        elif has_turn(node):
            self._translate(node)
        elif is_empty(node.meta.get("val")):
            self.known[node] = empty_like(node.meta["val"])
        elif _short(name) in _OF_TYPE or all(each in self.known for each in node.all_input_nodes):
            self._compute(node)
        else:
            self._translate(node)

    def _part(self, node: Any) -> None:
        whole, number = node.args
        if whole in self.known:
            self.known[node] = self.known[whole][number]
            return
        if is_empty(node.meta.get("val")):
            self.known[node] = empty_like(node.meta["val"])
            return
        several = self.values[whole]
        made = whole.meta["val"]
        some = [i for i, each in enumerate(made) if hasattr(each, "dtype") and not is_empty(each)]
        # Parts without elements were left out (`types_of`).
        if several is not None and len(several) == len(some) < len(made) and number in some:
            number = some.index(number)
        self.values[node] = None if several is None else several[number]
        if several is not None and several[number] is None and node.users:
            self.missing[f"{whole.target}, its result {number}"] += 1

    def _compute(self, node: Any) -> None:
        """Let torch compute what is known while importing."""
        if _short(str(node.target)) in _OF_TYPE:
            like = node.args[0].meta["val"]
            made = torch("importers", GraphError).empty(tuple(like.shape), dtype=like.dtype)
            args = [made, *node.args[1:]]
        else:
            args = mapped(node.args, self.known.get)
        kwargs = mapped(node.kwargs, self.known.get)
        if kwargs.get("device") is not None:
            kwargs["device"] = "cpu"
        try:
            self.known[node] = node.target(*args, **kwargs)
        except (RuntimeError, NotImplementedError):
            self._miss(node)

    def _miss(self, node: Any) -> None:
        self.values[node] = None
        self.missing[str(node.target)] += 1

    def _translate(self, node: Any) -> None:
        convert = converter_of(node.target, self.own)
        moves = only_moves(node.target)
        of_complex = is_of_complex(node)
        if convert is None and not moves and not of_complex:
            self._miss(node)
        elif any(self.values.get(n, n) is None for n in node.all_input_nodes):
            self.values[node] = None  # it follows an operator that is missing
        elif of_complex:
            self.values[node] = complex_numbers.converted(node, self._real_or_complex, self.bounds)
            if self.values[node] is None:
                self._miss(node)
        elif convert is not None:
            self.values[node] = self._converted(node, convert)
        else:
            self.values[node] = self._moved(node)
            if self.values[node] is None:
                self._miss(node)

    def _moved(self, node: Any) -> Any:
        """Return what only moves elements: to places that are known, or where the data say."""
        made = None
        if str(node.target) in _PUTS:
            made = self._converted(node, converters.index.written_in_steps)
        if made is None:
            made = moved(node, self.value, self.known.get)
        written = _WRITES.get(str(node.target))
        return self._converted(node, written) if made is None and written is not None else made

    def _converted(self, node: Any, convert: Callable[..., Any]) -> Any:
        call = Call(str(node.target), types_of(node), origin_of(node), self.bounds)
        joins = _short(str(node.target)) in _JOINS
        made = convert(call, *mapped(in_order(node), self._some if joins else self.value))
        if made is None:
            return None
        several = [made] if isinstance(made, Value) else list(made)
        for value, kind in zip(several, call.types, strict=False):
            if value is not None:
                _check(call, value, kind)
        return made if isinstance(made, Value) else several


def is_check(node: Any) -> bool:
    """Return whether nobody reads the result of a call, which needs not run."""
    return _short(str(node.target)).startswith(_CHECKS) and not is_assertion(node)


def is_assertion(node: Any) -> bool:
    """Return whether a call raises an error where a tensor's number is 0; a graph has none."""
    return _short(str(node.target)) == "_assert_async"


def _short(name: str) -> str:
    return name.removeprefix("aten.").split(".")[0]


def _check(call: Call, value: Value, expected: TensorType) -> None:
    """Refuse a translation whose type is not the one that torch says: it would be wrong."""
    if value.type != expected:
        raise GraphError(
            f"{call.origin}: {call.name}: expected {expected}, as torch says, got {value.type}; "
            "please report this call"
        )
