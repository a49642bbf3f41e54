"""A configuration from elsewhere, such as a log, while a template runs with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autotune.task.config_entity import ConfigEntity
from autotune.task.config_space import ConfigSpace
from autotune.task.constraint import Predicate
from autotune.task.entities import Entity
from autotune.task.membership import check_filters, check_index, unknown
from autotune.task.transform_space import TransformSpace
from autotune.utils.math import product


class ReplayedConfig(ConfigEntity):
    """A configuration from elsewhere, as a template sees it while it runs.

    Each knob that the template defines is looked up in what it offers, and has the template's own
    value from then on; before, it has none. So a template may ask whether a log knows a knob, and
    define others then, but it sees no value that it did not offer.
    """

    def __init__(self, config: ConfigEntity) -> None:
        super().__init__(config.index, config.code_hash, config.recorded)
        self.cost = config.cost
        self._offers: dict[str, TransformSpace] = {}
        self._filters: list[Predicate] = []

    def _entities(self) -> dict[str, Entity]:
        return self._found

    def _own(self, name: str, offered: TransformSpace) -> Entity:
        self._offers[name] = offered
        return super()._own(name, offered)

    def multi_filter(self, filter: Predicate) -> None:
        """Keep a filter for `check`."""
        self._filters.append(filter)

    def check(self, collected: Callable[[], ConfigSpace]) -> None:
        """Say whether this is a point of the space that the template spanned; call it at the end.

        Args:
            collected: gives the space of the template; asked only when there are knobs that were
                not defined, which a template with conditional knobs may leave out.

        Raises:
            SpaceError: it is not.
        """
        entities = dict(self._found)
        for name in self.recorded:
            if name not in entities:
                others = collected().space_map
                if name not in others:
                    raise unknown(self.index, name, others)
                entities[name] = self._own(name, others[name])
        check_index(self.index, product(map(len, self._offers.values())))
        check_filters(self.index, entities, self._filters)

    def __contains__(self, name: object) -> bool:
        return name in self.recorded

    def __iter__(self) -> Iterator[str]:
        return iter(self.recorded)
