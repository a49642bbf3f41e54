"""A worker of Dask with an agent: the worker's connection to `distributed`.

Dask pickles one thing on our behalf: `AgentPlugin`, a class of this file with plain arguments,
where a fleet gives agents to workers that somebody else started.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import dask
from distributed import Security, Worker, WorkerPlugin

from autotune.errors import FleetError
from autotune.fleet.agent import Agent
from autotune.fleet.link import HANDLER, PLUGIN
from autotune.fleet.wire import is_packed, packed, unpacked

logger = logging.getLogger("autotvm")

# Pauses before the scheduler is looked for again.
_FIRST_S, _MOST_S = 0.2, 5.0
# Seconds after which a worker says that no scheduler has answered it so far.
_SILENT_S = 5.0
# What Dask is told in a process of ours. It tries ever more seldom while one attempt to connect
# lasts: a new scheduler is found soon by many. And its profiler of tasks, of which there are none,
# and its look at the event loop wake a process 150 times a second, beside whatever is timed there.
_SETTINGS = {
    "distributed.comm.timeouts.connect": "3s",
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
}
# A device waits no longer than this for Python's lock, while another thread carries messages.
_SWITCH_S = 5e-4


class AgentPlugin(WorkerPlugin):
    """Gives a worker of Dask an agent, if it has none.

    Args:
        devices, builders: see `Agent`.
    """

    name = PLUGIN
    # Dask would end the agents that others use, and make new ones.
    idempotent = True

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

        def make() -> Agent:
            return Agent(name, self._devices, number)

        self._agent = await asyncio.get_running_loop().run_in_executor(None, make)
        _attach(worker, self._agent)

    async def teardown(self, worker: Worker) -> None:
        """Called by Dask as the worker ends."""
        agent, self._agent = self._agent, None
        if agent is not None:
            worker.handlers.pop(HANDLER, None)
            worker.metrics.pop(HANDLER, None)
            try:
                closing = asyncio.get_running_loop().run_in_executor(None, agent.close)
            except RuntimeError:  # the interpreter is about to end
                agent.close()
            else:
                await closing


class _Lent(WorkerPlugin):
    """Lets a worker of Dask use an agent that outlives it."""

    name = f"{PLUGIN}-lent"

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def setup(self, worker: Worker) -> None:
        """Called by Dask in the worker."""
        _attach(worker, self._agent)


def _attach(worker: Worker, agent: Agent) -> None:
    """Let a worker hand messages to an agent, and say in its heartbeats that it has one."""

    async def autotune_fleet(message: object) -> object:
        answer = await asyncio.wrap_future(agent.answer(unpacked(message)))
        return packed(answer) if is_packed(message) else answer

    worker.handlers[HANDLER] = autotune_fleet
    worker.metrics[HANDLER] = lambda _: agent.facts.agent


def security_of(ca: str | None, cert: str | None, key: str | None) -> Security | None:
    """Return Dask's TLS settings with these files; None leaves it to Dask's configuration.

    Raises:
        FleetError: some of the files are named and others are not.
    """
    given = (ca, cert, key)
    if not any(given):
        return None
    if not all(given):
        raise FleetError("TLS needs three files: --tls-ca-file, --tls-cert and --tls-key")
    for path in given:
        if not os.path.isfile(str(path)):
            raise FleetError(f"TLS: there is no file {path}")
    files = {f"tls_{role}_{what}": path for role in ("scheduler", "worker", "client")
             for what, path in (("cert", cert), ("key", key))}  # fmt: skip
    made: Security = Security(  # type: ignore[no-untyped-call]
        require_encryption=True, tls_ca_file=ca, **files
    )
    return made


def serve(
    scheduler: str,
    agent: Agent,
    *,
    security: Security | None = None,
    host: str | None = None,
    port: int = 0,
    ready: Callable[[str], object] = lambda address: None,
    allows: Callable[[str], bool] = lambda address: True,
) -> None:
    """Let an agent work for a scheduler until the process is told to end (SIGTERM, SIGINT).

    When the scheduler goes, or the connection to it breaks, it is looked for again, for ever. What
    the agent has (processes, files) stays meanwhile.

    Args:
        scheduler: its address.
        agent: is closed at the end.
        security: TLS.
        host: name or address by which others reach this host; by default found out.
        port: where the worker listens; any by default.
        ready: called with the worker's address each time it has joined.
        allows: called with the address at which a scheduler listens; whether it may be joined.

    Raises:
        FleetError: it may not, or there are no certificates for TLS.
    """
    try:
        if scheduler.startswith("tls://"):
            _require_certificates(security)
        asyncio.run(_serve(scheduler, agent, security, host, port, ready, allows))
    finally:
        agent.close()


async def _serve(
    scheduler: str,
    agent: Agent,
    security: Security | None,
    host: str | None,
    port: int,
    ready: Callable[[str], object],
    allows: Callable[[str], bool],
) -> None:
    dask.config.set(_SETTINGS)
    sys.setswitchinterval(_SWITCH_S)
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    pause_s = _FIRST_S
    while not over.is_set():
        try:
            worker = _worker(scheduler, agent, security, host, port)
            async with _joined(worker, scheduler, over) as here:
                if not here:
                    return
                pause_s = _FIRST_S
                await _require_allowed(worker, scheduler, allows)
                ready(worker.address)
                await _first(worker.finished(), over.wait())
        except FleetError:
            raise
        except (OSError, asyncio.TimeoutError, RuntimeError) as error:
            why = error if error.__cause__ is None else f"{error} ({error.__cause__})"
            logger.warning("no scheduler at %s: %s; trying again", scheduler, why)
        if not over.is_set():
            await _first(asyncio.sleep(pause_s), over.wait())
            pause_s = min(2 * pause_s, _MOST_S)


def _worker(
    scheduler: str, agent: Agent, security: Security | None, host: str | None, port: int
) -> Any:
    """Returns a worker of Dask that lends an agent; it has not joined yet."""
    return Worker(
        scheduler,
        nthreads=1,
        name=f"{agent.facts.name}-{os.urandom(3).hex()}",
        memory_limit=0,
        plugins=(_Lent(agent),),
        security=security,
        host=host,
        port=port,
        dashboard=False,
        silence_logs=logging.WARNING,
    )


@asynccontextmanager
async def _joined(worker: Any, scheduler: str, over: asyncio.Event) -> AsyncIterator[bool]:
    """Let a worker join; gives False where the process is told to end while it still tries."""
    starting = asyncio.ensure_future(worker.__aenter__())  # Dask tries for ever, and says nothing
    ending = asyncio.ensure_future(over.wait())
    ended, _ = await asyncio.wait(
        [starting, ending], timeout=_SILENT_S, return_when=asyncio.FIRST_COMPLETED
    )
    if not ended:
        logger.warning(
            "no scheduler answers at %s so far; trying on. Is one running there (dask scheduler), "
            "and is the address right, or a firewall or TLS in the way?",
            scheduler,
        )
    await _first(starting, ending)
    if not starting.done():
        yield False
        return
    starting.result()
    try:
        yield True
    finally:
        await worker.__aexit__(None, None, None)


def _require_certificates(security: Security | None) -> None:
    """Look for certificates of a worker, which Dask would miss without a clear word."""
    found = security or Security()  # type: ignore[no-untyped-call]
    try:
        args = found.get_connection_args("worker")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise FleetError(f"TLS: the certificates cannot be used: {error}") from error
    if args.get("ssl_context") is None:
        raise FleetError(
            "TLS without certificates: give --tls-ca-file, --tls-cert and --tls-key, or name them "
            "in Dask's configuration (distributed.comm.tls)"
        )


async def _require_allowed(worker: Worker, scheduler: str, allows: Callable[[str], bool]) -> None:
    """Leave a scheduler that listens where it may not: who reaches it has its workers."""
    told = await worker.scheduler.identity()
    if not allows(str(told["address"])):
        raise FleetError(
            f"the scheduler at {scheduler} listens at {told['address']} without TLS: anybody who "
            "can reach it there could run code here. Start it with --host 127.0.0.1, or use TLS, "
            "or say --insecure where the network itself keeps others out"
        )


async def _first(*works: Any) -> None:
    """Wait until one of these is done; give up the others."""
    tasks = [asyncio.ensure_future(one) for one in works]
    _, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for one in others:
        one.cancel()
