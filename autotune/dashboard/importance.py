"""Importance of each knob for the time of a trial, by permutation.

Boosted trees (xgboost) learn the logarithm of the time from the knobs of three quarters of the
trials. For the others, the values of one knob at a time are shuffled; the importance of the knob
is the increase of the prediction error (Breiman, "Random Forests", 2001; Fisher, Rudin and
Dominici, "All Models are Wrong, but Many are Useful", 2019). The shares of all knobs add up to 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.dashboard.trials import Codes, Float

METHOD = "permutation importance over boosted trees (xgboost), on trials held back"
# Trials learned from, and needed; shuffles of each knob; part of the trials that is held back.
MOST, FEWEST, SHUFFLES, HELD_BACK = 2000, 24, 3, 4
# Part of the variance that must be explained, or the shares would be those of noise.
LEAST_EXPLAINED = 0.05
# Sizes of a list that are features; of longer ones the others are left out.
_SIZES = 8


@dataclass(frozen=True)
class Importance:
    """The importance of the knobs of a workload.

    Attributes:
        shares: the share of each knob, adding up to 1; empty if there are too few trials.
        explained: the part of the variance of the remaining trials that the model explains.
        trials: number of trials from which it was computed.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    explained: float = 0.0
    trials: int = 0

    def to_json(self) -> dict[str, object]:
        """Return it as the page gets it."""
        shares = {name: round(share, 4) for name, share in self.shares.items()}
        explained = round(self.explained, 3)
        return {"method": METHOD, "shares": shares, "explained": explained, "trials": self.trials}


def importance(
    seconds: Float, codes: Mapping[str, Codes], labels: Mapping[str, Sequence[str]]
) -> Importance:
    """Return how much each knob matters.

    Args:
        seconds: of trials that succeeded.
        codes: of each knob the choices of these trials.
        labels: of each knob the values, as JSON.
    """
    count = len(seconds)
    varied = {name: chosen for name, chosen in codes.items() if len(np.unique(chosen)) > 1}
    if count < FEWEST or not varied or float(np.ptp(seconds)) == 0:
        return Importance(trials=count)
    places = np.linspace(0, count - 1, min(count, MOST)).astype(np.intp)
    rng = np.random.default_rng(0)
    rng.shuffle(places)
    groups = [features(chosen[places], labels[name]) for name, chosen in varied.items()]
    target = np.log(seconds[places])
    held = len(places) // HELD_BACK
    rows = np.concatenate(groups, axis=1).astype(np.float32)
    # Imported here: it takes half a second, which the first picture need not wait for.
    from autotune.cost_model import Trees, TreeSettings

    trees = Trees.fit(rows[held:], target[held:], "reg", TreeSettings(rounds=60))
    test, right = rows[:held], target[:held]
    error = _error(trees.predict(test), right)
    variance = float(((right - right.mean()) ** 2).mean()) or 1.0
    worse, start = [], 0
    for group in groups:
        worse.append(_shuffle(trees, test, right, start, group.shape[1], rng) - error)
        start += group.shape[1]
    explained = 1 - error / variance
    if explained < LEAST_EXPLAINED:
        return Importance(trials=count)
    gains = np.maximum(worse, 0)
    total = float(gains.sum())
    shares = gains / total if total else gains
    order = np.argsort(-shares, kind="stable")
    names = list(varied)
    return Importance({names[i]: float(shares[i]) for i in order}, explained, count)


def features(codes: Codes, labels: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the values of a knob as numbers: sizes of a list one by one, of texts the number."""
    known = [_sizes(label, code) for code, label in enumerate(labels)]
    width = max(map(len, known), default=1)
    table = np.full((len(known) + 1, width), -1.0)
    for code, sizes in enumerate(known):
        table[code, : len(sizes)] = sizes
    return table[codes]  # that of a trial without the knob is the last row


def _sizes(label: str, code: int) -> list[float]:
    try:
        value = json.loads(label)
    except ValueError:
        value = None
    values = value if isinstance(value, list) else [value]
    plain = all(isinstance(one, (int, float)) and abs(one) < 1e15 for one in values)
    return [float(one) for one in values[:_SIZES]] if values and plain else [float(code)]


def _shuffle(
    trees: Any, rows: npt.NDArray[np.float32], right: Float, start: int, width: int,
    rng: np.random.Generator,
) -> float:  # fmt: skip
    """Return the error with the columns of one knob shuffled together, over some shuffles."""
    errors = []
    for _ in range(SHUFFLES):
        other = rows.copy()
        columns = slice(start, start + width)
        other[:, columns] = rows[rng.permutation(len(rows)), columns]
        errors.append(_error(trees.predict(other), right))
    return float(np.mean(errors))


def _error(found: Float, right: Float) -> float:
    return float(((found - right) ** 2).mean())
