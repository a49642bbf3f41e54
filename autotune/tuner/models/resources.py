"""Resources of candidates, as the compiler reports them, as columns for the models.

Registers, spills, shared memory and the size of the code decide how many blocks run side by side,
and depend on the knobs in ways that are simpler than the time does. Of what was built they are
known; of other points they are predicted from those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from autotune.cost_model import GaussianProcess, HyperPrior, factor, finite_product
from autotune.features import KnobFeatures
from autotune.measure.evidence import Evidence
from autotune.task.constraints.radix import IndexArray

Float = npt.NDArray[np.float64]

# Numbers of `Evidence.resources` that are learned, as logarithms.
LEARNED = ("registers", "spill_bytes", "shared_bytes", "stack_bytes", "code_bytes")
# Reports needed before they are: fewer say less than the noise they bring. Predictions are made
# from the latest; those are from where the search is.
FEWEST_REPORTS, MOST_REPORTS = 16, 300
# Length scale 4 of every knob from 0 to 1, hardly any noise: reports are exact and smooth.
SMOOTH = HyperPrior(weight=float(np.log(1 / 16)), noise=float(np.log(1e-3)))


def report_of(evidence: Evidence) -> Float | None:
    """Return the logarithms of what the compiler reported of a trial, or None if it did not."""
    resources = evidence.resources
    if not resources or not resources.get("registers"):
        return None
    return np.log2([1.0 + float(resources.get(name) or 0) for name in LEARNED])


class ResourceColumns:
    """Reports as columns between 0 and 1: known ones, and predictions of the others.

    Args:
        reports: by index, oldest first.
        features: of the space they are from.
    """

    def __init__(self, reports: Mapping[int, Float], features: KnobFeatures) -> None:
        self._features = features
        table = np.stack(list(reports.values()))
        low, span = table.min(axis=0), np.maximum(np.ptp(table, axis=0), 1e-9)
        self._known = dict(zip(reports, (table - low) / span, strict=True))
        latest = list(reports)[-MOST_REPORTS:]
        units = np.stack([self._known[index] for index in latest])
        self._middle = units.mean(axis=0)
        knobs = features.smooth(latest)
        self._process = GaussianProcess(knobs.shape[1], SMOOTH)
        self._places = self._process.scaled(knobs)
        covariance = self._process.covariance(self._places, self._places).astype(np.float64)
        lower = factor(covariance, self._process.noise)
        from scipy.linalg import cho_solve  # takes half a second to load

        inverse = cho_solve((lower, True), np.eye(len(latest)))
        weights = inverse @ (units - self._middle)
        self._weights = weights.astype(np.float32)
        # What the others alone would have predicted, without solving for each anew.
        without = units - weights / inverse.diagonal()[:, None]
        self._without = dict(zip(latest, _bounded(without), strict=True))

    def known(self, indices: Sequence[int] | IndexArray) -> Float:
        """Return what was reported; of points that were not built, what is predicted."""
        return self._rows(indices, self._known)

    def predicted(self, indices: Sequence[int] | IndexArray) -> Float:
        """Return what is predicted; of points that were built, by the reports of the others.

        A tree that learned from exact reports would split between two of them, and predictions
        fall on either side.
        """
        return self._rows(indices, self._without)

    def _rows(self, indices: Sequence[int] | IndexArray, instead: Mapping[int, Float]) -> Float:
        places = self._process.scaled(self._features.smooth(indices))
        covariance = self._process.covariance(places, self._places)
        rows = self._middle + finite_product(covariance, self._weights)
        rows = _bounded(rows)
        for at, index in enumerate(map(int, indices)):
            if index in instead:
                rows[at] = instead[index]
        return rows


def _bounded(rows: Float) -> Float:
    """Far from all that was built, a prediction means no more than much or little."""
    return np.asarray(np.clip(rows, -0.5, 1.5), dtype=np.float64)
