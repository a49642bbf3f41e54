"""TVM's `auto_scheduler.compute_dag`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler.compute_dag import ComputeDAG
from autotune.auto_scheduler.layout_graph import LayoutRewriteOption
from autotune.tvm.names import resolver

__all__ = ["ComputeDAG", "LayoutRewriteOption"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
