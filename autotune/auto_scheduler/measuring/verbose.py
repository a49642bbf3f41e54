"""The output of a search at ``verbose`` 1 and 2, as in TVM."""

from __future__ import annotations

from autotune.auto_scheduler.problem.compute_dag import ComputeDAG
from autotune.auto_scheduler.states.loop_state import HasSteps
from autotune.errors import AutotuneError
from autotune.measure import MeasureResult

_WIDTH, _INDENT, _RULE = 70, 30, 50
# TVM's names of `MeasureErrorNo`, by number.
_ERRORS = (
    "NoError", "InstantiationError", "CompileHostError", "CompileDeviceError",
    "RuntimeDeviceError", "WrongAnswerError", "BuildTimeoutError", "RunTimeoutError",
    "UnknownError",
)  # fmt: skip


def part_heading(text: str) -> str:
    """Return the head of a part of a search."""
    line = "-" * _WIDTH
    return f"{line}\n{'-' * _INDENT}  [ {text} ]\n{line}"


def result_text(result: MeasureResult) -> str:
    """Return a result in one line."""
    when = f"all_cost:{result.all_cost:.2f}, Tstamp:{result.timestamp:.2f})"
    if result.ok:
        costs = ",".join(f"{cost:.4f}" for cost in result.costs)
        return f"MeasureResult(cost:[{costs}], error_no:0, {when}"
    number = int(result.error_no)
    name = _ERRORS[number] if 0 < number < len(_ERRORS) else _ERRORS[-1]
    return f"MeasureResult(error_type:{name}, error_msg:{result.error_msg}, {when}"


def trial_text(
    number: int, gflops: float, best_gflops: float, result: MeasureResult, state: str
) -> str:
    """Return the text of `verbose` 2 for one trial: its number, its rate, its result, its loops.

    Args:
        number: of the trial in the run, from 1.
        gflops: 1e9 operations per second that it makes; 0 if it failed.
        best_gflops: the same of the best until now.
        result: what came of it.
        state: the text of its loops.
    """
    rule = "=" * _RULE
    rates = f"GFLOPS: {gflops:.2f} / {best_gflops:.2f}"
    return f"{rule}\nNo: {number}\t{rates}\tresults: {result_text(result)}\n{rule}\n{state}\n"


def loops_text(dag: ComputeDAG, state: HasSteps) -> str:
    """Return the loops of a state, or why it has none; what is shown must not end a run."""
    try:
        return str(dag.infer_bound_from_state(state))
    except AutotuneError as error:
        return f"{type(error).__name__}: {error}\n"
