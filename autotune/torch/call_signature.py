"""What a compiled model is called with: tensors among its arguments, and all else as it was."""

from __future__ import annotations

import inspect
import logging
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autotune.errors import KernelError
from autotune.torch.compiling import device_of
from autotune.utils.lazy_torch import torch

logger = logging.getLogger("autotune")


class CallSignature:
    """The arguments that a model was compiled for.

    Args:
        model: what is compiled; where it tells the names of its parameters, a call may pass by
            name what the example passed by position, and the other way round.
        args, kwargs: of the example.

    Attributes:
        where: the device of the tensors.

    Raises:
        KernelError: there is no tensor among them.
    """

    def __init__(self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._names = _names_of(model)
        self._by_position, self._by_name = len(args), tuple(kwargs)
        self._torch = pytorch = torch()
        self._plain = {pytorch.Tensor, pytorch.nn.Parameter}
        leaves, self._structure = self._flat((tuple(args), dict(kwargs)))
        tensors = [each for each in leaves if isinstance(each, pytorch.Tensor)]
        if not tensors:
            raise KernelError("autotune.torch.compile: example_inputs must have a tensor")
        self.where = device_of(tensors[0])
        self._types = [(tuple(t.shape), t.dtype, t.device) for t in tensors]
        self._others = self._without_tensors(leaves)
        self._shown = self._text(leaves, self._structure)
        # Whether it takes tensors by position and nothing else: these need not be looked for.
        self._is_flat = not kwargs and all(type(each) in self._plain for each in args)
        self._warned = False

    def _flat(self, arguments: object) -> tuple[list[Any], Any]:
        found: tuple[list[Any], Any] = self._torch.utils._pytree.tree_flatten(arguments)
        return found

    def _without_tensors(self, leaves: Sequence[Any]) -> list[Any]:
        tensor = self._torch.Tensor
        return [None if isinstance(each, tensor) else each for each in leaves]

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """Return the tensors among the arguments of a call, in the order of the example's.

        Raises:
            KernelError: a shape, a dtype, a device, the structure or a number is another.
        """
        flat = self._is_flat and not kwargs and all(type(each) in self._plain for each in args)
        found = args if flat else self._found(args, kwargs)
        if [(t.shape, t.dtype, t.device) for t in found] != self._types:
            self._refuse(found)
        if self._torch.is_grad_enabled() and any(t.requires_grad for t in found):
            self._warn()
        return found

    def _found(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        leaves, structure = self._flat((args, kwargs))
        if structure != self._structure:
            try:  # dicts in another order
                leaves = self._structure.flatten_up_to(self._as_the_example(args, kwargs))
            except (ValueError, TypeError) as error:
                raise KernelError(
                    f"compiled model: expected arguments as the example's, {self._shown}, got "
                    f"{self._text(leaves, structure)}; compile it for these"
                ) from error
        tensors = [each for each in leaves if isinstance(each, self._torch.Tensor)]
        others = self._without_tensors(leaves)
        pairs = zip(others, self._others, strict=False)
        different = next((pair for pair in pairs if not _is_same(*pair)), None)
        if len(tensors) == len(self._types) and different is not None:
            given, expected = different
            raise KernelError(
                f"compiled model: numbers and others are constants: expected {expected!r}, as the "
                f"example was, got {given!r}; compile it for that, or use "
                "torch.compile(model, backend='autotune')"
            )
        return tensors

    def _as_the_example(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments by position and by name as in the example, if these are the same."""
        given = dict(zip(self._names, args, strict=False))
        first, wanted = self._names[: self._by_position], set(self._by_name)
        known = len(given) == len(args) and len(first) == self._by_position
        if not known or given.keys() & kwargs.keys() or wanted & {*first}:
            return args, kwargs
        given |= kwargs
        if given.keys() != wanted | {*first}:
            return args, kwargs
        return tuple(given[name] for name in first), {name: given[name] for name in self._by_name}

    def _text(self, leaves: Sequence[Any], structure: Any) -> str:
        """Return arguments as they are written in a call, with a word for each tensor."""
        tensor = self._torch.Tensor
        words = iter(["tensor" if isinstance(each, tensor) else repr(each) for each in leaves])
        by_position, by_name = _parts(structure)
        listed = [_written(each, words) for each in _parts(by_position)]
        named = zip(by_name.context, _parts(by_name), strict=True)
        return f"({', '.join(listed + [f'{key}={_written(each, words)}' for key, each in named])})"

    def _refuse(self, tensors: Sequence[Any]) -> None:
        found = [(tuple(t.shape), t.dtype, t.device) for t in tensors]
        for number, (given, expected) in enumerate(zip(found, self._types, strict=False)):
            if given != expected:
                raise KernelError(
                    f"compiled model: input {number} must be {_text(expected)}, as the example "
                    f"was, got {_text(given)}; compile it for these shapes too, or use "
                    "torch.compile(model, backend='autotune')"
                )
        raise KernelError(
            f"compiled model: expected {len(self._types)} tensors, got {len(found)}; arrays of "
            "numpy are made tensors by torch.from_numpy"
        )

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "compiled model: gradients are enabled and an input requires them, but autotune "
                "has no backward pass: results have no gradients; train the model itself"
            )


def _is_same(given: object, expected: object) -> bool:
    """Return whether a value is the same constant: 2 and 2.0 are equal, but promote otherwise."""
    return given is expected or (type(given) is type(expected) and bool(given == expected))


def _names_of(model: Any) -> tuple[str, ...]:
    """Return the names of what a model takes, none where it does not tell or takes any."""
    try:
        taken = inspect.signature(model.forward).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return ()
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return tuple(each.name for each in taken) if all(p.kind is named for p in taken) else ()


def _parts(structure: Any) -> Sequence[Any]:
    """Return the structures of which one of torch is made, by whatever name its version has."""
    found: Sequence[Any]
    found = structure.children() if hasattr(structure, "children") else structure.children_specs
    return found


def _written(structure: Any, words: Iterator[str]) -> str:
    """Return a structure as it is written, with the next words in place of its leaves.

    It is not put together, as a class of the user's may refuse words where it takes tensors.
    """
    if structure.is_leaf():
        return next(words)
    listed = [_written(each, words) for each in _parts(structure)]
    if structure.type is dict:
        pairs = zip(structure.context, listed, strict=True)
        return f"{{{', '.join(f'{key!r}: {each}' for key, each in pairs)}}}"
    if structure.type is list:
        return f"[{', '.join(listed)}]"
    if structure.type is tuple:
        return f"({', '.join(listed)}{',' * (len(listed) == 1)})"
    kind = structure.context if structure.type is namedtuple else structure.type
    return f"{getattr(kind, '__name__', kind)}({', '.join(listed)})"


def _text(kind: tuple[Any, ...]) -> str:
    shape, dtype, where = kind
    return f"{dtype} {tuple(shape)} on {where}"
