"""The programs of a graph of dynamo, one for each set of shapes, traced as seldom as possible."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from autotune.importers import SymbolicProgram, exported, with_inputs, writes_of
from autotune.torch.traced import Number, kept_calls, module_of, name_of
from autotune.utils.lazy_torch import torch

logger = logging.getLogger("autotune")
# So many programs with symbols are kept of a graph with the same parameters.
_MOST = 8


@dataclass(frozen=True)
class Traced:
    """A program of a graph.

    Attributes:
        program: exported, or as an exported one, or with symbols.
        held: places of the parameters and buffers that it writes, which are its first inputs.
    """

    program: Any
    held: list[int]


class Programs:
    """The programs of a graph.

    Of a graph whose shapes are symbols the calls are traced with these, once, and a set of shapes
    gets a program from that; where torch cannot, or does other things for other sizes, it is
    traced for each.
    """

    def __init__(self, graph_module: Any) -> None:
        self._graph_module = graph_module
        nodes = [each for each in graph_module.graph.nodes if each.op == "placeholder"]
        self._examples = [each.meta.get("example_value") for each in nodes]
        self._has_symbols = any(map(_is_symbolic, self._examples))
        # Those with symbols, by the identities of parameters, which are held, and the numbers.
        self._known: dict[Hashable, tuple[tuple[Any, ...], list[Traced]]] = {}

    def kept_calls(self) -> AbstractContextManager[None]:
        """Return what keeps calls of the graph while it is traced and read."""
        return kept_calls(self._graph_module)

    def traced(
        self, args: Sequence[Any], static: Mapping[int, Any], numbers: Mapping[int, Any]
    ) -> Traced:
        """Return the program for the shapes of a call; `compile_lock` is held.

        Args:
            args: of the call.
            static: parameters and buffers, by their places among these.
            numbers: those of tensors that stand for numbers.
        """
        others = [i for i in range(len(args)) if i not in static and i not in numbers]
        if self._has_symbols:
            found = self._of_symbols(args, static, numbers, others)
            if found is not None:
                return found
        program = self._exported(args, static, numbers, others)
        return Traced(program, _inputs_of_written(program, static))

    def _of_symbols(
        self,
        args: Sequence[Any],
        static: Mapping[int, Any],
        numbers: Mapping[int, Any],
        others: Sequence[int],
    ) -> Traced | None:
        held = tuple(static.values())
        _, known = self._known.setdefault((*map(id, held), repr(numbers)), (held, []))
        for made in known:
            program = made.program.at([args[i] for i in (*made.held, *others)])
            if program is not None:
                return Traced(program, made.held)
        try:
            shapes = [_dynamic(self._examples[i]) for i in others]
            program = self._exported(args, static, numbers, others, (tuple(shapes),))
            written = _inputs_of_written(program, static)  # which the program takes by now
            made = Traced(SymbolicProgram(program), written)
            fixed = made.program.at([args[i] for i in (*made.held, *others)])
        except Exception:  # whatever torch raises; the graph is traced for these shapes alone
            logger.debug("", exc_info=True)
            fixed = None
        if fixed is None:
            self._has_symbols = False
            return None
        known[:] = [made, *known][:_MOST]
        return Traced(fixed, made.held)

    def _exported(
        self,
        args: Sequence[Any],
        static: Mapping[int, Any],
        numbers: Mapping[int, Any],
        others: Sequence[int],
        shapes: Any = None,
    ) -> Any:
        stand = {i: Number(each) for i, each in numbers.items()}
        module = module_of(self._graph_module, static, stand, len(args))
        given = [_unmarked(args[i]) for i in others]
        return exported(module, given, dynamic_shapes=shapes)


def _inputs_of_written(program: Any, static: Mapping[int, Any]) -> list[int]:
    """Let a program take what it writes, caches, counters, statistics: return their places."""
    written = {each.name for each in writes_of(program) if each.input is None}
    by_name = {name_of(i): i for i in static}
    return [by_name[name] for name in with_inputs(program, written)]


def _unmarked(each: Any) -> Any:
    """Return a tensor without the marks of dynamic shapes, which torch would export as such."""
    return each.detach() if isinstance(each, torch().Tensor) else each


def _is_symbolic(example: Any) -> bool:
    """Return whether a size is a symbol in what dynamo traced a graph with."""
    sizes = example.shape if isinstance(example, torch().Tensor) else (example,)
    return any(isinstance(each, torch().SymInt) for each in sizes)


def _dynamic(example: Any) -> Any:
    """Return what `torch.export.export` is to make symbols of an input."""
    pytorch = torch()
    dim = pytorch.export.Dim
    if isinstance(example, pytorch.Tensor):
        return [dim.AUTO if isinstance(n, pytorch.SymInt) else dim.STATIC for n in example.shape]
    return dim.AUTO if isinstance(example, pytorch.SymInt) else None
