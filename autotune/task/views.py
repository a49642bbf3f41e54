"""What a filter is shown of a configuration, so that it can be seen what it reads.

A filter is an arbitrary Python function of the mapping name -> entity. It is first shown nothing.
Each element it asks for that it has not been shown yet ends the call with `Unread`; the caller
notes the element and calls again. What a call reads without raising `Unread` is therefore all its
result depends on, and results can be shared between configurations that agree in those elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from autotune.task.entities import AnnotateEntity, SplitEntity
from autotune.task.errors import KnobLookupError
from autotune.task.transform_space import TransformSpace


class Unread(BaseException):
    """A filter asked for something it had not been shown.

    Not an `Exception`, so that a filter's own ``except Exception`` does not swallow it.

    Attributes:
        knobs: the knobs asked for.
        position: the element asked for; None for the whole entity.
    """

    def __init__(self, knobs: Sequence[str], position: int | None = None) -> None:
        super().__init__(knobs, position)
        self.knobs = tuple(knobs)
        self.position = position


class Elements(Sequence[Any]):
    """The shown elements of one size or annotation list."""

    __slots__ = ("_known", "_length", "_name")

    def __init__(self, name: str, known: Mapping[int, Any], length: int) -> None:
        self._name = name
        self._length = length
        self._known = {**known, **{i - length: value for i, value in known.items()}}

    def __getitem__(self, position: Any) -> Any:
        try:
            return self._known[position]
        except (KeyError, TypeError):
            if isinstance(position, slice):
                return [self[i] for i in range(self._length)[position]]
            # Also raises IndexError and TypeError exactly as a list would.
            raise Unread([self._name], range(self._length)[position]) from None

    def __len__(self) -> int:
        return self._length

    def __eq__(self, other: object) -> bool:
        return list(self) == other

    def __repr__(self) -> str:
        return repr(list(self))

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, *_: object, **__: Any) -> NoReturn:
        raise Unread([self._name])

    # isinstance() in a filter sees what it would see of the real thing.
    __class__ = property(lambda self: list)


class PartView:
    """An entity of which only some elements are shown; its text, hash and equality need all."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def _unread(self, *_: object) -> NoReturn:
        raise Unread([self._name])

    __str__ = __repr__ = __format__ = __hash__ = __eq__ = __ne__ = _unread


class SplitView(PartView):
    """A split of which only some sizes are shown."""

    __slots__ = ("size",)

    def __init__(self, name: str, size: Elements) -> None:
        super().__init__(name)
        self.size = size

    # isinstance() in a filter sees what it would see of the real thing.
    __class__ = property(lambda self: SplitEntity)


class AnnotateView(PartView):
    """An annotation of which only some axes are shown."""

    __slots__ = ("anns",)

    def __init__(self, name: str, anns: Elements) -> None:
        super().__init__(name)
        self.anns = anns

    # isinstance() in a filter sees what it would see of the real thing.
    __class__ = property(lambda self: AnnotateEntity)


class Shown(dict[str, Any]):
    """The mapping a filter is called with; asking for more than it holds raises `Unread`."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = tuple(names)

    def __missing__(self, name: str) -> NoReturn:
        if name not in self._names:
            raise KnobLookupError(
                f"there is no knob {name!r}; the space has {', '.join(self._names)}"
            )
        raise Unread([name], -1)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: D102
        return self[name] if name in self._names else default

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def keys(self) -> Any:  # noqa: D102
        return dict.fromkeys(self._names).keys()

    def values(self) -> Any:  # noqa: D102
        return [self[name] for name in self._names]

    def items(self) -> Any:  # noqa: D102
        return [(name, self[name]) for name in self._names]


def view(name: str, space: TransformSpace, digit: int, shown: Sequence[int] | None) -> Any:
    """Return entity ``digit`` with only the elements ``shown``; None shows it whole."""
    entity = space[digit]
    if shown is None:
        return entity
    values = getattr(entity, space.sequence_attribute)
    elements = Elements(name, {i: values[i] for i in shown}, len(values))
    kind = SplitView if isinstance(entity, SplitEntity) else AnnotateView
    return kind(name, elements)
