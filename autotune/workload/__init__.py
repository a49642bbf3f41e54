"""What is tuned, and what is tried of it: the two types that measuring, records and races know."""

from autotune.workload.candidate import Candidate, key_from_json, key_order, key_to_json
from autotune.workload.graph import Graph, GraphWorkload, RecordedGraph, ScheduleSteps
from autotune.workload.realisation import (
    NO_REFERENCE,
    Called,
    Computed,
    NoReference,
    Realisation,
    Reference,
)
from autotune.workload.workload import Workload

__all__ = [
    "NO_REFERENCE",
    "Called",
    "Candidate",
    "Computed",
    "Graph",
    "GraphWorkload",
    "NoReference",
    "Realisation",
    "RecordedGraph",
    "Reference",
    "ScheduleSteps",
    "Workload",
    "key_from_json",
    "key_order",
    "key_to_json",
]
