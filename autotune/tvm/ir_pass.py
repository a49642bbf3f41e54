"""TVM's `ir_pass`, up to 0.6: the passes that scripts call themselves."""

from autotune.topi.utils import simplify as Simplify

CanonicalSimplify = Simplify

__all__ = ["CanonicalSimplify", "Simplify"]
