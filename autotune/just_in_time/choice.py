"""Which configuration a task gets: its own, that of the nearest shape, or the default."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from autotune.driver import build
from autotune.errors import AutotuneError
from autotune.just_in_time.nearest import nearest
from autotune.just_in_time.store import Store
from autotune.runtime import Module
from autotune.task import ConfigEntity, DispatchContext, Task
from autotune.task.fallback import FallbackConfigEntity
from autotune.utils import environment

logger = logging.getLogger("autotvm")

# Takes a task and a configuration that was tuned for another.
IsRight = Callable[[Task, ConfigEntity], bool]
Origin = Literal["exact", "nearest", "default"]
# Neighbours that are tried before the default is taken.
_MOST_NEIGHBOURS = 4


@dataclass(frozen=True)
class Choice:
    """A built kernel, and where its configuration comes from.

    Attributes:
        module: what is called.
        origin: whether these shapes were tuned, shapes nearby, or nothing.
        of: the arguments of the workload whose configuration it is.
        version: of the store when it was chosen.
    """

    module: Module
    origin: Origin
    of: tuple[object, ...]
    version: int


def exact(task: Task, template: Callable[..., Any], store: Store) -> Choice | None:
    """Return the best that was tuned for a task itself, built.

    Raises:
        AutotuneError: it cannot be built, or the program is frozen without it.
    """
    target = task.target
    assert target is not None, "made with one"
    version = store.look()
    history = store.history()
    with history, target:
        # Contexts around the call have their say as well; a frozen program has the lock's alone,
        # and what is not in it is refused there.
        known = DispatchContext.current.known(target, task.workload)
        if known is not None or environment.frozen():
            return Choice(build(template(*task.args)), "exact", tuple(task.args), version)
    return None


def choose(task: Task, template: Callable[..., Any], store: Store, is_right: IsRight) -> Choice:
    """Return the best that is known for a task, built.

    Args:
        is_right: says whether what was tuned for other shapes may be used for these.

    Raises:
        AutotuneError: not even the default can be built.
    """
    target, version = task.target, store.look()
    found = exact(task, template, store)
    if found is not None:
        return found
    neighbours = nearest(task, store.database.records(races=True))
    for other, config in itertools.islice(neighbours, _MOST_NEIGHBOURS):
        try:
            if not is_right(task, config):
                continue
            module = build(task.instantiate(config), target=target)
        except AutotuneError as error:
            logger.info("%s: what %s has does not fit: %s", task.name, other.args, error)
            continue
        return Choice(module, "nearest", tuple(other.args), version)
    module = build(task.instantiate(FallbackConfigEntity()), target=target)
    return Choice(module, "default", tuple(task.args), version)
