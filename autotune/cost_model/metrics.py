"""Metrics of a ranking, as curves over the number of candidates at its top."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Order = npt.NDArray[np.int64]


def max_curve(scores: Float) -> Float:
    """Return the best of the first k scores, for every k."""
    return np.asarray(np.maximum.accumulate(np.asarray(scores, dtype=np.float64)))


def mean_curve(scores: Float) -> Float:
    """Return the mean of the first k scores, for every k."""
    return np.asarray(np.cumsum(scores) / np.arange(1, len(scores) + 1))


def recall_curve(ranks: Order, top: int | None = None) -> Float:
    """Return the share of the true best ``top`` (or k) among the first k proposed, for every k.

    Args:
        ranks: true rank of each point, in the order proposed; 0 is the best.
        top: how many are wanted; k itself when None.
    """
    ranks = np.asarray(ranks)
    n = len(ranks)
    if top is not None:
        return np.asarray(np.cumsum(ranks < top) / top)
    # A point counts from the k at which it is both proposed and wanted.
    since = np.maximum(np.arange(n), ranks)
    return np.asarray(np.cumsum(np.bincount(since, minlength=n)[:n]) / np.arange(1, n + 1))


def cover_curve(ranks: Order) -> Float:
    """Return, for every k, the share of k of the best that are all among the first k proposed."""
    ranks = np.asarray(ranks)
    n = len(ranks)
    # Rank r is covered once proposed; the run of covered ranks ends at the first that is not.
    when = np.full(n + 1, n, dtype=np.int64)
    when[ranks] = np.arange(n)
    whole = np.maximum.accumulate(when[:n])
    return np.asarray(np.searchsorted(whole, np.arange(n), side="right") / np.arange(1, n + 1))


def average_recall(predicted: Float, measured: Float, n: int) -> float:
    """Return the mean recall over the first ``n`` of a ranking by ``predicted``."""
    order = np.argsort(-np.asarray(predicted), kind="stable")
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[np.argsort(-np.asarray(measured), kind="stable")] = np.arange(len(order))
    return float(np.mean(recall_curve(ranks[order])[:n]))
