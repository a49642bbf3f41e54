"""Restrictions of a space: expressions, and functions of the parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from autotune.errors import SpaceError
from autotune.interchange import Expression
from autotune.utils.check import shown

# Takes the configuration of a template: entities by name.
Filter = Callable[[Mapping[str, Any]], Any]


class Values(Mapping[str, Any]):
    """The values of a configuration by name; one is looked at when it is asked for."""

    def __init__(self, config: Mapping[str, Any], names: tuple[str, ...]) -> None:
        self._config = config
        self._names = names

    def __getitem__(self, name: str) -> Any:
        return self._config[name].val

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def filters_of(restrictions: object, names: tuple[str, ...]) -> list[Filter]:
    """Return restrictions as filters of a space.

    Args:
        restrictions: an expression, a function of a dict of the parameters or of parameters by
            name, or a list of these.
        names: of all parameters.

    Raises:
        SpaceError: one is neither.
    """
    if restrictions is None:
        return []
    given = restrictions if isinstance(restrictions, list | tuple) else [restrictions]
    return [_filter(each, names) for each in given]


def _filter(restriction: object, names: tuple[str, ...]) -> Filter:
    if isinstance(restriction, str):
        expression = Expression.parse(restriction)
        unknown = sorted(expression.names - set(names))
        if unknown:
            raise SpaceError(
                f"restrictions: {restriction!r} has names that are no tunable parameters: "
                f"{', '.join(unknown)}; there are {', '.join(names)}"
            )
        asked = tuple(sorted(expression.names))
        return lambda config: expression({name: config[name].val for name in asked})
    if isinstance(restriction, type) or not callable(restriction):
        raise SpaceError(
            "restrictions: expected expressions such as 'block_size_x * block_size_y <= 1024', or "
            f"functions of the parameters, got {shown(restriction)}"
        )
    function: Callable[..., Any] = restriction
    wanted = list(inspect.signature(function).parameters)
    if wanted and set(wanted) <= set(names):
        return lambda config: function(**{name: config[name].val for name in wanted})
    return lambda config: function(Values(config, names))
