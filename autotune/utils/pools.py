"""Pools of threads that an interrupt does not wait for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def abandonable_pool(threads: int, name: str = "") -> Iterator[ThreadPoolExecutor]:
    """Give a pool whose work is waited for at the end of the block.

    If the block or that wait raises or is interrupted, work that has not begun is cancelled, and
    work that runs ends by itself: Ctrl-C is answered at once, not when the last compiler ends.

    Args:
        threads: how much runs at once.
        name: of the threads.
    """
    pool = ThreadPoolExecutor(threads, name)
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
