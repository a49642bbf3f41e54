"""The default configuration of a task: what its template runs with where nothing was tuned."""

from __future__ import annotations

from autotune.task.config_entity import ConfigEntity
from autotune.task.entities import Entity, SplitEntity
from autotune.task.fallback import FallbackConfigEntity
from autotune.task.task import Task
from autotune.task.transform_space import TransformSpace


def default_config(task: Task) -> ConfigEntity | None:
    """Return the point of the task's space that an untuned template uses.

    None where there is no such point: the template refuses to run untuned, or it then makes a
    choice that its space does not offer.
    """
    untuned = FallbackConfigEntity()
    try:
        task.instantiate(untuned)
    except Exception:  # a template is the user's: whatever it raises, it does not run untuned
        return None
    space = task.config_space
    digits = [
        _position(knob, untuned[name]) if name in untuned else None
        for name, knob in space.space_map.items()
    ]
    known = [digit for digit in digits if digit is not None]
    if len(known) < len(digits):
        return None
    index = space.knob2point(known)
    return space.get(index) if space.is_index_valid(index) else None


def _position(knob: TransformSpace, entity: Entity) -> int | None:
    """Return where an entity stands in its knob; None if it is not one of its values."""
    return next((i for i, one in enumerate(knob) if _same(one, entity)), None)


def _same(offered: Entity, made_up: Entity) -> bool:
    """Whether two entities choose the same; the first size of a split follows from the others."""
    if isinstance(offered, SplitEntity) and isinstance(made_up, SplitEntity):
        first, size = made_up.size[:1], made_up.size[1:]
        return offered.size[1:] == size and (offered.size[:1] in (first, [-1]) or first == [-1])
    return offered == made_up
