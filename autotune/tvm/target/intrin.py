"""TVM's `target.intrin`."""

from autotune.tvm.tir.intrin_rules import register_intrin_rule

__all__ = ["register_intrin_rule"]
