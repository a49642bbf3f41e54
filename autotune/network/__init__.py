"""Whole networks: their search tasks, and compiling and running them.

`compile_network` makes a `CompiledNetwork` of a graph, and `tune_network` tunes the functions of
it first. `templates_for` and `implements` connect layers with templates, `extract_tasks` gives the
layers to the auto-scheduler.
"""

from autotune.network.apply_history_best import ApplyHistoryBest
from autotune.network.apply_history_best_or_sample import ApplyHistoryBestOrSample
from autotune.network.check import NetworkCheck, check
from autotune.network.compile import compile_network, fallback_kernel
from autotune.network.compiled import CompiledNetwork, InstanceMemory, NetworkInstance
from autotune.network.export import export_network, load_network
from autotune.network.history import History
from autotune.network.implementations import (
    FunctionOffer,
    Implementation,
    Offer,
    implements,
    offers_of,
    templates_for,
)
from autotune.network.layer import Epilogue, Layer
from autotune.network.param_file import load_param_dict, save_param_dict
from autotune.network.pinning import check_functions, lock_network
from autotune.network.report import NetworkReport, report
from autotune.network.search_tasks import extract_tasks
from autotune.network.shared_kernels import SharedKernels
from autotune.network.template_tasks import template_tasks
from autotune.network.tuning.tune import Progress, tune_network

__all__ = [
    "ApplyHistoryBest",
    "ApplyHistoryBestOrSample",
    "CompiledNetwork",
    "Epilogue",
    "FunctionOffer",
    "History",
    "Implementation",
    "InstanceMemory",
    "Layer",
    "NetworkCheck",
    "NetworkInstance",
    "NetworkReport",
    "Offer",
    "Progress",
    "SharedKernels",
    "check",
    "check_functions",
    "compile_network",
    "export_network",
    "extract_tasks",
    "fallback_kernel",
    "implements",
    "load_network",
    "load_param_dict",
    "lock_network",
    "offers_of",
    "report",
    "save_param_dict",
    "template_tasks",
    "templates_for",
    "tune_network",
]
