"""The signature of an operator, derived from the arguments of a kernel."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.errors import KernelError
from autotune.kernel import Argument, Kernel, Scalar, Size, evaluate


@dataclass(frozen=True)
class Parameter:
    """One parameter of an operator: a tensor, or a number.

    Attributes:
        name: its name in the schema.
        argument: the kernel's argument.
        position: its position among the arguments of the kernel.
        shape: the extents, with names of sizes for open ones; empty for numbers.
    """

    name: str
    argument: Argument
    position: int
    shape: tuple[Size, ...]

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return not isinstance(self.argument, Scalar)

    def schema(self, letter: str) -> str:
        """Return its declaration; ``letter`` names what is written in place."""
        if self.is_tensor:
            alias = f"({letter}!)" if self.argument.role == "inout" else ""
            return f"Tensor{alias} {self.name}"
        if "float" in self.argument.dtype:
            return f"float {self.name}"
        return f"{'bool' if self.argument.dtype == 'bool' else 'SymInt'} {self.name}"


@dataclass(frozen=True)
class Signature:
    """Parameters and results of an operator.

    Attributes:
        name: of the kernel, for messages.
        inputs: what a caller passes, in the kernel's order.
        outputs: what the kernel only writes, which the operator makes and returns.
    """

    name: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]

    @property
    def text(self) -> str:
        """The schema as torch writes it, without a name."""
        letters = "abcdefghijklmnopqrstuvwxyz"
        taken = [p.schema(letters[i % 26]) for i, p in enumerate(self.inputs)]
        made = (
            "Tensor"
            if len(self.outputs) == 1
            else f"({', '.join(['Tensor'] * len(self.outputs))})"
        )
        return f"({', '.join(taken)}) -> {made}"

    @property
    def writes_inputs(self) -> bool:
        """Whether a parameter is written in place."""
        return any(p.argument.role == "inout" for p in self.inputs)

    def sizes(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the open sizes as the inputs say them; traced shapes give traced numbers.

        Raises:
            KernelError: shapes or dtypes do not fit.
        """
        found: dict[str, Any] = {}
        for parameter, value in zip(self.inputs, values, strict=True):
            if parameter.is_tensor:
                self._take(parameter, value, found)
            else:
                found[parameter.argument.name] = value
        for parameter, value in zip(self.inputs, values, strict=True):
            if parameter.is_tensor:
                self._check(parameter, value, found)
        return found

    def _take(self, parameter: Parameter, value: Any, found: dict[str, Any]) -> None:
        if len(value.shape) != len(parameter.shape):
            self._refuse(parameter, f"{len(parameter.shape)} dimensions", tuple(value.shape))
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype != parameter.argument.dtype:
            self._refuse(parameter, f"dtype {parameter.argument.dtype}", dtype)
        for size, extent in zip(parameter.shape, value.shape, strict=True):
            if isinstance(size, str):
                found.setdefault(size, extent)

    def _check(self, parameter: Parameter, value: Any, found: Mapping[str, Any]) -> None:
        expected = [evaluate(size, found) for size in parameter.shape]
        if not all(a == b for a, b in zip(expected, value.shape, strict=True)):
            self._refuse(parameter, f"shape {tuple(expected)}", tuple(value.shape))

    def _refuse(self, parameter: Parameter, expected: str, got: object) -> None:
        raise KernelError(
            f"{self.name}: argument {parameter.argument.name!r}: expected {expected}, got {got}"
        )


def signature_of(kernel: Kernel) -> Signature:
    """Return what an operator that runs a kernel takes and returns.

    Raises:
        KernelError: the shape of an output does not follow from the inputs.
    """
    sizes = kernel.sizes
    hidden = () if sizes is None else sizes.hidden
    shapes = [a.shape for a in kernel.args] if sizes is None else sizes.args
    own = [(a, s) for a, s in zip(kernel.args, shapes, strict=True) if a.name not in hidden]
    all_ = [Parameter(_word(a.name, i), a, i, tuple(s)) for i, (a, s) in enumerate(own)]
    inputs = tuple(p for p in all_ if p.argument.role != "out")
    outputs = tuple(p for p in all_ if p.argument.role == "out")
    known = {p.argument.name for p in inputs if not p.is_tensor}
    known |= {size for p in inputs for size in p.shape if isinstance(size, str)}
    for parameter in outputs:
        unknown = sorted(
            name for size in parameter.shape for name in _names(size) if name not in known
        )
        if unknown:
            raise KernelError(
                f"{kernel.name}: the operator makes {parameter.argument.name!r} itself, and its "
                f"size {unknown[0]} is that of no input; expected sizes that inputs have"
            )
    return Signature(kernel.name, inputs, outputs)


def _names(size: Size) -> tuple[str, ...]:
    if isinstance(size, str):
        return (size,)
    return () if isinstance(size, int) else (*_names(size[1]), *_names(size[2]))


def _word(name: str, position: int) -> str:
    """Return a name that a schema can hold."""
    taken = not name.isidentifier() or keyword.iskeyword(name) or name in ("self", "out", "from")
    return f"arg{position}" if taken else name
