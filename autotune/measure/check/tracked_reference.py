"""Runs a reference written in numpy on tracked arrays: its results, and bounds on their errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from autotune.kernel.kernel import Kernel, Scalar
from autotune.measure.check.expected import Expected, expected
from autotune.measure.check.precision import NotTracked, Work
from autotune.measure.check.rounding import SHORT
from autotune.measure.check.tracked import OWN_FORMULAS, Tracked
from autotune.measure.run.value_files import Array
from autotune.runtime.arrays.array import numpy_dtype


def follow_errors(
    reference: Callable[..., object], values: Sequence[Array], kernel: Kernel, sums: str | None
) -> list[Expected]:
    """Call a reference with arrays that carry the errors of a kernel; see `Tracked`.

    Raises:
        Exception: it cannot be followed, or fails, or gives something else than outputs.
    """
    pairs = zip(values, kernel.inputs, strict=True)
    arrays = [a for a in kernel.args if not isinstance(a, Scalar)]
    # A reference may be exact where its kernel is not, so what it widens is no wider for that.
    work = Work(sums, "float64" if any(a.dtype == "float64" for a in arrays) else "float32")
    with np.errstate(all="ignore"):
        made = reference(*(track_errors(value, a.dtype, work) for value, a in pairs))
    made = made if isinstance(made, (tuple, list)) else (made,)
    found = []
    for argument, one in zip(kernel.outputs, made, strict=True):
        if not isinstance(one, Tracked) or one.shape != argument.shape:
            raise NotTracked("an output")
        made_of = expected(*round_to_output(one, argument.dtype), argument.dtype)
        short = any(a.dtype in SHORT for a in (argument, *kernel.inputs))
        found.append(replace(made_of, basis=f"with sums in {sums or 'float32'}" if short else ""))
    return found


def track_errors(values: Array, dtype: str, work: Work) -> Array | Tracked:
    """Return an input of a reference: tracked if it is an array of floats, a copy otherwise.

    A number that is passed by value is exact, and a reference may need it as a number.
    """
    name = np.asarray(values).dtype.name
    if not np.ndim(values) or name not in ("float16", "bfloat16", "float32", "float64"):
        plain: Array = values.copy()
        return plain
    return Tracked(np.asarray(values).astype(np.float64), 0.0, numpy_dtype(dtype), work)


def round_to_output(
    made: Tracked, dtype: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the values of a result and how far a kernel's output of a dtype may be from them."""
    last = made.astype(numpy_dtype(dtype))
    return last.value, OWN_FORMULAS * last.error
