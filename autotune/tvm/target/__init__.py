"""TVM's `target`."""

from autotune.target import *
from autotune.target import __all__ as _ours
from autotune.tvm.target.generic_func import generic_func
from autotune.tvm.target.target import create, current_target
from autotune.tvm.tir.intrin_rules import register_intrin_rule

__all__ = [*_ours, "create", "current_target", "generic_func", "register_intrin_rule"]
