"""What analytical cost models say of a population of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Estimates:
    """Estimates of a population, one entry a row.

    Attributes:
        feasible: whether a row keeps the limits of the device.
        seconds: an estimate of the time, infinite where it is not feasible.
        features: columns for a learned model, mostly logarithms to base 2.
    """

    feasible: npt.NDArray[np.bool_]
    seconds: npt.NDArray[np.float64]
    features: npt.NDArray[np.float32]
