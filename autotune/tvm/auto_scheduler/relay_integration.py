"""TVM's ``auto_scheduler.relay_integration``: tasks of a network of relay."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.auto_scheduler import HardwareParams, SearchTask
from autotune.lowering.pass_context import PassContext
from autotune.network import search_tasks
from autotune.target import Target
from autotune.tvm.relay.function import graph_of


def extract_tasks(
    mod: object,
    params: Mapping[str, object] | None,
    target: str | Target,
    target_host: str | Target | None = None,
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
    dump_workload_to_dag_log: str | None = None,
    opt_level: int = 3,
    other_targets: object = None,
) -> tuple[list[SearchTask], list[int]]:
    """Return the tasks of a module or function and how often each runs; see `network`."""
    del other_targets
    chosen = Target(target, target_host) if target_host is not None else Target(target)
    return search_tasks.extract_tasks(
        graph_of(mod), params, chosen, hardware_params, include_simple_tasks,
        dump_workload_to_dag_log, opt_level,
    )  # fmt: skip


def is_auto_scheduler_enabled() -> bool:
    """Return whether the pass context says that networks use the auto-scheduler's records."""
    return bool(PassContext.current().config.get("relay.backend.use_auto_scheduler"))
