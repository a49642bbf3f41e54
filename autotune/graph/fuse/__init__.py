"""Fusion: which operators of a network become one function."""

from autotune.graph.fuse.function import Function, partition
from autotune.graph.fuse.partition import fused_groups

__all__ = ["Function", "fused_groups", "partition"]
