"""Stands in for the `topi` of TVM 0.6 until it is imported: then it is `autotune.tvm.topi`."""

from autotune.tvm.serve import alias_tvm

alias_tvm()
