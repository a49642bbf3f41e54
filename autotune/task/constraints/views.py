"""Views of a configuration that record which knobs a filter reads.

A filter is an arbitrary Python function of the mapping name -> entity. It is first shown nothing.
Each element it asks for that it has not been shown yet ends the call with `Unread`; the caller
notes the element and calls again. What a call reads without raising `Unread` is therefore all its
result depends on, and results can be shared between configurations that agree in those elements.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping, Sequence
from typing import NoReturn

from autotune.task.errors import KnobLookupError
from autotune.task.kinds import Elements, StandIn, TransformSpace


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


class ShownElements(Elements):
    """The elements of an entity, of which some are shown."""

    __slots__ = ("_name",)

    def __init__(self, name: str, known: Mapping[int, object], length: int) -> None:
        def element(position: int) -> object:
            if position not in known:
                raise Unread([name], position)
            return known[position]

        super().__init__(length, element)
        self._name = name

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise Unread([self._name])


class KnobMapping(dict[str, object]):
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

    def get(self, name: str, default: object = None) -> object:  # noqa: D102
        return self[name] if name in self._names else default

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def keys(self) -> KeysView[str]:  # type: ignore[override]  # noqa: D102
        return dict.fromkeys(self._names).keys()

    def values(self) -> list[object]:  # type: ignore[override]  # noqa: D102
        return [self[name] for name in self._names]

    def items(self) -> list[tuple[str, object]]:  # type: ignore[override]  # noqa: D102
        return [(name, self[name]) for name in self._names]


def view(name: str, space: TransformSpace, digit: int, shown: Sequence[int] | None) -> object:
    """Return entity ``digit`` with only the elements ``shown``; None shows it whole."""
    entity = space[digit]
    if shown is None:
        return entity
    values = entity.value
    assert isinstance(values, Sequence), "a kind whose entities have elements"
    elements = ShownElements(name, {i: values[i] for i in shown}, len(values))

    def unread() -> NoReturn:
        raise Unread([name])

    return StandIn(type(entity), lambda: elements, unread)
