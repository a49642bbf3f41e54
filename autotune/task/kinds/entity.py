"""The base of all values of knobs, and their JSON form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NoReturn

from autotune.errors import SpaceError
from autotune.utils.check import shown

_BY_TAG: dict[str, type[Entity]] = {}


class Entity(ABC):
    """One value of one knob. Each kind of knob has a class of its own, known by its tag.

    A subclass with a tag can be read from logs as soon as it is defined.

    Attributes:
        tag: names the kind in logs.
        attribute: name of the attribute that holds the value; what a template reads.

    Raises:
        SpaceError: a class is defined with the tag of another one.
    """

    tag: ClassVar[str]
    attribute: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "tag" in cls.__dict__:
            _enter(cls)

    @abstractmethod
    def to_json(self) -> object:
        """Return the JSON form of the value."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: object) -> Entity:
        """Return the entity of a value in JSON form.

        Raises:
            TypeError, ValueError: the value is not of this kind.
        """

    @abstractmethod
    def features(self) -> list[object]:
        """Return the numbers of AutoTVM's flat feature vector."""

    @property
    def value(self) -> object:
        """The value of `attribute`."""
        value: object = getattr(self, self.attribute)
        return value

    if not TYPE_CHECKING:  # else a type checker takes any name

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}; the value of this "
                f"kind of knob is cfg[name].{self.attribute}"
            )

    def __bool__(self) -> bool:
        raise SpaceError(
            f"a knob is asked whether it is true; ask for its value: cfg[name].{self.attribute}"
        )

    def __repr__(self) -> str:
        return str(self.value)


class SequenceEntity(Entity):
    """An entity whose value is a sequence."""

    @property
    def value(self) -> Sequence[object]:
        """The value of `attribute`."""
        value: Sequence[object] = getattr(self, self.attribute)
        return value

    def to_json(self) -> list[object]:
        """Return the JSON form of the value."""
        return list(self.value)

    def features(self) -> list[object]:
        """Return the sequence itself."""
        return list(self.value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and tuple(self.value) == tuple(other.value)

    def __hash__(self) -> int:
        return hash(tuple(self.value))


def entity_from_json(name: str, tag: str, value: object) -> Entity:
    """Return the entity of one ``[name, tag, value]`` of a log.

    Raises:
        SpaceError: the tag is unknown, or the value is not of its kind.
    """
    if not isinstance(name, str):
        raise SpaceError(f"the name of a knob is a text, not {name!r}")
    if not isinstance(tag, str) or tag not in _BY_TAG:
        raise SpaceError(
            f"knob {name!r}: Invalid config knob type: {tag!r}; expected one of "
            f"{', '.join(_BY_TAG)}"
        )
    try:
        return _BY_TAG[tag].from_json(value)
    except (TypeError, ValueError) as error:
        raise SpaceError(f"knob {name!r}: {value!r} is no value of type {tag!r}") from error


def whole_numbers(value: object) -> list[int]:
    """Check that a value from a log is a list of whole numbers and return it.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, (list, tuple, range)) or any(
        isinstance(n, bool) or not isinstance(n, int) for n in value
    ):
        raise TypeError("expected a list of whole numbers")
    return [int(n) for n in value]


def _enter(kind: type[Entity]) -> None:
    if not isinstance(kind.tag, str) or not kind.tag:
        what = f"{kind.__name__}: tag must be a text such as 'sp'"
        raise SpaceError(f"{what}, got {shown(kind.tag)}")
    known = _BY_TAG.get(kind.tag, kind)
    # A class that is defined once more, such as in a notebook, takes its own place.
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise SpaceError(
            f"{kind.__name__}: tag must be one of its own, got {kind.tag!r}, which is that of "
            f"{known.__module__}.{known.__qualname__}"
        )
    _BY_TAG[kind.tag] = kind
