"""Deferral of Ctrl-C until a section that must complete has ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


class _Handler(AbstractContextManager[None]):
    """Replaces Python's handler of Ctrl-C; inside ``with``, the first one is kept for later.

    Used only in the main thread, which handles signals.

    Attributes:
        installed: whether it replaces the handler now.
    """

    def __init__(self) -> None:
        self.installed = False
        self._depth = 0
        self._came = False

    def __call__(self, number: int, frame: object) -> None:
        if not self._depth or self._came:
            self._came = False
            raise KeyboardInterrupt
        self._came = True

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, kind: object, *_: object) -> None:
        self._depth -= 1
        if self._came and not self._depth:
            self._came = False
            if kind is None:
                raise KeyboardInterrupt


_HANDLER = _Handler()
_NOTHING = nullcontext()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def interrupts_deferrable() -> Iterator[None]:
    """Make `interrupts_deferred` cheap in the block, for code that uses it often.

    The handler is installed once, not at each use. Before the first use, and between uses, Ctrl-C
    interrupts at once, as usual.
    """
    own = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not (own and _in_main_thread()):
        yield
        return
    try:
        _HANDLER.installed = True
        signal.signal(signal.SIGINT, _HANDLER)
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _HANDLER:  # else a callback set another
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _HANDLER.installed = False


def interrupts_deferred() -> AbstractContextManager[None]:
    """Defer Ctrl-C until the end of the block; a second one interrupts at once.

    Nothing is deferred in threads other than the main one, which do not get interrupts, nor if the
    program has a handler of its own.

    Raises:
        KeyboardInterrupt: after the block, if there was one in it, unless the block raised.
    """
    if not _in_main_thread():
        return _NOTHING
    return _HANDLER if _HANDLER.installed else _installed()


@contextmanager
def _installed() -> Iterator[None]:
    with interrupts_deferrable(), _HANDLER if _HANDLER.installed else _NOTHING:
        yield
