"""TVM's `ir_pass`, up to 0.6: the passes that scripts call themselves."""

from typing import TYPE_CHECKING

from autotune.topi.utils import simplify as Simplify
from autotune.tvm.names import resolver

CanonicalSimplify = Simplify

__all__ = ["CanonicalSimplify", "Simplify"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
