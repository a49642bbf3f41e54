"""Boosted trees that are read from a file, and predict without xgboost.

Importing xgboost takes a second or two where scikit-learn and pandas are installed, which it
imports too. A search that starts with a pretrained model starts without that delay.
"""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt

from autotune.cost_model.xgb import Float, PredictionRows, Rows

Ints = npt.NDArray[np.intp]


class StoredTrees:
    """An ensemble as `Trees.to_json` wrote it; predictions differ by rounding.

    Args:
        text: a model of xgboost for "reg" as JSON (xgboost, "Introduction to Model IO").
    """

    def __init__(self, text: bytes) -> None:
        learner = json.loads(text)["learner"]
        self._base = float(learner["learner_model_param"]["base_score"].strip("[]"))
        trees = learner["gradient_booster"]["model"]["trees"]
        sizes = [len(tree["left_children"]) for tree in trees]
        # The nodes of all trees, one after another. A leaf is its own child on both sides, and has
        # its value where other nodes have the threshold of their feature.
        self._roots: Ints = np.cumsum([0, *sizes[:-1]], dtype=np.intp)
        first = np.repeat(self._roots, sizes)
        sides = [
            np.concatenate([np.array(tree[side], np.intp) for tree in trees])
            for side in ("left_children", "right_children")
        ]
        leaf = sides[0] < 0
        both = [np.where(leaf, np.arange(len(leaf)), first + side) for side in sides]
        self._children: Ints = np.stack(both, axis=1).ravel()
        self._feature: Ints = np.concatenate(
            [np.array(tree["split_indices"], np.intp) for tree in trees]
        )
        self._split = np.concatenate(
            [np.array(tree["split_conditions"], np.float32) for tree in trees]
        )
        self._depth = _depth(self._roots, self._children)

    def predict(self, rows: Rows | PredictionRows) -> Float:
        """Return one prediction a row."""
        rows = rows.rows if isinstance(rows, PredictionRows) else rows
        values = np.ascontiguousarray(rows, np.float32).ravel()
        places = (np.arange(len(rows)) * rows.shape[1])[:, None]
        node: Ints = np.broadcast_to(self._roots, (len(rows), len(self._roots)))
        for _ in range(self._depth):
            above = values.take(places + self._feature.take(node)) >= self._split.take(node)
            node = self._children.take(2 * node + above)
        return np.asarray(self._split.take(node).sum(axis=1, dtype=np.float64) + self._base)


def _depth(roots: Ints, children: Ints) -> int:
    """Return how many steps lead from the roots to the farthest leaf."""
    depth, nodes = 0, roots
    while True:
        below = children.reshape(-1, 2)[nodes]
        nodes = below[(below != nodes[:, None]).any(axis=1)].ravel()
        if not len(nodes):
            return depth
        depth += 1
