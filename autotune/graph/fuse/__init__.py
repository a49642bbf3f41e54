"""Fusion: which operators of a network become one function."""

from autotune.graph.fuse.function import FusedFunction, function_of, partition
from autotune.graph.fuse.joint import joint_functions
from autotune.graph.fuse.partition import fused_groups

__all__ = ["FusedFunction", "function_of", "fused_groups", "joint_functions", "partition"]
