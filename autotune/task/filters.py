"""From a filter as the user wrote it to constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autotune.errors import SpaceError
from autotune.task.constraint import Constraint, Predicate, TracedConstraint, conjuncts
from autotune.task.errors import KnobLookupError
from autotune.task.opaque import OpaqueConstraint
from autotune.task.symbols import Opaque
from autotune.task.trace import Decision, Tracer
from autotune.task.transform_space import TransformSpace

# Points at which a traced filter is compared with the filter itself.
CHECKS = 64


def constraints_of(predicate: Predicate, spaces: Mapping[str, TransformSpace]) -> list[Constraint]:
    """Return constraints that together mean the same as a filter.

    A filter made of arithmetic, comparisons, ``and``, ``or`` and ``if`` becomes expressions: it is
    evaluated for many points at once, and each condition of an ``and`` prunes by itself. Any other
    filter is called for each combination of the values it reads.

    Raises:
        SpaceError: the filter fails, or rejects everything.
    """
    origin = _origin(predicate)
    dims = [len(space) for space in spaces.values()]
    try:
        parts = conjuncts(Tracer(predicate, spaces).tree())
        traced = [TracedConstraint(p, dims, origin) for p in parts if isinstance(p, Decision)]
    except (Opaque, FloatingPointError):
        return [OpaqueConstraint(predicate, spaces, origin)]
    never = False in parts
    if not _agree(predicate, spaces, None if never else traced, origin):
        return [OpaqueConstraint(predicate, spaces, origin)]
    if never:
        raise SpaceError(f"{origin} rejects every configuration; relax it")
    return list(traced)


def _agree(
    predicate: Predicate,
    spaces: Mapping[str, TransformSpace],
    traced: Sequence[Constraint] | None,
    origin: str,
) -> bool:
    """Compare the trace with the filter itself at a few points; None stands for "never true"."""
    rng = np.random.default_rng(0)
    dims = np.array([len(space) for space in spaces.values()])
    rows = rng.integers(dims, size=(CHECKS, len(dims)))
    rows[0], rows[1] = 0, dims - 1
    accepted = np.full(len(rows), traced is not None)
    for constraint in traced or ():
        accepted &= constraint.accepts(rows)
    return all(
        _truth(predicate, spaces, row, origin) == found
        for row, found in zip(rows.tolist(), accepted.tolist(), strict=True)
    )


def _truth(
    predicate: Predicate, spaces: Mapping[str, TransformSpace], digits: Sequence[int], origin: str
) -> bool:
    entities: dict[str, Any] = {
        name: space[digit] for (name, space), digit in zip(spaces.items(), digits, strict=True)
    }
    try:
        return bool(predicate(entities))
    except KeyError as error:
        raise KnobLookupError(
            f"{origin} asks for the knob {error}; the space has {', '.join(spaces)}"
        ) from error
    except Exception as error:
        raise SpaceError(f"{origin} failed: {type(error).__name__}: {error}") from error


def _origin(predicate: Predicate) -> str:
    code = getattr(predicate, "__code__", None)
    if code is None:
        return repr(predicate)
    return f"the filter at {code.co_filename}:{code.co_firstlineno}"
