"""Kernel Tuner's `accuracy`: arguments of several precisions, and what errors these bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from autotune.errors import TunerError
from autotune.kernel_tuner.observers.observer import OutputObserver
from autotune.kernel_tuner.tunable import TunablePrecision
from autotune.utils.check import Check, shown

__all__ = ["AccuracyObserver", "Tunable", "TunablePrecision", "error_metric_from_name"]

Array = npt.NDArray[Any]
Metric = Callable[[Array, Array], Any]
# Keeps logarithms and quotients finite.
_LEAST = float(np.finfo("float64").eps)


def _log(a: Array, b: Array) -> Array:
    return np.asarray(np.log(a + _LEAST) - np.log(b + _LEAST))


def _relative(a: Array, b: Array) -> Array:
    return np.asarray(np.abs(a - b) / np.maximum(np.abs(a), _LEAST))


# Names -> the error of results ``b`` where ``a`` is right.
_METRICS: tuple[tuple[str, Metric], ...] = (
    ("mse smd mean_square_error", lambda a, b: np.mean((a - b) ** 2)),
    ("rmse rsmd root_mean_square_error", lambda a, b: np.sqrt(np.mean((a - b) ** 2))),
    ("nrmse nrmsd", lambda a, b: np.sqrt(np.mean((a - b) ** 2)) / np.mean(a)),
    ("mae absolute_error absolute mean_absolute_error abs", lambda a, b: np.mean(np.abs(a - b))),
    ("mre relative_error relative mean_relative_error rel", lambda a, b: np.mean(_relative(a, b))),
    ("male mean_absolute_log_error", lambda a, b: np.mean(np.abs(_log(a, b)))),
    ("rmsle root_mean_square_log_error", lambda a, b: np.sqrt(np.mean(_log(a, b) ** 2))),
    ("max max_abs maximum maximum_absolute", lambda a, b: np.max(np.abs(a - b))),
    ("max_rel maximum_relative", lambda a, b: np.max(_relative(a, b))),
)
_NAMED = {name: metric for names, metric in _METRICS for name in names.split()}


def error_metric_from_name(key: str) -> Metric:
    """Return how two arrays differ, the first of which is right: ``"RMSE"``, ``"MRE"``, ...

    Raises:
        TunerError: there is no such measure.
    """
    name = Check(TunerError, "error_metric_from_name").text("key", key).lower().strip()
    metric = _NAMED.get(name.replace(" ", "_"))
    if metric is None:
        raise TunerError(f"error metric: expected one of {', '.join(_NAMED)}, got {key!r}")
    return lambda a, b: metric(*_floats(a, b))


def _floats(*values: object) -> list[Array]:
    """Return arrays as floats, those of complex numbers as two for each."""
    given = [np.asarray(each) for each in values]
    dtype = "complex128" if any(map(np.iscomplexobj, given)) else "float64"
    return [np.ascontiguousarray(each, dtype).view("float64") for each in given]


class Tunable:
    """Stands in for arguments that are other arrays by the value of a parameter."""

    def __init__(self, *args: object, **more: object) -> NoReturn:
        raise TunerError(
            "Tunable is not here: write the array as a function of a knob, in a template; for "
            "other precisions of one array there is TunablePrecision"
        )


class AccuracyObserver(OutputObserver):
    """Adds the error of each configuration to its result, instead of a comparison.

    Of several outputs it is the greatest. With such an observer an ``answer`` refuses no
    configuration.

    Args:
        metric: a name for `error_metric_from_name`, or a function of the right array and the
            kernel's; by default the root of the mean square.
        key: the name in results.
    """

    def __init__(self, metric: str | Metric | None = None, key: str = "error") -> None:
        chosen = "rmse" if metric is None else metric
        if not isinstance(chosen, str) and not callable(chosen):
            raise TunerError(f"AccuracyObserver: expected a name or function, got {shown(metric)}")
        self.metric = error_metric_from_name(chosen) if isinstance(chosen, str) else chosen
        self.key = key
        self._error = float("nan")

    def process_output(self, answer: Sequence[object] | None, output: Sequence[Array]) -> None:
        """Compare what a kernel wrote with what is right.

        Raises:
            TunerError: nothing says what is right, or it is of another size.
        """
        both = enumerate(zip(answer or (), output, strict=False))
        errors = [self._between(i, a, b) for i, (a, b) in both if a is not None]
        if not errors:
            raise TunerError("AccuracyObserver: tune_kernel needs answer=, to compare with")
        # Unlike Python's max, numpy's is not a number where an error is none.
        self._error = float(np.max(errors))

    def _between(self, place: int, answer: object, found: Array) -> float:
        right = np.asarray(answer)
        if right.dtype == object or right.size != found.size:
            raise TunerError(
                f"AccuracyObserver: answer[{place}] must be {found.size} numbers, as the argument "
                f"has, got {shown(answer)}"
            )
        error = self.metric(right, np.reshape(found, right.shape))
        if np.ndim(error) or np.asarray(error).dtype.kind not in "biuf":
            raise TunerError(f"AccuracyObserver: metric must return a number, got {shown(error)}")
        return float(error)

    def get_results(self) -> Mapping[str, object]:
        """Return the error of the last run."""
        return {self.key: self._error}
