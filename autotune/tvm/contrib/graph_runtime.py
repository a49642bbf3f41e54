"""TVM's older name for the graph executor."""

from autotune.tvm.contrib.graph_executor import GraphModule, create

__all__ = ["GraphModule", "create"]
