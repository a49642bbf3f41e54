"""What spaces of source templates say besides their knobs: where to start, and older records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from autotune import Target
from autotune.task import OtherOptionEntity, TemplateConfig

Entities = Mapping[str, Any]


def read_older_records(
    cfg: TemplateConfig, added: Mapping[str, int], names: Collection[str]
) -> None:
    """Tell a space which records are from before knobs were added.

    Args:
        cfg: the space.
        added: the knobs, with the values that all kernels had before.
        names: all knobs of the space.
    """

    def completed(recorded: Entities) -> Entities:
        missing = {name: value for name, value in added.items() if name not in recorded}
        older = {*missing, *recorded} == {*names}
        return {**entities_of(missing), **recorded} if older else recorded

    cfg.complete(completed)


def describe_families(cfg: TemplateConfig, family: Any, shape: Any, target: Target) -> None:
    """Tell a space of several families where to start, and how to read records of one of them."""

    def completed(recorded: Entities) -> Entities:
        if not all(isinstance(each, OtherOptionEntity) for each in recorded.values()):
            return recorded
        return entities_of(family.completed(shape, {name: e.val for name, e in recorded.items()}))

    for choice in family.suggestions(shape, target):
        cfg.suggest(entities_of(choice))
    cfg.complete(completed)


def entities_of(values: Mapping[str, int]) -> dict[str, OtherOptionEntity]:
    """Return the values of knobs as configurations hold them."""
    return {name: OtherOptionEntity(value) for name, value in values.items()}
