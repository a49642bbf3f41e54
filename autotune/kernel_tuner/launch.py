"""From tunable parameters to a launch, by Kernel Tuner's conventions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from autotune.errors import KernelError
from autotune.interchange import Expression
from autotune.utils.check import shown
from autotune.utils.math import ceil_div

Params = Mapping[str, object]
# A number, an expression of parameters, or a function of them.
Term = int | str | Callable[[Params], int]
Divisor = Term | Sequence[Term] | None

_BLOCK_NAMES = ("block_size_x", "block_size_y", "block_size_z")
# Threads in x where no parameter says how many.
_THREADS = 256


@dataclass(frozen=True)
class LaunchRule:
    """How a launch follows from the parameters.

    Attributes:
        problem_size: extents of the problem, or a function of the parameters that returns them.
        grid_div: for each dimension what the extent is divided by; None for the threads of the
            block in that dimension.
        block_size_names: parameters that are the threads of a block in x, y and z.
        shared: bytes of dynamic shared memory.
    """

    problem_size: object
    grid_div: tuple[Divisor, Divisor, Divisor] = (None, None, None)
    block_size_names: Sequence[str] = _BLOCK_NAMES
    shared: Term = field(default=0)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of three dimensions of a block."""
        given = tuple(self.block_size_names)
        return given + _BLOCK_NAMES[len(given) :]

    def block(self, params: Params) -> tuple[int, int, int]:
        """Return the threads of a block."""
        x, y, z = self.names
        found = params.get(x, _THREADS), params.get(y, 1), params.get(z, 1)
        a, b, c = (value_of(each, params, "block size") for each in found)
        return a, b, c

    def size(self, params: Params) -> tuple[int, ...]:
        """Return the extents of the problem in three dimensions."""
        given = self.problem_size(params) if callable(self.problem_size) else self.problem_size
        terms = [given] if isinstance(given, str | Integral) else given
        if not isinstance(terms, Iterable):
            raise KernelError(f"problem_size: expected one to three extents, got {shown(given)}")
        found = tuple(value_of(each, params, "problem_size") for each in terms)
        if not 1 <= len(found) <= 3:
            raise KernelError(f"problem_size: expected one to three extents, got {shown(given)}")
        return (*found, 1, 1)[:3]

    def grid(self, params: Params) -> tuple[int, ...]:
        """Return the blocks: extents over divisors, rounded up."""
        return tuple(
            ceil_div(extent, self._divisor(divisor, name, f"grid_div_{axis}", params))
            for extent, divisor, name, axis in zip(
                self.size(params), self.grid_div, self.names, "xyz", strict=True
            )
        )

    def _divisor(self, divisor: Divisor, name: str, what: str, params: Params) -> int:
        terms: Sequence[object] = divisor if isinstance(divisor, list | tuple) else [divisor]
        if divisor is None:
            terms, what = [params.get(name, 1)], name
        product = 1
        for term in terms:
            product *= value_of(term, params, what)
        if product < 1:
            raise KernelError(f"{what}: expected a divisor of at least 1, got {product}")
        return product

    def shared_bytes(self, params: Params) -> int:
        """Return the bytes of dynamic shared memory."""
        return value_of(self.shared, params, "smem_args")


def value_of(term: object, params: Params, what: str) -> int:
    """Return the value of a term with these parameters.

    Raises:
        KernelError: it is no whole number, or has a name that is no parameter.
    """
    if isinstance(term, str):
        expression = Expression.parse(term)
        unknown = sorted(expression.names - set(params))
        if unknown:
            raise KernelError(
                f"{what}: {term!r} has names that are no tunable parameters: "
                f"{', '.join(unknown)}; there are {', '.join(params)}"
            )
        found = expression(params)
    else:
        found = term(params) if callable(term) else term
    if isinstance(found, float) and found == int(found):
        found = int(found)
    if not isinstance(found, Integral):
        raise KernelError(f"{what}: expected a whole number, got {shown(found)} of {shown(term)}")
    return int(found)


def plain_number(value: Any) -> Any:
    """Return a number of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value
