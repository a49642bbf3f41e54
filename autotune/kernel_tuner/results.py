"""Results as Kernel Tuner returns them: one dict for each configuration, times in milliseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from autotune.errors import TunerError
from autotune.interchange import Expression, Trial
from autotune.kernel_tuner.util import (
    CompilationFailedConfig,
    ErrorConfig,
    InvalidConfig,
    RuntimeFailedConfig,
)
from autotune.measure.types import MeasureErrorNo, MeasureInput, MeasureResult, median
from autotune.utils.check import shown
from autotune.utils.quantities import counted

_SAID: Mapping[type[ErrorConfig], str] = {
    InvalidConfig: "cannot be launched and did not count",
    CompilationFailedConfig: "could not be compiled",
    RuntimeFailedConfig: "failed or computed wrong results",
    ErrorConfig: "failed before",
}
Result = dict[str, Any]
Metric = str | Callable[[Mapping[str, Any]], Any]

_MS = 1e3
_KINDS: Mapping[MeasureErrorNo, type[ErrorConfig]] = {
    MeasureErrorNo.INSTANTIATION_ERROR: InvalidConfig,
    MeasureErrorNo.COMPILE_HOST: CompilationFailedConfig,
    MeasureErrorNo.COMPILE_DEVICE: CompilationFailedConfig,
    MeasureErrorNo.BUILD_TIMEOUT: CompilationFailedConfig,
}


def result_of(inp: MeasureInput, result: MeasureResult) -> Result:
    """Return the result of a trial; ``time`` is the median of ``times``.

    If it failed, ``time`` is an `ErrorConfig`.
    """
    found = {name: entity.val for name, entity in inp.config.recorded.items()}  # type: ignore[attr-defined]
    found |= _times(result.costs, result.ok, MeasureErrorNo(result.error_no))
    if not result.ok:
        found["error"] = result.error_msg
    for name, value in (result.evidence.resources or {}).items():
        found.setdefault({"registers": "num_regs"}.get(name, name), value)
    if stages := result.evidence.stages:
        found["compile_time"] = (stages[1] - stages[2]) * _MS
    found["benchmark_time"] = result.all_cost * _MS
    return found | {"timestamp": _stamp(result.timestamp)}


def _stamp(seconds: float) -> str:
    return str(datetime.fromtimestamp(seconds, tz=timezone.utc))


def _times(costs: Sequence[float], ok: bool, error_no: MeasureErrorNo) -> Result:
    if not ok:
        kind = _KINDS.get(error_no, RuntimeFailedConfig)
        return {"time": kind(kind.__name__)}
    return {"time": median(costs) * _MS, "times": [cost * _MS for cost in costs]}


def cached_result(trial: Trial) -> Result:
    """Return a trial of a cache as the result that it was."""
    costs = trial.samples_s or (() if trial.seconds is None else (trial.seconds,))
    found = {**trial.choices, **_times(costs, bool(costs), trial.error_no)}
    if not costs:
        found["error"] = trial.entry.get("error", trial.error_msg)
    if trial.timestamp is not None:
        found["timestamp"] = _stamp(trial.timestamp)
    return {**found, **{name: v for name, v in trial.entry.items() if name not in found}}


def failure_lines(failed: Sequence[Result]) -> list[str]:
    """Return how many configurations failed of each kind, with the most frequent reason."""
    lines = []
    for kind, said in _SAID.items():
        reasons = Counter(
            str(each["error"]).partition("\n")[0] for each in failed if type(each["time"]) is kind
        )
        if reasons:
            ((reason, _),) = reasons.most_common(1)
            count = counted(reasons.total(), "configuration")
            lines.append(f"{count} {said}, such as: {reason}")
    return lines


def check_metrics(metrics: object) -> dict[str, Metric]:
    """Return metrics by name.

    Raises:
        TunerError: they are no dict of expressions and functions.
    """
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping) or not all(
        isinstance(each, str) or callable(each) for each in metrics.values()
    ):
        raise TunerError(
            f"metrics: expected a dict of expressions and functions, got {shown(metrics)}"
        )
    return {str(name): each for name, each in metrics.items()}


def add_metrics(result: Result, metrics: Mapping[str, Metric]) -> None:
    """Add metrics of a result, in order, so that one may use those before it."""
    if isinstance(result["time"], ErrorConfig):
        return
    for name, metric in metrics.items():
        if not isinstance(metric, str):
            result[name] = metric(result)
            continue
        expression = Expression.parse(metric)
        lacking = sorted(expression.names - result.keys())
        if lacking:
            known = ", ".join(result)
            raise TunerError(f"metrics: {metric!r}: no {', '.join(lacking)} among {known}")
        result[name] = expression({each: result[each] for each in expression.names})
