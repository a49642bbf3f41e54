"""From a filter as the user wrote it to constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autotune.errors import SpaceError, TargetError
from autotune.task.constraints.constraint import Constraint, Predicate, TracedConstraint, conjuncts
from autotune.task.constraints.opaque import OpaqueConstraint
from autotune.task.constraints.radix import IntArray
from autotune.task.constraints.symbols import Opaque
from autotune.task.constraints.trace import Decision, Tracer
from autotune.task.errors import KnobLookupError
from autotune.task.kinds import TransformSpace

# Points at which a traced filter is compared with the filter itself.
CHECKS = 64


def constraints_of(predicate: Predicate, spaces: Mapping[str, TransformSpace]) -> list[Constraint]:
    """Return constraints that together are equivalent to a filter.

    A filter of arithmetic, comparisons, ``and``, ``or`` and ``if`` is traced as expressions, which
    are evaluated for many points at once; each condition of an ``and`` becomes a constraint of its
    own. Any other filter is called for each combination of the values that it reads.

    Raises:
        SpaceError: the filter fails, or rejects everything.
    """
    origin = _origin(predicate)
    dims = [len(space) for space in spaces.values()]
    try:
        parts = conjuncts(Tracer(predicate, spaces).tree())
        traced = [TracedConstraint(p, dims, origin) for p in parts if isinstance(p, Decision)]
        rows = _probes(dims)
        accepted = np.full(len(rows), False not in parts)
        for constraint in traced:
            accepted &= constraint.accepts(rows)
    except (Opaque, TypeError):  # not expressible, or not for arrays
        return [OpaqueConstraint(predicate, spaces, origin)]
    if [_truth(predicate, spaces, row, origin) for row in rows.tolist()] != accepted.tolist():
        return [OpaqueConstraint(predicate, spaces, origin)]
    if False in parts:
        silent = predicate({name: space[0] for name, space in spaces.items()}) is None
        cure = "it returns None: return its condition" if silent else "relax it"
        raise SpaceError(f"{origin} rejects every configuration; {cure}")
    return list(traced)


def holds(
    predicate: Predicate, spaces: Mapping[str, TransformSpace], digits: Sequence[int]
) -> bool:
    """Return whether a filter accepts one value of each knob.

    Raises:
        SpaceError: the filter fails.
    """
    return _truth(predicate, spaces, digits, _origin(predicate))


def _probes(dims: Sequence[int]) -> IntArray:
    """Return the digits of a few points at which a trace is compared with its filter."""
    rng = np.random.default_rng(0)
    rows = rng.integers(dims, size=(CHECKS, len(dims)))
    rows[0], rows[1] = 0, np.array(dims) - 1
    return rows


def _truth(
    predicate: Predicate, spaces: Mapping[str, TransformSpace], digits: Sequence[int], origin: str
) -> bool:
    entities = {
        name: space[digit] for (name, space), digit in zip(spaces.items(), digits, strict=True)
    }
    try:
        return bool(predicate(entities))
    except KeyError as error:
        raise KnobLookupError(
            f"{origin} asks for the knob {error}; the space has {', '.join(spaces)}"
        ) from error
    except TargetError:  # no fault of the filter, and says itself what is wrong
        raise
    except Exception as error:
        raise SpaceError(f"{origin} failed: {type(error).__name__}: {error}") from error


def _origin(predicate: Predicate) -> str:
    code = getattr(predicate, "__code__", None)
    if code is None:
        return repr(predicate)
    return f"the filter at {code.co_filename}:{code.co_firstlineno}"
