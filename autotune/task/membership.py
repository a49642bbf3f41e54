"""Checks whether a configuration from a log belongs to a template's space.

Anyone may have written a log. So a template never gets a value from a log, but the equal one among
the values that it offers itself. Values are compared in their JSON form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autotune.errors import SpaceError
from autotune.task.constraints.constraint import Predicate
from autotune.task.constraints.radix import Radix
from autotune.task.kinds import Entity, TransformSpace

# Characters of a value in a message.
SHOWN = 60
_OTHER_VERSION = "It was made for another version of the template: tune again"


def recorded_digits(
    index: int,
    recorded: Mapping[str, Entity],
    space_map: Mapping[str, TransformSpace],
    radix: Radix,
) -> list[int]:
    """Return which value of each knob of a space a recorded configuration has.

    Args:
        index: the recorded one, which tells equal values of a knob apart.
        recorded: its values.
        space_map: the knobs of the space.
        radix: of the space.

    Raises:
        SpaceError: the space does not have them.
    """
    check_index(index, radix.total)
    for name in recorded:
        if name not in space_map:
            raise unknown(index, name, space_map)
    digits = []
    for (name, offered), likely in zip(
        space_map.items(), radix.digits_of(int(index)), strict=True
    ):
        if name not in recorded:
            raise lacking(index, name, recorded)
        digit = position(index, name, recorded[name], offered)
        # Of equal values the first was found.
        same = digit == likely or offered.find(offered[likely]) == digit
        digits.append(likely if same else digit)
    return digits


def position(index: int, name: str, recorded: Entity, offered: TransformSpace) -> int:
    """Return which of the offered values of a knob a recorded one is.

    Raises:
        SpaceError: none of them.
    """
    digit = offered.find(recorded)
    if digit is None:
        raise SpaceError(
            f"configuration {index}: knob {name!r} = {printable(str(recorded))} does not fit: "
            f"{offered.misfit(recorded)}. It was made for another workload or another version of "
            f"the template: tune again"
        )
    return digit


def lacking(index: int, name: str, names: Iterable[str]) -> SpaceError:
    """Return the error of a configuration without a knob."""
    return SpaceError(
        f"configuration {index} lacks the knob {name!r} that the template defines (a template "
        f"defines all its knobs, whatever values they have); it has "
        f"{', '.join(map(printable, names)) or 'none'}. {_OTHER_VERSION}"
    )


def unknown(index: int, name: str, names: Iterable[str]) -> SpaceError:
    """Return the error of a configuration with a knob of which the template knows nothing."""
    return SpaceError(
        f"configuration {index} names the knob {printable(name)!r}, which the template does not "
        f"define; it defines {', '.join(names) or 'none'}. {_OTHER_VERSION}"
    )


def check_index(index: int, total: int) -> None:
    """Check the index of a configuration in a space of ``total`` points.

    It need not match the choices: adding values to a knob changes the indices of all points.

    Raises:
        SpaceError: the index is not in the space.
    """
    if not 0 <= index < total:
        raise SpaceError(
            f"configuration {printable(str(index))} lies outside the space of the template, "
            f"which has {total} points. {_OTHER_VERSION}"
        )


def check_filters(
    index: int, entities: Mapping[str, Entity], filters: Iterable[Predicate]
) -> None:
    """Ask each filter about one point; tables of all others are not made for it.

    Raises:
        SpaceError: one rejects it.
    """
    if not all(accepts(entities) for accepts in filters):
        raise SpaceError(
            f"configuration {index} is one that a multi_filter of the template rejects. "
            f"{_OTHER_VERSION}"
        )


def printable(text: str) -> str:
    """Return a text fit for one line of a message, whatever a log holds."""
    text = repr(text)[1:-1]
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
