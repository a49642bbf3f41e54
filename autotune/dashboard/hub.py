"""Distribution of updates: each message is made once for all readers of the same view."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress

from autotune.dashboard.importance import importance
from autotune.dashboard.json_arrays import to_text
from autotune.dashboard.model import Model
from autotune.dashboard.view import View

logger = logging.getLogger("autotune")

# Seconds between looks at the logs, between two messages to a reader, and that it may take to
# receive one; how much longer than making one the pause after it is.
LOOK_S, PAUSE_S, PATIENCE_S, REST = 0.5, 2.0, 30.0, 8.0
# Seconds for which logs are read at a time, while requests wait.
SLICE_S = 0.02
# Messages kept, and readers at once.
_KEPT, MOST_READERS = 16, 64


class Hub:
    """Follows logs and sends readers what is new.

    A reader is never sent more than one message at a time, and that is of the latest state: what
    came while it was receiving the last one is not kept for it. So one who receives slowly, or not
    at all, costs one message of memory.

    Args:
        model: the logs.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.readers: set[Viewer] = set()
        self._made: OrderedDict[tuple[int, str], str] = OrderedDict()
        self._weighing: asyncio.Task[None] | None = None

    def poll(self) -> bool:
        """Read what is new for a short time; return whether there is more to read at once."""
        try:
            return self.model.poll(SLICE_S)
        except Exception:  # what one log holds must not end the page of all
            logger.exception("the page: a log cannot be followed")
            return False

    async def follow(self) -> None:
        """Read the logs until cancelled."""
        told = -1
        while True:
            more = self.poll()
            if self.model.revision != told:
                told = self.model.revision
                for reader in self.readers:
                    reader.wake.set()
                self._weigh()
            await asyncio.sleep(0.001 if more else LOOK_S)

    def overview(self) -> str:
        """Return the message of all logs."""
        return self._message("", lambda: {"type": "overview", **self.model.overview()})

    def view(self, view: View) -> str:
        """Return the message of one workload."""
        return self._message(view.key, lambda: {"type": "view", **self.model.view(view)})

    def _message(self, key: str, make: Callable[[], dict[str, object]]) -> str:
        name = self.model.revision, key
        known = self._made.get(name)
        if known is None:
            known = self._made[name] = to_text(make())
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return known

    def _weigh(self) -> None:
        """Let another thread compute the importance of the knobs that are viewed."""
        if self._weighing is not None and not self._weighing.done():
            return
        wanted = {reader.view.workload for reader in self.readers if reader.view is not None}
        due = [one for one in wanted if self.model.wants_importance(one)]
        if due:
            self._weighing = asyncio.ensure_future(self._weighed(due))

    async def _weighed(self, workloads: list[int]) -> None:
        loop = asyncio.get_running_loop()
        for workload in workloads:
            task = self.model.importance_data(workload)
            if task is not None:
                found = await loop.run_in_executor(None, importance, *task[1])
                self.model.set_importance(task[0], found)

    def close(self) -> None:
        """Wake all waiting tasks, so that they end."""
        if self._weighing is not None:
            self._weighing.cancel()


class Viewer:
    """A viewer of the page.

    Args:
        hub: distributes the updates.
        send: sends a message, and waits until it was received.
        give_up: ends the connection.
    """

    def __init__(
        self, hub: Hub, send: Callable[[str], Awaitable[object]], give_up: Callable[[], None]
    ) -> None:
        self._hub, self._send, self._give_up = hub, send, give_up
        self.view: View | None = None
        self.wake = asyncio.Event()
        self._asked = asyncio.Event()

    def ask(self, view: View) -> None:
        """Record the viewer's selection; its data is sent as soon as the connection is free."""
        self.view = view
        self._asked.set()
        self.wake.set()
        self._hub._weigh()

    async def talk(self) -> None:
        """Send what is new until the connection ends."""
        self._hub.readers.add(self)
        try:
            self.wake.set()
            while True:
                await self.wake.wait()
                self.wake.clear()
                self._asked.clear()
                began = time.monotonic()
                messages = [self._hub.overview()]
                if self.view is not None:
                    messages.append(self._hub.view(self.view))
                cost = time.monotonic() - began
                for message in messages:
                    await asyncio.wait_for(self._send(message), PATIENCE_S)
                # A request for another view need not wait.
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._asked.wait(), max(PAUSE_S, REST * cost))
        except asyncio.TimeoutError:
            self._give_up()
        finally:
            self._hub.readers.discard(self)
