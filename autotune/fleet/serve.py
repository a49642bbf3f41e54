"""A worker of Dask with an agent: the worker's door to `distributed`.

Dask pickles one thing on our behalf: `AgentPlugin`, a class of this file with plain arguments,
where a fleet gives agents to workers that somebody else started.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

from distributed import Worker, WorkerPlugin

from autotune.fleet.agent import Agent
from autotune.fleet.link import HANDLER, PLUGIN


class AgentPlugin(WorkerPlugin):
    """Gives a worker of Dask an agent, if it has none.

    Args:
        devices, builders: see `Agent`.
    """

    name = PLUGIN

    def __init__(self, devices: Sequence[str] | None = None, builders: int | None = None) -> None:
        self._devices = None if devices is None else list(devices)
        self._number = builders
        self._agent: Agent | None = None

    async def setup(self, worker: Worker) -> None:
        """Called by Dask in the worker."""
        if HANDLER in worker.handlers:
            return
        name = f"{socket.gethostname()}-{os.getpid()}"
        number = worker.state.nthreads if self._number is None else self._number
        make = lambda: Agent(name, self._devices, number)  # noqa: E731
        self._agent = await asyncio.get_running_loop().run_in_executor(None, make)
        worker.handlers[HANDLER] = handler(self._agent)

    async def teardown(self, worker: Worker) -> None:
        """Called by Dask as the worker ends."""
        agent, self._agent = self._agent, None
        if agent is not None:
            worker.handlers.pop(HANDLER, None)
            await asyncio.get_running_loop().run_in_executor(None, agent.close)


def handler(agent: Agent) -> Callable[..., Any]:
    """Return what Dask calls with each message to an agent."""

    async def autotune_fleet(message: Any) -> Any:
        return await asyncio.wrap_future(agent.answer(message))

    return autotune_fleet
