"""Tune the kernels of a model of tvmc."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.auto_scheduler import (
    HardwareParams,
    LogEstimatedLatency,
    PrintTableInfo,
    RecordToFile,
    SearchTask,
    TaskScheduler,
    TaskSchedulerCallback,
    TuningOptions,
)
from autotune.auto_scheduler import LocalBuilder as SearchBuilder
from autotune.auto_scheduler import LocalRunner as SearchRunner
from autotune.errors import GraphError
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.record import load_from_file
from autotune.target import Target
from autotune.task import Task
from autotune.tuner import GATuner, GridSearchTuner, RandomTuner, Tuner, XGBTuner, callback
from autotune.tvm.auto_scheduler.relay_integration import extract_tasks
from autotune.tvm.autotvm.task.relay_integration import extract_from_program
from autotune.tvm.driver.tvmc.model import TVMCModel
from autotune.utils.check import Check

# Names of tuners of templates.
TUNERS: dict[str, Callable[[Task], Tuner]] = {
    "ga": GATuner,
    "gridsearch": GridSearchTuner,
    "random": RandomTuner,
    "xgb": lambda task: XGBTuner(task, loss_type="rank"),
    "xgb-rank": lambda task: XGBTuner(task, loss_type="rank"),
    "xgb_knob": lambda task: XGBTuner(task, loss_type="rank", feature_type="knob"),
    "xgb_itervar": lambda task: XGBTuner(task, loss_type="rank", feature_type="itervar"),
    "xgb_curve": lambda task: XGBTuner(task, loss_type="rank", feature_type="curve"),
}


def tune_model(
    tvmc_model: TVMCModel,
    target: str | Target,
    tuning_records: str | os.PathLike[str] | None = None,
    prior_records: str | os.PathLike[str] | None = None,
    enable_autoscheduler: bool = False,
    rpc_key: str | None = None,
    hostname: str | None = None,
    port: int | str = 9090,
    trials: int = 10000,
    target_host: str | Target | None = None,
    tuner: str = "xgb",
    min_repeat_ms: float | None = None,
    early_stopping: int | None = None,
    timeout: float = 10,
    repeat: int | None = None,
    number: int | None = None,
    parallel: int | None = None,
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
    log_estimated_latency: bool = False,
    verbose: int = 1,
    **options: object,
) -> str:
    """Tune the kernels of a model and return the path of the log: ``tvmc.tune``.

    Args:
        tvmc_model: the model.
        target: what for.
        tuning_records: the log; by default a file that ends with the model.
        prior_records: an earlier log to learn from, if it is there.
        enable_autoscheduler: whether to use the auto-scheduler instead of templates.
        rpc_key: a device of a tracker, which there is none of.
        hostname: as ``rpc_key``.
        port: accepted for TVM's scripts.
        trials: with templates, of each kernel; with the auto-scheduler, of all together.
        target_host: kept for logs.
        tuner: of templates: "xgb", "xgb_knob", "ga", "random", "gridsearch", ...
        min_repeat_ms: least duration of a sample.
        early_stopping: stop a kernel after so many trials without a better one.
        timeout: seconds that one trial may take.
        repeat: samples of a trial.
        number: runs of a sample.
        parallel: processes that compile.
        hardware_params: limits for the auto-scheduler.
        include_simple_tasks: whether the auto-scheduler tunes elementwise kernels too.
        log_estimated_latency: whether total_latency.tsv says how the estimate falls.
        verbose: 0 shows no progress of the auto-scheduler.
        options: accepted.

    Raises:
        GraphError: another host or no trial is asked for, or there is no such tuner.
    """
    del port, options
    check = Check(GraphError, "tvmc.tune")
    check.kind("tvmc_model", tvmc_model, TVMCModel, "what tvmc.load returns")
    check.one_of("tuner", tuner, [*TUNERS])
    check.whole("trials", trials, 1)
    if hostname or rpc_key:
        check.refuse(
            "hostname and rpc_key", "None: this host's devices are used", (hostname, rpc_key)
        )
    records = os.fspath(tuning_records or tvmc_model.default_tuning_records_path())
    prior = os.fspath(prior_records or "")
    known = prior if prior and Path(prior).is_file() and Path(prior).stat().st_size else None
    model = (tvmc_model.mod, tvmc_model.params, target, target_host)
    measured = (timeout, number, repeat, min_repeat_ms)
    if not enable_autoscheduler:
        option = measure_option(LocalBuilder(n_parallel=parallel), LocalRunner(*measured))
        tasks = autotvm_get_tuning_tasks(*model)
        tune_tasks(tasks, records, option, tuner, trials, early_stopping, known)
        return records
    searched = autoscheduler_get_tuning_tasks(
        *model, hardware_params=hardware_params, include_simple_tasks=include_simple_tasks
    )
    how = TuningOptions(
        trials, early_stopping, verbose=verbose,
        builder=SearchBuilder(n_parallel=parallel), runner=SearchRunner(*measured),
        measure_callbacks=[RecordToFile(records)],
    )  # fmt: skip
    told: list[TaskSchedulerCallback] = [PrintTableInfo()] if verbose else []
    if log_estimated_latency:
        told.append(LogEstimatedLatency("total_latency.tsv"))
    TaskScheduler(*searched, load_log_file=known, callbacks=told).tune(how)
    return records


def tune_tasks(
    tasks: Sequence[Task],
    log_file: str,
    measure_option: Any,
    tuner: str,
    trials: int,
    early_stopping: int | None = None,
    tuning_records: str | None = None,
) -> None:
    """Tune tasks of templates one after the other.

    Args:
        tasks: what to tune.
        log_file: where records go.
        measure_option: how to measure.
        tuner: its name.
        trials: of each task, if its space has as many.
        early_stopping: stop a task after so many trials without a better one.
        tuning_records: a log to learn from.
    """
    for i, task in enumerate(tasks):
        chosen = TUNERS[tuner](task)
        if tuning_records is not None:
            chosen.load_history(load_from_file(tuning_records))
        count = min(trials, len(task.config_space))
        prefix = f"[Task {i + 1:2d}/{len(tasks):2d}] "
        chosen.tune(
            count,
            measure_option,
            early_stopping,
            callbacks=[callback.progress_bar(count, prefix), callback.log_to_file(log_file)],
        )


def autotvm_get_tuning_tasks(
    mod: object,
    params: Mapping[str, Any],
    target: str | Target,
    target_host: str | Target | None = None,
    *_: object,
    **__: object,
) -> list[Task]:
    """Return the tasks of a network for templates; further arguments of TVM's are accepted."""
    return extract_from_program(mod, params, target, target_host)


def autoscheduler_get_tuning_tasks(
    mod: object,
    params: Mapping[str, Any],
    target: str | Target,
    target_host: str | Target | None = None,
    alter_layout: object = None,
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
    **_: object,
) -> tuple[list[SearchTask], list[int]]:
    """Return the tasks of a network for the auto-scheduler, and how often each runs."""
    del alter_layout
    return extract_tasks(mod, params, target, target_host, hardware_params, include_simple_tasks)
