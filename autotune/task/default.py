"""The default configuration of a task: what its template runs with where nothing was tuned."""

from __future__ import annotations

from autotune.task.config_entity import ConfigEntity
from autotune.task.fallback import FallbackConfigEntity
from autotune.task.task import Task


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
        knob.find(untuned[name]) if name in untuned else None
        for name, knob in space.space_map.items()
    ]
    known = [digit for digit in digits if digit is not None]
    if len(known) < len(digits):
        return None
    index = space.knob2point(known)
    return space.get(index) if space.is_index_valid(index) else None
