"""AutoTVM's name for the place of its helpers: ``util`` to TVM 0.7, ``utils`` since."""

import random
from contextlib import nullcontext as EmptyContext

import numpy as np
import numpy.typing as npt

from autotune.topi.utils import get_const_int, get_const_tuple
from autotune.utils.si import scale as format_si_prefix

__all__ = [
    "EmptyContext",
    "format_si_prefix",
    "get_const_int",
    "get_const_tuple",
    "get_rank",
    "sample_ints",
]


def get_rank(values: object) -> npt.NDArray[np.int64]:
    """Return the rank of each value, 0 for the largest, as `tuner.metric` takes them."""
    return np.argsort(np.argsort(-np.asarray(values), kind="stable"))


def sample_ints(low: int, high: int, m: int) -> list[int]:
    """Return ``m`` different integers from ``low`` on, below ``high``, at random."""
    return random.sample(range(low, high), m)
