"""TVM's `contrib.pickle_memoize`: results of functions, computed once in a process."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from autotune.errors import AutotuneError
from autotune.utils.check import Check

__all__ = ["memoize"]

F = TypeVar("F", bound=Callable[..., object])


def memoize(key: str, save_at_exit: bool = False) -> Callable[[F], F]:
    """Return a decorator that keeps the results of a function by its arguments.

    TVM wrote them into a file as well, from which another version of the function could get
    results of an earlier one; here they are kept in memory.

    Args:
        key: accepted for TVM scripts: a name of the results.
        save_at_exit: accepted for TVM scripts.
    """
    Check(AutotuneError, "memoize").kind("key", key, str, "a name")
    return lru_cache(maxsize=None)  # type: ignore[return-value]
