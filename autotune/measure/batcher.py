"""Adapts a function of batches to the interface of one future for each trial.

For builders and runners of scripts, which define only ``build`` or ``run`` of a list, as in TVM.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from autotune.errors import MeasureError

Item = TypeVar("Item")
Result = TypeVar("Result")

# How long a thread that has nothing left to do may take to end. What it may still be at is a
# function of the user's, or a lock that an interrupted thread left behind: nobody waits for that.
JOIN_S = 10.0


class Batcher(Generic[Item, Result]):
    """Collects what is submitted and forwards it in batches, from one thread of its own.

    This is how builders and runners that only define ``build`` or ``run`` take part in a pipeline:
    while one batch is at work the next one gathers.

    Args:
        function: takes up to ``size`` items and returns one result each, in order.
        size: most items of a batch.
        who: names the function in error messages.
    """

    def __init__(
        self, function: Callable[[list[Item]], Sequence[Result]], size: int, who: str
    ) -> None:
        self._function = function
        self._size = max(1, size)
        self._who = who
        self._queue: queue.SimpleQueue[tuple[Item, Future[Result]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, item: Item) -> Future[Result]:
        """Queue one item."""
        future: Future[Result] = Future()
        self._queue.put((item, future))
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()
        return future

    def stop(self) -> None:
        """Cancel what waits; the batch at work is the last."""
        for _, future in self._waiting([]):
            future.cancel()
        if self._thread is not None:
            self._queue.put(None)

    def close(self) -> None:
        """Finish the batch at work, cancel what waits, and end the thread.

        A batch that does not end in `JOIN_S` is left to itself.
        """
        if self._thread is None:
            return
        self.stop()
        if self._thread is not threading.current_thread():
            self._thread.join(JOIN_S)
        self._thread = None

    def _serve(self) -> None:
        while (first := self._queue.get()) is not None:
            pairs = self._waiting([first])
            live = [(i, f) for i, f in pairs if f.set_running_or_notify_cancel()]
            if live:
                self._process([i for i, _ in live], [f for _, f in live])

    def _waiting(
        self, pairs: list[tuple[Item, Future[Result]]]
    ) -> list[tuple[Item, Future[Result]]]:
        """Add what is queued to ``pairs``, up to a batch; all of it when ``pairs`` is empty."""
        most = self._size if pairs else 1 << 62
        while len(pairs) < most:
            try:
                pair = self._queue.get_nowait()
            except queue.Empty:
                break
            if pair is None:
                self._queue.put(None)
                break
            pairs.append(pair)
        return pairs

    def _process(self, items: list[Item], futures: list[Future[Result]]) -> None:
        try:
            results = list(self._function(items))
            if len(results) != len(items):
                raise MeasureError(
                    f"{self._who}: expected one result for each of {len(items)} inputs, "
                    f"got {len(results)}"
                )
        except BaseException as error:  # the user's builder or runner: handed to who waits for it
            for future in futures:
                future.set_exception(error)
            return
        for future, result in zip(futures, results, strict=True):
            future.set_result(result)
