"""A check whether a record belongs to the kernel that its template makes now.

A log may hold trials of kernels that have changed since. A time that was measured with an older
text, or with other flags, arguments or another reference, is not valid for the present kernel. A
record without a hash, such as AutoTVM's, is accepted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from autotune.driver import kernel_hashes
from autotune.errors import SpaceError
from autotune.measure.build.realise import realise
from autotune.measure.types import (
    BuildResult,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    Pair,
)
from autotune.record.origin import as_measured
from autotune.target import Target
from autotune.task import Task
from autotune.task.refusals import OLDER, Refusal, ignored
from autotune.task.template import TASK_TABLE
from autotune.workload import Candidate, RecordedGraph, Workload

logger = logging.getLogger("autotvm")


# Names of dtypes, layouts and the like; nothing of which C makes a call or a block.
_NAME = re.compile(r"(?:[\w.,:+@ >-]|/(?![/*]))*")
_TEXT = Refusal("an argument of the task is a text that could be code")


def differs(
    config: Candidate, result: MeasureResult, output: object, target: Target
) -> Refusal | None:
    """Return `OLDER` when a record is not of what its template returned just now.

    Args:
        config: as it was recorded.
        result: the rest of the record.
        output: what the template returned for it.
        target: what for.
    """
    then = getattr(config, "code_hash", None)
    now = getattr(output[0], "code_hash", None) if isinstance(output, (tuple, list)) else None
    if then and now and then != now:
        return OLDER
    recorded = result.evidence.kernel_hash
    if not recorded:
        return None
    # Others are computed of those records only that the present hash does not fit.
    hashes = kernel_hashes(output, target)
    same = next(hashes, recorded) == recorded or recorded in hashes
    return None if same else OLDER


def outdated(
    task: Workload, point: Candidate, recorded: Candidate, result: MeasureResult
) -> Refusal | None:
    """Return why a record is not of the kernel that a workload makes now; None when it is.

    Args:
        task: what realises the candidate, where the record says what it made then.
        point: the candidate to realise.
        recorded: the candidate as it was recorded.
        result: the rest of the record.
    """
    told = getattr(recorded, "code_hash", None) or result.evidence.kernel_hash
    if isinstance(task, RecordedGraph) or (isinstance(task, Task) and task.name not in TASK_TABLE):
        return None
    target = task.target or Target("c")
    # AutoTVM writes no messages, and of its failures nobody knows where they came from.
    raised = result.error_no == MeasureErrorNo.COMPILE_HOST and result.error_msg
    if not told and (raised or result.error_no == MeasureErrorNo.INSTANTIATION_ERROR):
        # No kernel was made that could have a hash; where there is one now, it is another.
        now = realise(MeasureInput(target, task, point))
        return None if isinstance(now, BuildResult) else OLDER
    if not told:
        return None
    try:
        return differs(recorded, result, task.realise(point).what, target)
    except SpaceError as error:
        return Refusal(str(error))
    except Exception:  # the template is the user's; what fails now did not then
        return OLDER


def current_only(
    pairs: Iterable[Pair], source: str, keep_older: bool = False, to_keep: str = ""
) -> Iterable[Pair]:
    """Return the records that the present templates could have made; a warning counts the others.

    Templates are run with the arguments of the records, which may become part of a kernel's text.
    So records are left out as well if such a text could be more than a name.

    Args:
        pairs: records of any tasks.
        source: the origin of the records, for the warning.
        keep_older: whether records of an older kernel text, or with other choices, are kept.
        to_keep: how the user asks for that, for the warning.
    """
    kept: list[Pair] = []
    refusals: dict[str, list[Refusal]] = {}
    for inp, result in pairs:
        refusal = task_refusal(inp.task)
        if refusal is None and not keep_older:
            then, _ = as_measured((inp, result))
            refusal = outdated(then.task, then.config, then.config, result)
        if refusal is None:
            kept.append((inp, result))
        else:
            refusals.setdefault(inp.task.name, []).append(refusal)
    for name, ones in refusals.items():
        logger.warning("%s: of %s, %s", source, name, ignored(ones, to_keep))
    return kept


def refusal_now(pair: Pair, otherwise: Refusal | None) -> Refusal | None:
    """Return why the template of a record makes another kernel now; None where it makes the same.

    Args:
        pair: the record.
        otherwise: what is returned where the template is not known here.
    """
    then, result = as_measured(pair)
    task = then.task
    if not isinstance(task, Task) or task.name not in TASK_TABLE or task_refusal(task):
        return otherwise
    return outdated(task, then.config, then.config, result)


def task_refusal(task: Workload) -> Refusal | None:
    """Return why the template of a task of a log must not be run; None where it may be.

    Its arguments may become the text of a kernel, which is compiled and may be run.
    """
    if not isinstance(task, Task):
        return None
    return None if names_only(task.args) else _TEXT


def names_only(value: object) -> bool:
    """Return whether the texts among arguments are names, of which no code can be made."""
    if isinstance(value, (tuple, list)):
        return all(map(names_only, value))
    if isinstance(value, dict):
        return all(map(names_only, (*value, *value.values())))
    return not isinstance(value, str) or _NAME.fullmatch(value) is not None
