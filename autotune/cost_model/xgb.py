"""Gradient boosted trees: the one place that imports xgboost, when the first trees are fitted.

Only `DMatrix`, `Booster`, `update` and `predict` are used, with parameters that mean the same in
xgboost 1.7, 2.x and 3.x; no callbacks, no early stopping, no ranking labels beyond 0..31.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from autotune.errors import TunerError

Loss = Literal["reg", "rank", "rank-binary"]
Float = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]

_OBJECTIVE = {
    "reg": "reg:squarederror",
    "rank": "rank:pairwise",
    "rank-binary": "rank:pairwise",
    "chance": "binary:logistic",
}
# Grades of a ranking: xgboost 2 and later only take small integers.
_GRADES = 31
# What counts as good for "rank-binary".
_GOOD_SHARE = 0.25


@dataclass(frozen=True)
class TreeSettings:
    """Size and speed of learning of an ensemble.

    Attributes:
        rounds: number of trees.
        depth: most decisions on a path.
        rate: share of each tree's correction that is taken.
        threads: 1 keeps small models fastest; None uses all cores.
    """

    rounds: int = 40
    depth: int = 5
    rate: float = 0.2
    threads: int | None = 1


class PredictionRows:
    """Rows to be predicted by several ensembles: xgboost's own form of them is made once.

    Args:
        rows: features, one row a trial.
        threads: that read them; None for all cores.
    """

    def __init__(self, rows: Rows, threads: int | None = 1) -> None:
        self.rows = rows
        self._threads = threads

    @cached_property
    def matrix(self) -> Any:
        """The rows as xgboost has them, which is imported for that."""
        return _matrix(self.rows, None, self._threads)


class Trees:
    """A fitted ensemble; larger predictions are better."""

    def __init__(self, booster: Any, threads: int | None) -> None:
        self._booster = booster
        self._threads = threads

    @staticmethod
    def fit(
        rows: Rows,
        values: Float,
        loss: Loss | Literal["chance"] = "reg",
        settings: TreeSettings | None = None,
        seed: int = 0,
        margin: Float | None = None,
    ) -> Trees:
        """Learn values, their order, or the chance that they are 1.

        Args:
            rows: features, one row a trial.
            values: what is learned; larger is better.
            loss: "reg" the value, "rank" the order, "rank-binary" which belong to the best
                quarter, "chance" the probability of 1 among 0 and 1.
            settings: size of the ensemble.
            seed: of whatever is random.
            margin: predictions of another model to start from.

        Raises:
            TunerError: an unknown loss, or no xgboost.
        """
        if loss not in _OBJECTIVE:
            raise TunerError(f"loss must be one of reg, rank, rank-binary; got {loss!r}")
        settings = settings or TreeSettings()
        matrix = _matrix(rows, _labels(values, loss), settings.threads)
        if loss.startswith("rank"):
            matrix.set_group([len(values)])
        if margin is not None:
            matrix.set_base_margin(margin)
        # As `xgboost.train` does, less what it does for callbacks and for memory at the end: of a
        # few dozen rows that is a third of its time.
        booster = _xgboost().Booster(_parameters(loss, settings, seed), [matrix])
        for number in range(settings.rounds):
            booster.update(matrix, number)
        return Trees(booster, settings.threads)

    def predict(self, rows: Rows | PredictionRows, margin: Float | None = None) -> Float:
        """Return one prediction a row."""
        matrix = (
            rows.matrix if isinstance(rows, PredictionRows) else _matrix(rows, None, self._threads)
        )
        if margin is not None:
            matrix.set_base_margin(margin)
        return np.asarray(self._booster.predict(matrix), dtype=np.float64)

    def to_json(self) -> bytes:
        """Return the ensemble as JSON, which `StoredTrees` predicts with."""
        return bytes(self._booster.save_raw("json"))

    def importance(self, names: Sequence[str]) -> Mapping[str, float]:
        """Return the total gain of each feature that the trees use."""
        gains = self._booster.get_score(importance_type="total_gain")
        return {names[int(key[1:])]: float(gain) for key, gain in gains.items()}


def load_meanwhile() -> None:
    """Import xgboost in a thread, so that a fit need not wait for it later.

    It takes 0.2 s, and up to two where scikit-learn and pandas are installed, which it imports.
    """
    if "xgboost" not in sys.modules:
        threading.Thread(target=_load, name="autotune-xgboost").start()


def _load() -> None:
    # The fit that needs it raises; where the program ends meanwhile, nobody needs it.
    with suppress(Exception):
        importlib.import_module("xgboost")


def _xgboost() -> Any:
    """Return the package, or say how to install it: a source tree may be used without."""
    try:
        return importlib.import_module("xgboost")
    except ImportError as error:
        raise TunerError(
            f"gradient boosted trees: xgboost cannot be imported ({error}); install it: "
            "pip install xgboost-cpu (where there is none of that name: pip install xgboost), or "
            "use a tuner without a model, such as GATuner"
        ) from error


def _matrix(rows: Rows, labels: Float | None, threads: int | None) -> Any:
    return _xgboost().DMatrix(np.ascontiguousarray(rows), label=labels, nthread=threads or -1)


def _labels(values: Float, loss: str) -> Float:
    if loss == "rank":
        order = np.argsort(np.argsort(values, kind="stable"), kind="stable")
        return np.floor(order * (_GRADES + 1) / max(len(values), 1)).astype(np.float64)
    if loss == "rank-binary":
        return (values >= np.quantile(values, 1 - _GOOD_SHARE)).astype(np.float64)
    return np.asarray(values, dtype=np.float64)


def _parameters(loss: str, settings: TreeSettings, seed: int) -> dict[str, object]:
    return {
        "objective": _OBJECTIVE[loss],
        "max_depth": settings.depth,
        "eta": settings.rate,
        "gamma": 1e-4,
        "min_child_weight": 0.1 if loss == "chance" else 1,
        "tree_method": "hist",
        "nthread": settings.threads or 0,
        "seed": seed,
        "verbosity": 0,
    }
