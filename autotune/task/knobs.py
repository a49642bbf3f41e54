"""The protocol a template sees: define knobs, then read them.

`ConfigSpace` collects the definitions, `PointRun` replays one point of them and
`FallbackConfigEntity` makes up values for them. They are siblings: a template cannot tell which
one it was given, and no flag turns one into another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from autotune.errors import SpaceError
from autotune.task.axes import Axis, VirtualAxis, constant
from autotune.task.constraints.constraint import Predicate
from autotune.task.errors import KnobLookupError
from autotune.task.kinds import (
    NO_MAX_FACTOR,
    AnnotateSpace,
    Chains,
    Entity,
    OtherOptionSpace,
    ReorderSpace,
    SplitFilter,
    SplitSpace,
    TransformSpace,
)
from autotune.utils.check import Check, shown
from autotune.utils.names import did_you_mean

# From the values in a record to those of all knobs.
Completion = Callable[[Mapping[str, Entity]], Mapping[str, Entity]]

_CHECK = Check(SpaceError, "knob")


class Knobs(ABC):
    """The object that `get_config` returns inside a template.

    Attributes:
        flop: floating-point operations of the task, as added by `add_flop`.
        bytes: bytes the task must move at least, as added by `add_bytes`.
        errors: reasons why this configuration is impossible, as given to `raise_error`.
        suggestions: points that are worth an early trial, as given to `suggest`.
        completions: what adds the knobs that older records lack, as given to `complete`.
        code_hash: hash of the template's source, where it attached one.
        is_fallback: whether the values were made up.
    """

    is_fallback: bool = False

    def __init__(self) -> None:
        self.flop: float = 0
        self.bytes: float = 0
        self.errors: list[str] = []
        self.suggestions: list[Mapping[str, Entity]] = []
        self.completions: list[Completion] = []
        self.code_hash: str | None = None

    @abstractmethod
    def define(self, name: str, knob: TransformSpace) -> list[Axis]:
        """Record a knob of any kind, and return its output axes.

        Raises:
            SpaceError: the name or the knob is wrong; the message names it.
        """

    @abstractmethod
    def _entities(self) -> Mapping[str, Entity]:
        """Return the chosen entity of every knob, in order of definition."""

    @abstractmethod
    def multi_filter(self, filter: Predicate) -> None:
        """Keep only configurations for which ``filter`` is true.

        Args:
            filter: takes a mapping from knob name to entity. It must depend on nothing else; it
                is called only for combinations of the values it reads, not for every point.
        """

    @staticmethod
    def axis(var: object) -> VirtualAxis:
        """Return a virtual axis of the length of ``var``: a length or an iteration variable."""
        return VirtualAxis(var)

    reduce_axis = axis

    def define_split(
        self,
        name: str,
        axis: object,
        policy: str = "factors",
        *,
        num_outputs: int = 0,
        max_factor: int = NO_MAX_FACTOR,
        filter: SplitFilter | None = None,
        no_tail: bool | None = None,
        candidate: Sequence[Sequence[int]] | None = None,
    ) -> list[Axis]:
        """Define how an axis is split into ``num_outputs`` loops; see `SplitSpace`."""
        return self.define(
            name, SplitSpace(axis, policy, num_outputs, max_factor, filter, no_tail, candidate)
        )

    def define_reorder(
        self,
        name: str,
        axes: Sequence[object],
        policy: str,
        *,
        interval: tuple[int, int] | None = None,
        candidate: Chains | None = None,
        spatial: Chains | None = None,
        reduce: Chains | None = None,
    ) -> list[Axis]:
        """Define an order of loops; see `ReorderSpace`."""
        return self.define(name, ReorderSpace(axes, policy, interval, candidate, spatial, reduce))

    def define_annotate(
        self, name: str, axes: Sequence[object], policy: str, *, num_anchor: int | None = None
    ) -> list[Axis]:
        """Define the annotations of loops; see `AnnotateSpace`."""
        return self.define(name, AnnotateSpace(axes, policy, num_anchor))

    def define_knob(self, name: str, candidate: Iterable[object]) -> list[Axis]:
        """Define a knob that takes one of the values of ``candidate``."""
        return self.define(name, OtherOptionSpace(candidate))

    def add_flop(self, flop: object) -> None:
        """Add to the floating-point operations that this task does."""
        self.flop += _number("add_flop", "flop", flop)

    def add_bytes(self, count: object) -> None:
        """Add to the bytes that this task reads and writes at least once."""
        self.bytes += _number("add_bytes", "count", count)

    def suggest(self, choice: Mapping[str, Entity]) -> None:
        """Name a point that a search tries early, by the value of each knob."""
        self.suggestions.append(choice)

    def complete(self, completion: Completion) -> None:
        """Say which values knobs have for a record from before these knobs were there."""
        self.completions.append(completion)

    def raise_error(self, msg: str) -> None:
        """Mark this configuration impossible; its trial fails with this message."""
        Check(SpaceError, "raise_error").text("msg", msg, "too many threads")
        self.errors.append(msg)

    def valid(self) -> bool:
        """Return whether no error was raised."""
        return not self.errors

    def __getitem__(self, name: str) -> Entity:
        return entity_of(self._entities(), name)

    def __contains__(self, name: object) -> bool:
        return name in self._entities()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entities())


def entity_of(entities: Mapping[str, Entity], name: str) -> Entity:
    """Return the entity of a knob.

    Raises:
        KnobLookupError: there is no such knob.
    """
    if name not in entities:
        known = ", ".join(entities) or "none"
        meant = did_you_mean(shown(name), entities)
        raise KnobLookupError(f"there is no knob {shown(name)}{meant}; defined so far: {known}")
    return entities[name]


def check_knob(name: object, knob: TransformSpace) -> TransformSpace:
    """Check the name and the values of a knob, and return the knob.

    Raises:
        SpaceError: the name, the knob or a value is invalid; the message names the knob.
    """
    _CHECK.text("name", name, "tile_x")
    if not isinstance(knob, TransformSpace):
        _CHECK.refuse(f"{name!r}", "a kind of knob, such as SplitSpace(axis, 'factors', 2)", knob)
    try:
        if not len(knob):
            raise SpaceError(f"{knob!r} has no values")
    except SpaceError as error:
        raise SpaceError(f"knob {name!r}: {error}") from error
    return knob


def _number(method: str, name: str, value: object) -> float:
    """Return a count as it was given, whole where it is whole; an expression must be constant."""
    plain = getattr(value, "value", value)
    number = Check(SpaceError, method).number(name, plain, least=0)
    return plain if isinstance(plain, float) else constant(plain) or number
