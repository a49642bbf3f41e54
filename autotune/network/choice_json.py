"""Choices of kernels as plain data, from which they are made again without any trials."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from autotune.auto_scheduler import ComputeDAG, LayoutRewriteOption, RecordedState, SearchTask
from autotune.driver import kernel_hashes, kernel_of
from autotune.errors import SpaceError
from autotune.graph import Constant, Value
from autotune.graph.fuse import FusedFunction
from autotune.network.choice import RULE, ByRule, BySearch, ByTemplate, Choice
from autotune.network.implementations import offers_of
from autotune.record.fields import config_from_json
from autotune.target import Target

_DIGITS = 16


def search_task(function: FusedFunction, target: Target) -> SearchTask:
    """Return the task of a function for the auto-scheduler.

    On a CPU its kernels take weights in the order of their loops, where these are known.
    """
    dag = ComputeDAG(list(function.tensors()))
    return SearchTask(
        compute_dag=dag, workload_key=dag.workload_key(), target=target, desc=function.name,
        layout_rewrite_option=rewrite_option(function, dag, target),
    )  # fmt: skip


def rewrite_option(
    function: FusedFunction,
    dag: ComputeDAG,
    target: Target,
    known: tuple[type[Value], ...] = (Constant,),
) -> LayoutRewriteOption:
    """Return what a network does about the order of the weights of a function.

    Args:
        function: a function of it.
        dag: its tensors.
        target: what for.
        known: of which kind inputs are that can be laid out ahead of time.
    """
    values = dict(zip((each.op for each in dag.tensors), function.inputs, strict=False))
    ahead = all(isinstance(values.get(op), known) for op in dag.free_inputs)
    if not ahead:
        return LayoutRewriteOption.NO_REWRITE
    return LayoutRewriteOption.get_target_default(target, in_relay_integration=True)


def choice_to_json(choice: Choice) -> dict[str, object]:
    """Return a choice as plain data, from which it is made again without any trials."""
    row: dict[str, object] = {"kind": choice.kind}
    if not isinstance(choice, ByRule):
        row |= {"task": choice.workload.key, "candidate": choice.candidate.to_json()}
    return row


def choice_from_json(row: Mapping[str, Any], function: FusedFunction, target: Target) -> Choice:
    """Read what `choice_to_json` gave, for a function.

    Raises:
        AutotuneError: nothing computes the function so any more.
        LookupError, TypeError, ValueError: it is something else.
    """
    if row["kind"] == "rule":
        return RULE
    if row["kind"] == "search":
        task = search_task(function, target)
        return BySearch(task, RecordedState.from_json(row["candidate"]))
    for offer in offers_of(function, target):
        if offer.task.key == row["task"]:
            candidate = offer.task.own(config_from_json(row["candidate"]))
            return ByTemplate(offer, candidate)
    raise SpaceError(f"no template computes it as {str(row['task'])[:200]} any more")


def choice_hashes(choice: Choice, target: Target) -> Iterator[str]:
    """Yield the hash of a choice's kernel, then others that logs may have of the same.

    That of one by rule is empty. Logs from before November 2026 have hashes of generated text.
    """
    if isinstance(choice, ByRule):
        yield ""
        return
    made = choice.realise().what
    yield from kernel_hashes(made, target)
    kernel = kernel_of(made, target)
    text = json.dumps([kernel.source, [str(call) for call in kernel.calls], kernel.flags])
    yield hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
