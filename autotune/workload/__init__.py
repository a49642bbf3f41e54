"""Workloads and candidates: the two types that measuring, records and races know.

A `Workload` realises a `Candidate` as a `Realisation`: what is built, and its reference. A `Task`
of a template is one kind, `GraphWorkload` (a te graph without a template) another.
"""

from typing import TYPE_CHECKING

from autotune.utils.names import lazy
from autotune.workload.candidate import Candidate, key_from_json, key_order, key_to_json
from autotune.workload.realisation import (
    NO_REFERENCE,
    Called,
    Computed,
    NoReference,
    Realisation,
    Reference,
)
from autotune.workload.workload import Workload

if TYPE_CHECKING:
    from autotune.workload.graph import GraphWorkload, RecordedGraph, ScheduleSteps, TensorGraph

__all__ = [
    "NO_REFERENCE",
    "Called",
    "Candidate",
    "Computed",
    "GraphWorkload",
    "NoReference",
    "Realisation",
    "RecordedGraph",
    "Reference",
    "ScheduleSteps",
    "TensorGraph",
    "Workload",
    "key_from_json",
    "key_order",
    "key_to_json",
]

# Loaded when first used: they import te, which processes that run kernels do without.
_GRAPH = ("TensorGraph", "GraphWorkload", "RecordedGraph", "ScheduleSteps")

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {name: f"autotune.workload.graph:{name}" for name in _GRAPH})
