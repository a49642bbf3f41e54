"""What is tuned, and what is tried of it: the two types that measuring, records and races know."""

from autotune.workload.candidate import Candidate
from autotune.workload.graph import GraphWorkload, ScheduleSteps
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
    "GraphWorkload",
    "NoReference",
    "Realisation",
    "Reference",
    "ScheduleSteps",
    "Workload",
]
