"""A model of one kernel on several classes of devices: the device is columns beside the knobs.

A configuration that is fast on one class is likely to be fast on a similar one. Rates of each
class are standardised, as devices differ by factors, and the columns of `Descriptor` tell the
trees on which device a trial ran. Each class follows the common model as far as it explains the
trials of the class (`autotune.tuner.models.prior.trust`), and ignores it otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autotune.cost_model import Trees, TreeSettings
from autotune.features import KnobFeatures
from autotune.runtime import Descriptor
from autotune.task import Task
from autotune.task.constraints.radix import IndexArray
from autotune.tuner.models.prior import Float, nearest_point, standard_rates

# Trials of all classes before the first fit, and by which factor they grow until the next.
FEWEST, GROWTH = 12, 1.25
# How many of the best points of each other class are tried.
STARTS = 2


@dataclass
class _Class:
    """The trials on one class: rates by index in the space of its task."""

    task: Task
    descriptor: Descriptor
    rates: dict[int, float] = field(default_factory=dict)


class AcrossClasses:
    """Trials of one template with the same arguments on several classes. From any thread.

    Args:
        tasks: for each class what is tuned there; the spaces may differ by what devices allow.
    """

    def __init__(self, tasks: Mapping[Descriptor, Task]) -> None:
        self._lock = threading.Lock()
        self._classes = {one.key: _Class(task, one) for one, task in tasks.items()}
        columns = np.array([one.columns for one in tasks])
        # What all classes have in common tells nothing.
        self._varied = np.flatnonzero(np.ptp(columns, axis=0) > 0)

    def learn(self, key: str, indices: Sequence[int], rates: Sequence[float]) -> None:
        """Record trials on a class: 1 / seconds, 0 for a failure."""
        with self._lock:
            known = self._classes[key].rates
            known.update(zip(indices, rates, strict=True))

    def view(self, key: str) -> OneOfSeveral:
        """Return what all trials tell of points on one class."""
        return OneOfSeveral(self, self._classes[key].task, key)

    @property
    def count(self) -> int:
        """The number of trials on all classes together."""
        with self._lock:
            return sum(rate > 0 for one in self._classes.values() for rate in one.rates.values())

    def device(self, key: str) -> Float:
        """Return the columns that tell a class from the others."""
        return np.array(self._classes[key].descriptor.columns)[self._varied]

    def known(self) -> list[tuple[str, Task, list[int], Float]]:
        """Return for each class with trials: its key, its task, what ran, and how fast."""
        with self._lock:
            found = []
            for key, one in self._classes.items():
                ran = {index: rate for index, rate in one.rates.items() if rate > 0}
                if len(ran) > 1:
                    found.append((key, one.task, list(ran), np.array(list(ran.values()))))
            return found


class OneOfSeveral:
    """What the trials of all classes predict for the points of one: a `Prior` that grows.

    Args:
        across: all trials.
        task: of this class.
        key: of this class.

    Attributes:
        starts: the best points of the other classes, as far as this class's space has them.
    """

    def __init__(self, across: AcrossClasses, task: Task, key: str) -> None:
        self._across, self._task, self._key = across, task, key
        self._features = KnobFeatures(task.config_space)
        self._trees: Trees | None = None
        self._fitted = 0

    @property
    def starts(self) -> list[int]:
        """The best points of the other classes so far, as near as this space has them."""
        found: dict[int, None] = {}
        space = self._task.config_space
        for key, task, indices, rates in self._across.known():
            if key != self._key:
                for position in np.argsort(-rates)[:STARTS]:
                    near = nearest_point(space, task.config_space, indices[position])
                    found |= dict.fromkeys(int(index) for index in near[:1])
        return list(found)

    def predict(self, indices: Sequence[int] | IndexArray) -> Float:
        """Return how good points of this class's space should be, in standard deviations."""
        if self._trees is None:
            return np.zeros(len(indices))
        rows = self._features.trees(indices)
        return self._trees.predict(self._beside(rows, self._key))

    def refresh(self) -> None:
        """Learn from what was measured since, on all classes."""
        count = self._across.count
        if count < max(FEWEST, self._fitted * GROWTH):
            return
        rows, values = [], []
        for key, task, indices, rates in self._across.known():
            raw = self._features.translated(task.config_space, indices)
            if raw is None:
                continue
            rows.append(self._beside(self._features.trees_of(raw), key))
            values.append(standard_rates(rates))
        if rows:
            settings = TreeSettings(rounds=100, depth=6)
            self._trees = Trees.fit(np.concatenate(rows), np.concatenate(values), "reg", settings)
        self._fitted = count

    def _beside(self, rows: npt.NDArray[np.float32], key: str) -> npt.NDArray[np.float32]:
        device = np.tile(self._across.device(key), (len(rows), 1)).astype(np.float32)
        return np.hstack([rows, device])


__all__ = ["AcrossClasses", "OneOfSeveral"]
