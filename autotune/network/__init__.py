"""Whole networks: their search tasks, and compiling and running them."""

from autotune.network.compile import compile_network
from autotune.network.compiled import CompiledNetwork, NetworkInstance
from autotune.network.export import export_network, load_network
from autotune.network.history import ApplyHistoryBest
from autotune.network.param_file import load_param_dict, save_param_dict
from autotune.network.search_tasks import extract_tasks
from autotune.network.template_tasks import template_tasks

__all__ = [
    "ApplyHistoryBest",
    "CompiledNetwork",
    "NetworkInstance",
    "compile_network",
    "export_network",
    "extract_tasks",
    "load_network",
    "load_param_dict",
    "save_param_dict",
    "template_tasks",
]
