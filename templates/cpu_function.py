"""Functions of one number that follow the sums of a CPU's kernels.

What a kernel has no operation for, it applies to what a task wrote, in a loop that compilers
vectorise (`kernels/following_function.h`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.codegen import vector_math

from . import common
from .elementwise.expression import C, Expression

# Those that have a name, as expressions.
_NAMED = {
    "relu6": "min(max(a, 0), 6)",
    "silu": "a * sigmoid(a)",
    "gelu": "gelu(a)",
    "gelu_tanh": f"a * sigmoid({2 * math.sqrt(2 / math.pi)!r} * a * (1 + 0.044715 * a * a))",
}


@dataclass(frozen=True)
class Following:
    """What a kernel needs for an activation.

    Attributes:
        before: the text before that of the kernel, after that of its vectors.
        defines: the definitions.
        flags: of the compiler.
    """

    before: str
    defines: dict[str, int | str]
    flags: tuple[str, ...]


def following(activation: str, own: Sequence[str]) -> Following:
    """Return what a kernel needs for an activation; ``own`` are those that it has anyway."""
    last = common.text("following_function.h")
    if activation in own:
        return Following(last, {}, ())
    text = Expression(_NAMED.get(activation, activation), ("a",)).text_in(C)
    functions = vector_math.text_of(("select_f32", *vector_math.HELPERS))
    parts = common.text("vector_width.h"), functions, common.text("scalar_functions.h"), last
    flags = "-fno-math-errno", "-fno-trapping-math"
    return Following("\n".join(parts), {"ACTIVATION_FUNCTION": text}, flags)
