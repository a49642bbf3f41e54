"""Chooses the configuration for a call: its own, that of the nearest shape, or the default."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from autotune.driver import build
from autotune.errors import AutotuneError, FrozenError
from autotune.just_in_time.nearest import nearest
from autotune.just_in_time.offers import CallOffer, CallRequest, arranged
from autotune.just_in_time.store import RecordStore
from autotune.kernel import SourceKernel
from autotune.runtime import Module
from autotune.target import Target
from autotune.task import ConfigEntity, DispatchContext, Task
from autotune.task.dispatcher import is_falling_back
from autotune.task.fallback import FallbackConfigEntity
from autotune.utils import environment

logger = logging.getLogger("autotvm")

# Takes a task and a configuration that was tuned for another.
IsRight = Callable[[Task, ConfigEntity], bool]
Origin = Literal["exact", "nearest", "default", "rule", "nothing"]
# Neighbours that are tried before the default is taken.
_MOST_NEIGHBOURS = 4


@dataclass(frozen=True)
class ChosenKernel:
    """A built kernel and the origin of its configuration. It is called like the kernel.

    Attributes:
        module: the function that is called; None if there is nothing to compute.
        origin: whether these shapes were tuned (``"exact"``), similar shapes, or neither
            (``"default"``); ``"rule"`` if no template computes the operator, ``"nothing"`` if all
            outputs are empty.
        of: the arguments of the workload to which the configuration belongs.
        version: version of the store at the time of the choice.
        operands: numbers of the call's arguments that the kernel takes, in order; None if it takes
            all of them unchanged.
        template: the name of the template; empty if there is none.
        check: raises an error if the arguments of a call are invalid for every kernel.
    """

    module: Module | None
    origin: Origin
    of: tuple[object, ...]
    version: int
    operands: tuple[int, ...] | None = None
    template: str = ""
    check: Callable[[Sequence[object]], None] | None = None

    def __call__(self, *args: object, stream: object = None) -> None:
        """Run the kernel on the arguments of a call."""
        if self.check is not None:
            self.check(args)
        if self.module is None:
            return
        if self.operands is None:
            self.module(*args, stream=stream)
            return
        call = arranged(args, self.operands, self.module.kernel.args)
        self.module(*call.arrays, stream=stream)
        for copy in call.finish:
            copy()


def exact(asked: CallRequest, target: Target, store: RecordStore) -> ChosenKernel | None:
    """Return the best that was tuned for these very shapes, or what contexts have, built.

    Raises:
        AutotuneError: it cannot be built, or the program is frozen without it.
    """
    version = store.look()
    with store.history().behind_all(), target:
        # Contexts around the call come first. A frozen program has the lock's alone, and what is
        # not in it is refused there.
        known = list(_known(asked))
        if not known and not environment.frozen():
            return None
        if not asked.offers:
            raise FrozenError(f"{asked.title}: no template computes it, so it is in no lock")
        offer = min(known, key=lambda each: each[0])[1] if known else asked.offers[0]
        module = build(offer.dispatched())
        return _choice(module, "exact", offer, tuple(offer.task.args), asked, version)


def _known(asked: CallRequest) -> Iterator[tuple[float, CallOffer]]:
    """Yield the offers for which there is a configuration, with its time if that is known."""
    for offer in asked.offers:
        config = offer.known(DispatchContext.current)
        if config is not None:
            yield getattr(config, "cost", None) or 0.0, offer


def choose(
    asked: CallRequest, target: Target, store: RecordStore, is_right: IsRight
) -> ChosenKernel:
    """Return the best that is known for what is asked, built.

    Args:
        is_right: says whether what was tuned for other shapes may be used for these.

    Raises:
        AutotuneError: not even the default can be built.
    """
    version = store.look()
    found = exact(asked, target, store)
    if found is not None:
        return found
    for offer, other, config in () if is_falling_back() else _neighbours(asked, store):
        try:
            if not is_right(offer.task, config):
                continue
            module = build(offer.task.instantiate(config), target=target)
        except AutotuneError as error:
            logger.info("%s: what %s has does not fit: %s", asked.title, other.args, error)
            continue
        return _choice(module, "nearest", offer, tuple(other.args), asked, version)
    return _default(asked, target, version)


def _neighbours(
    asked: CallRequest, store: RecordStore
) -> Iterator[tuple[CallOffer, Task, ConfigEntity]]:
    for offer in asked.offers:
        found = nearest(offer.task, store.database.records(races=True))
        for other, config in itertools.islice(found, _MOST_NEIGHBOURS):
            yield offer, other, config


def _default(asked: CallRequest, target: Target, version: int) -> ChosenKernel:
    """Return the first offer that runs untuned, or what needs no template.

    On a GPU only hand-written kernels count, as defaults of schedules are slow there.
    """
    alone = asked.rule is None
    for offer in asked.offers:
        try:
            made = offer.task.instantiate(FallbackConfigEntity())
            if alone or not target.backend.on_gpu or isinstance(made, SourceKernel):
                module = build(made, target=target)
                return _choice(module, "default", offer, tuple(offer.task.args), asked, version)
        except AutotuneError:
            if alone:
                raise
    assert asked.rule is not None, "a template of its own returned, or raised"
    module = build(asked.rule(), target=target)
    return ChosenKernel(module, "rule", (), version, check=asked.check)


def _choice(
    module: Module,
    origin: Origin,
    offer: CallOffer,
    of: tuple[object, ...],
    asked: CallRequest,
    version: int,
) -> ChosenKernel:
    operands = asked.arrangement(offer, module.kernel.args)
    return ChosenKernel(module, origin, of, version, operands, offer.task.name, asked.check)
