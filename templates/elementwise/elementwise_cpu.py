"""Chains of elementwise operations for a CPU, given as an expression: one read and one write.

The compiler makes vectors of the loop over a run of neighbours, as functions have no branches:
exp, log, tanh, erf and the sigmoid are those of generated code (`autotune.codegen.vector_math`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from autotune import SourceKernel, Target
from autotune.codegen import vector_math

from .. import common, cpu_tiles
from .elementwise_shape import Elementwise
from .expression import C

TASKS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
# Elements of a task of which there are enough, and how many each core then has at least.
_USUAL_TASK, _EACH_CORE = 16384, 4


def candidates(shape: Elementwise) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {"lanes": [4, 8, 16], "task": [TASKS[0], *(t for t in TASKS[1:] if t < shape.outputs)]}


def violation(shape: Elementwise, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run: every one can."""
    return None


def default_choice(shape: Elementwise, target: Target) -> dict[str, int]:
    """Return a good guess: long tasks, of which each core has several."""
    tasks = [t for t in candidates(shape)["task"] if t <= _USUAL_TASK]
    wanted = _EACH_CORE * max(target.limits.sm_count, 1)
    task = max((t for t in tasks if t * wanted <= shape.outputs), default=tasks[0])
    return {"lanes": cpu_tiles.vector_unit(target).floats, "task": task}


def kernel(shape: Elementwise, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    names = range(len(shape.operands))
    runs, fetched, each = zip(*(_operand(shape, number) for number in names), strict=True)
    parameters = ", ".join(f"const float* restrict in{i}" for i in names)
    expression = shape.expression.text_in(C)
    knobs: dict[str, int | str] = {
        **common.defines(size=shape.outputs, run=_run(shape), **choice),
        "INPUTS": parameters,
        "PASSED": ", ".join(f"in{i}" for i in names),
        "BEGIN_RUN": " ".join(runs),
        "FETCH_EACH": " ".join(fetched),
        "LOAD_EACH": " ".join(each),
        "EXPRESSION": expression,
        "SHORTENED": int("log_f32(" in expression or "exp_f32(" in expression),
    }
    functions = vector_math.text_of(("select_f32", *vector_math.HELPERS))
    return SourceKernel(
        "elementwise",
        "\n".join(
            (
                common.text("vector_width.h"),
                functions,
                common.text("scalar_functions.h", "elementwise.c"),
            )
        ),
        defines=knobs,
        args=shape.arguments(),
        reference=shape.reference(),
        flags=("-fno-math-errno", "-fno-trapping-math"),
        language="c",
    )


def _run(shape: Elementwise) -> int:
    """Return how many neighbours all operands have in a run, each as one number or one by one."""
    extents, _ = shape.plan
    return extents[-1] if extents else 1


def _operand(shape: Elementwise, number: int) -> tuple[str, str, str]:
    """Return statements that find an operand at the beginning of a run, prefetch and read it."""
    extents, strides = shape.plan
    steps, terms = strides[number] if strides else (), []
    for axis, stride in enumerate(steps[:-1]):
        row = f"row / {math.prod(extents[axis + 1 : -1])}"
        if stride:  # nothing is beyond the first axis
            terms.append(f"{row} % {extents[axis]} * {stride}" if axis else f"{row} * {stride}")
    begin = " + ".join([f"in{number}", *terms])
    if steps and steps[-1] == 1:
        return (
            f"const float* restrict from{number} = {begin} + column;",
            f"__builtin_prefetch(from{number} + ahead);",
            f"const float x_{number} = from{number}[j];",
        )
    return f"const float x_{number} = *({begin});", "", ""
