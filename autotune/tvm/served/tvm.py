"""Stands in for TVM until it is imported: then `autotune.tvm` takes its place."""

from autotune.tvm.serve import alias_tvm

alias_tvm()
