"""Stands in for nnvm, which scripts of TVM import: only its use is an error."""

from autotune.tvm.serve import stand_in

stand_in(__name__)
