"""A Dask worker with an agent: the worker's connection to `distributed`.

Dask pickles only one object of autotune: the `AgentPlugin`, which has plain arguments, when a
fleet installs agents on workers that were started without one.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import dask
from distributed import Security, Worker, WorkerPlugin
from distributed.comm.core import connect

from autotune.errors import FleetError
from autotune.fleet.agent import Agent
from autotune.fleet.link import HANDLER, PLUGIN, require_certificates
from autotune.fleet.wire import is_packed, packed, unpacked

logger = logging.getLogger("autotvm")

# The first and the longest pause before the scheduler is looked for again.
_FIRST_S, _MOST_S = 0.2, 5.0
# Seconds after which a worker warns that no scheduler has answered so far.
_SILENT_S = 5.0
# Seconds to find out why.
_PROBE_S = 3.0
# Settings of Dask in a worker process. Within one attempt to connect Dask tries less and less
# often, so short attempts find a restarted scheduler sooner. Dask's task profiler and its check of
# the event loop would wake the process 150 times a second, which disturbs timing.
_SETTINGS = {
    "distributed.comm.timeouts.connect": "3s",
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
}
# The longest that a thread with a device waits for the GIL while another handles messages.
_SWITCH_S = 5e-4


class AgentPlugin(WorkerPlugin):
    """Gives a Dask worker an agent if it has none.

    Args:
        devices, builders: see `Agent`.
    """

    name = PLUGIN
    # Otherwise Dask would replace agents that other clients use.
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
    """Attaches an existing agent, which outlives the worker, to a Dask worker."""

    name = f"{PLUGIN}-lent"

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def setup(self, worker: Worker) -> None:
        """Called by Dask in the worker."""
        _attach(worker, self._agent)


def _attach(worker: Worker, agent: Agent) -> None:
    """Pass a worker's messages to an agent, and add the agent's name to its heartbeats."""

    async def autotune_fleet(message: object) -> object:
        answer = await asyncio.wrap_future(agent.answer(unpacked(message)))
        return packed(answer) if is_packed(message) else answer

    worker.handlers[HANDLER] = autotune_fleet
    worker.metrics[HANDLER] = lambda _: agent.facts.agent


def security_of(ca: str | None, cert: str | None, key: str | None) -> Security | None:
    """Return Dask's TLS settings with these files; None (Dask's configuration) without any.

    Raises:
        FleetError: a file is missing, or only some of the three are named.
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
    """Run an agent as a worker of a scheduler until the process gets SIGTERM, SIGINT or SIGHUP.

    If the scheduler ends or the connection breaks, the worker tries to join again without end. The
    agent keeps its processes and files meanwhile.

    Args:
        scheduler: address of the scheduler.
        agent: the agent, which is closed at the end.
        security: TLS settings.
        host: name or address by which others reach this host; by default it is detected.
        port: port on which the worker listens; any by default.
        ready: called with the worker's address each time it has joined.
        allows: called with the address on which a scheduler listens; returns whether the worker
            may join it.

    Raises:
        FleetError: the worker may not join the scheduler or cannot listen on its port, or TLS
            certificates are missing.
    """
    try:
        if scheduler.startswith("tls://"):
            require_certificates(security, "worker")
        if host or port:
            _require_port(host, port)
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
    for number in _endings():
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


def _endings() -> list[signal.Signals]:
    """Return the signals that end a worker: a lost terminal too, unless ``nohup`` started it."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([] if ignored else [signal.SIGHUP])]


def _worker(
    scheduler: str, agent: Agent, security: Security | None, host: str | None, port: int
) -> Any:
    """Return a Dask worker with an agent; it has not joined the scheduler yet."""
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
    """Let a worker join a scheduler; yield whether it did before the process was told to end."""
    starting = asyncio.ensure_future(worker.__aenter__())  # Dask tries for ever, and says nothing
    ending = asyncio.ensure_future(over.wait())
    ended, _ = await asyncio.wait(
        [starting, ending], timeout=_SILENT_S, return_when=asyncio.FIRST_COMPLETED
    )
    if not ended:
        logger.warning(
            "no scheduler answers at %s so far (%s); trying on. Is one running there (dask "
            "scheduler), and is the address right, or a firewall or TLS in the way?",
            scheduler,
            await _why_silent(worker, scheduler),
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


async def _why_silent(worker: Any, scheduler: str) -> str:
    """Return why a scheduler does not answer, which Dask does not say while it tries."""
    args = worker.security.get_connection_args("worker")
    try:
        comm = await connect(scheduler, timeout=_PROBE_S, **args)  # type: ignore[no-untyped-call]
        await comm.close()
    except (OSError, asyncio.TimeoutError, RuntimeError, TypeError) as error:
        causes = [error, *_causes(error)]
        # What the system or TLS said is behind what Dask made of it.
        said = [one for one in causes if isinstance(one, OSError) and one.errno is not None]
        cause = said[-1] if said else error
        return f"{type(cause).__name__}: {cause}"
    return "it accepts connections"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield what led to an error, the nearest first."""
    cause = error.__cause__ or getattr(error, "real_error", None)  # of a stream that was closed
    if cause is not None:
        yield cause
        yield from _causes(cause)


def _require_port(host: str | None, port: int) -> None:
    """Check that the worker can listen, as Dask would try for ever and name the scheduler."""
    place = f"port {port}" + (f" of {host}" if host else "")
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)
        not_here: list[OSError] = []
        for family, kind, protocol, _, address in found:
            try:
                with socket.socket(family, kind, protocol) as one:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    one.bind(address)
            except OSError as error:
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                not_here.append(error)
        # In containers localhost may have an address of IPv6 that nobody can use; Dask passes it.
        if len(not_here) == len(found):
            raise not_here[0]
    except OSError as error:
        raise FleetError(
            f"the worker cannot listen on {place}: {error.strerror or error}; choose another "
            "--port or --host, or leave them out"
        ) from error


async def _require_allowed(worker: Worker, scheduler: str, allows: Callable[[str], bool]) -> None:
    """Refuse an unprotected scheduler, through which anybody could run code on its workers."""
    told = await worker.scheduler.identity()
    if not allows(str(told["address"])):
        raise FleetError(
            f"the scheduler at {scheduler} listens at {told['address']} without TLS: anybody who "
            "can reach it there could run code here. Start it with --host 127.0.0.1, or use TLS, "
            "or say --insecure where the network itself keeps others out"
        )


async def _first(*works: Any) -> None:
    """Wait until one of these is done and cancel the others."""
    tasks = [asyncio.ensure_future(one) for one in works]
    _, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for one in others:
        one.cancel()
