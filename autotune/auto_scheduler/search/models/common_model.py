"""One model of the trials of many workloads, which corrects the analytical estimates.

Its target is the ratio of the estimated to the measured time of a trial, relative to the mean of
its workload, so that only the order of trials within a workload counts. Columns that describe the
workload (`descriptor`) complement those of the row, so trees can learn which corrections apply to
which workloads. New trials are learned by a few additional trees, which replace those that were
added before; all trees are fitted again when the number of trials has grown by half.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model import PredictionRows, StoredTrees, Trees, TreeSettings

Column = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]
# Trees of a model that is fitted anew, and of one that grows.
WHOLE = TreeSettings(rounds=60, depth=5, rate=0.15, threads=1)
_MORE = TreeSettings(rounds=24, depth=5, rate=0.15, threads=1)
# The share of trials that ship which are no faster than a row is taken to be: a search finds the
# rows of which trees say more because none like them was measured.
_SHOWN = 0.99
# How many times as many trials have to be known as at the last time for a new beginning.
_GROWTH = 1.5
# The trees that are added to the first ones see one of so many trials that ship: enough to hold
# them to what the first say of other workloads, as many of these trials are alike.
_ANCHORS = 24


@dataclass(frozen=True)
class ShippedTrials:
    """Trials that are known beforehand.

    Attributes:
        features: of each, those of its workload included.
        residuals: how much faster than estimated each was; see `residuals_of`.
        trees: fitted to them.
    """

    features: Features
    residuals: Column
    trees: Trees | StoredTrees


class CommonModel:
    """Learns of all workloads, and corrects the estimates of any.

    The last column of features says whether a program is tiled: of others nothing is learned, and
    nothing is said. May be used from several threads, as tasks of a network are searched at once.

    Args:
        shipped: what is known beforehand.
    """

    def __init__(self, shipped: ShippedTrials | None = None) -> None:
        self._shipped = shipped
        self._base: Trees | StoredTrees | None = None if shipped is None else shipped.trees
        self._more: Trees | None = None
        self._fitted = 0 if shipped is None else len(shipped.residuals)
        # Most doublings by which a row is taken to be faster than estimated.
        self._most = np.inf if shipped is None else float(np.quantile(shipped.residuals, _SHOWN))
        self._known: dict[str, tuple[Features, Column]] = {}
        self._changed = False
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """The number of trials of this run that it has learned from."""
        return sum(len(values) for _, values in self._known.values())

    def learn(self, workload: str, features: Features, estimates: Column, seconds: Column) -> None:
        """Record all trials of a workload; those that failed say nothing."""
        told = np.isfinite(seconds) & _tiled(features)
        if told.sum() > 1:
            residuals = residuals_of(estimates[told], seconds[told])
            with self._lock:
                self._known[workload] = features[told], residuals
                self._changed = True

    def predict(self, features: Features, pool: PredictionRows | None = None) -> Column:
        """Return how much faster than estimated rows are, in doublings; 0 if nothing is known.

        Args:
            features: of the rows.
            pool: the same, if they are predicted more than once.
        """
        with self._lock:
            if self._changed:
                self._fit()
            parts = [trees for trees in (self._base, self._more) if trees is not None]
        rows = PredictionRows(features, WHOLE.threads) if pool is None else pool
        found = np.zeros(len(features))
        for trees in parts:
            found += trees.predict(rows)
        return np.where(_tiled(features), np.minimum(found, self._most), 0.0)

    def _fit(self) -> None:
        self._changed = False
        shipped = 0 if self._shipped is None else len(self._shipped.residuals)
        if self._base is not None and self.count + shipped < _GROWTH * self._fitted:
            rows, values = self._trials(_ANCHORS)
            left = values - self._base.predict(rows)
            self._more = Trees.fit(rows, left, "reg", _MORE, 1)
        else:
            rows, values = self._trials(1)
            self._base, self._more = Trees.fit(rows, values, "reg", WHOLE, 0), None
            self._fitted = len(rows)

    def _trials(self, step: int) -> tuple[Features, Column]:
        """Return all trials of this run, and a fraction of those that ship with autotune."""
        known = list(self._known.values())
        if self._shipped is not None:
            known.append((self._shipped.features[::step], self._shipped.residuals[::step]))
        rows, values = zip(*known, strict=True)
        return np.concatenate(rows), np.concatenate(values)


def _tiled(features: Features) -> npt.NDArray[np.bool_]:
    return np.asarray(features[:, -1] > 0)


def with_workload(features: Features, descriptor: Features, tiles: bool = True) -> Features:
    """Return features of rows of one program with the other columns that the model needs."""
    constant = np.append(descriptor, np.float32(tiles))
    return np.concatenate([features, np.tile(constant, (len(features), 1))], axis=1)


def residuals_of(estimates: Column, seconds: Column) -> Column:
    """Return how much faster than estimated trials of one workload were, against their mean."""
    found = np.log2(estimates) - np.log2(seconds)
    return np.asarray(found - found.mean())
