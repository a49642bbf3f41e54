"""Values of arguments in files, by which processes share them: the only large data of a job."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.runtime.arrays.array import numpy_dtype

Array = npt.NDArray[np.generic]


def read_values(path: str, dtype: str) -> Array:
    """Map a file of values into memory; numpy forgets the name of types it does not know."""
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    return np.asarray(values.view(numpy_dtype(dtype)) if values.dtype.kind == "V" else values)
