"""Types of arguments that many operators have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from autotune.ir import Expr

# One number for both spatial dimensions, or one each.
OneOrTwo = int | Sequence[int]
# Where an element stands.
Indices = tuple[Expr, ...]

# Values of any dtype.
Array = npt.NDArray[Any]
