"""The client's connection to Dask: the list of workers, and messages to them.

Dask finds the workers, carries messages (with TLS) and detects lost workers. Trials are not Dask
tasks, since Dask repeats a task whose worker is lost, even one that crashes workers, and routes it
through the scheduler twice. A message is sent to the worker directly, encoded by msgpack.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from autotune.errors import FleetError
from autotune.fleet.wire import packed, unpacked

# The plugin that is installed on workers that were not started by `autotune worker`.
PLUGIN = "autotune-fleet"
HANDLER = "autotune_fleet"
# The first message to a worker, see `autotune.fleet.messages.Facts`.
_GREETING = "Facts"
_FAMILIES = ["msgpack"]
# Seconds for connecting again to a scheduler that may have been restarted.
_REVIVE_S = 2.0
# Seconds for signing off; the scheduler may be gone.
_CLOSE_S = 2.0
# Seconds for installing agents, which query devices and compilers.
_INSTALL_S = 60.0
# Seconds added to the timeout of calls that have their own, and for an event loop to end.
_MORE_S = 5.0
# Each pending message has a connection of its own.
_MOST_CALLS = 8192
_NO_ANSWER = (OSError, ValueError, TypeError, RuntimeError, asyncio.TimeoutError, FutureTimeout)

T = TypeVar("T")


@dataclass(frozen=True)
class Seen:
    """The scheduler's information on one worker.

    Attributes:
        word: time of its last heartbeat, by the scheduler's clock.
        agent: name of its agent; empty if it has none.
    """

    word: float
    agent: str


def distributed() -> Any:
    """Return the package `distributed`.

    Raises:
        FleetError: it is not installed.
    """
    try:
        import distributed
    except ImportError as error:
        raise FleetError(
            "a fleet needs Dask's distributed; install it: pip install 'autotune[fleet]'"
        ) from error
    return distributed


def require_certificates(security: Any, role: str) -> None:
    """Check that a process has certificates for TLS, as Dask's own error would be unclear.

    Args:
        security: a `distributed.Security`, None for Dask's configuration, or what else Dask takes.
        role: what the process is: ``"worker"`` or ``"client"``.

    Raises:
        FleetError: there are none, or they cannot be used.
    """
    kind = distributed().Security
    if security is not None and not isinstance(security, kind):
        return
    try:
        args = (security or kind()).get_connection_args(role)
    except (OSError, ValueError) as error:
        raise FleetError(f"TLS: the certificates cannot be used: {error}") from error
    if args.get("ssl_context") is None:
        raise FleetError(
            "TLS without certificates: give --tls-ca-file, --tls-cert and --tls-key (in Python "
            "security=), or name them in Dask's configuration (distributed.comm.tls)"
        )


class EventLoop:
    """An event loop in a thread of its own; its tasks end with it.

    Raises:
        OSError: no more files can be opened.
    """

    def __init__(self) -> None:
        self._began: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, name="autotune-fleet-loop", daemon=True)
        self._thread.start()
        self.asyncio_loop = self._began.result()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            if self._began.done():
                raise
            self._began.set_exception(error)

    async def _main(self) -> None:
        self._over = asyncio.Event()
        self._began.set_result(asyncio.get_running_loop())
        await self._over.wait()

    def close(self) -> None:
        """End the loop and cancel its tasks."""
        with suppress(RuntimeError):  # it was closed before
            self.asyncio_loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_MORE_S)


class Link:
    """A connection to the scheduler of a fleet, and through it to the workers.

    Attributes:
        address: address of the scheduler.
        scheduler: id of the scheduler that answered last, which changes when it is restarted.

    Args:
        where: address of a scheduler, a `distributed.Client`, or a cluster (`LocalCluster`, ...).
        timeout_s: seconds to find the scheduler.
        security: TLS settings, a `distributed.Security`; by default those of the cluster, or of
            Dask's configuration.

    Raises:
        FleetError: no scheduler answers, or TLS certificates are missing.
    """

    def __init__(self, where: object, timeout_s: float = 10.0, security: object = None) -> None:
        self._package = distributed()
        # The loop that Dask would start is never ended if no scheduler answers.
        self._loop: EventLoop | None = None
        self._process = os.getpid()
        self.scheduler = ""
        if isinstance(where, self._package.Client):
            if where.scheduler is None:
                raise FleetError("Fleet: the client of Dask was closed")
            self._client = where
            self.address = str(where.scheduler.address)
            return
        address = getattr(where, "scheduler_address", where)
        if not isinstance(address, str) or not address:
            raise FleetError(
                "Fleet: expected the address of a scheduler such as 'tcp://host:8786', a "
                f"distributed.Client or a cluster, got {where!r}"
            )
        self.address = address
        self._security = security or getattr(where, "security", None)
        if address.startswith("tls://"):
            require_certificates(self._security, "client")
        self._loop = EventLoop()
        try:
            self._client = self._connected(timeout_s)
        except BaseException:
            self._loop.close()
            raise
        atexit.register(self.close)

    def _connected(self, timeout_s: float) -> object:
        begun = self._begun(self._met(timeout_s))
        try:
            return begun.result(timeout_s + _MORE_S)
        except _NO_ANSWER as error:
            begun.cancel()
            raise self._no_answer(error) from error

    async def _met(self, timeout_s: float) -> object:
        client = self._package.Client(
            self.address,
            timeout=timeout_s,
            set_as_default=False,
            security=self._security,
            asynchronous=True,
            connection_limit=_MOST_CALLS,
        )
        try:
            return await client
        except BaseException:
            await client.close(timeout=_CLOSE_S)
            raise

    def _no_answer(self, error: BaseException) -> FleetError:
        return FleetError(
            f"no scheduler answers at {self.address}: {type(error).__name__}: {error}; start one "
            "(dask scheduler), or look whether the address, a firewall or TLS is in the way"
        )

    def revive(self) -> None:
        """Connect again if Dask has given up the connection.

        Raises:
            FleetError: there is still no scheduler, or the Dask client belongs to the caller.
        """
        if self._client.status not in ("closed", "closing"):
            return
        if self._loop is None:
            raise FleetError("the client of Dask was closed")
        self._client = self._connected(_REVIVE_S)

    def seen(self) -> Future[Mapping[str, Seen]]:
        """Ask the scheduler for its workers, by their addresses."""
        return self._begun(self._seen())

    async def _seen(self) -> Mapping[str, Seen]:
        if self._client.scheduler is None:  # Dask has just given up
            raise OSError("the connection to it was closed")
        told = await self._client.scheduler.identity()
        self.scheduler = str(told["id"])
        return {
            str(address): Seen(float(one["last_seen"]), str(one["metrics"].get(HANDLER, "")))
            for address, one in told["workers"].items()
        }

    def ask(self, address: str, message: Mapping[str, object]) -> Future[object]:
        """Send a message to the agent of a worker."""
        # Workers of other versions may not understand bytes, but must be able to answer this one.
        sent = message if message["ask"] == _GREETING else packed(message)
        return self._begun(self._asked(address, sent))

    async def _asked(self, address: str, message: Mapping[str, object] | bytes) -> object:
        remote = self._client.rpc(address)
        answer = await getattr(remote, HANDLER)(
            message=message, serializers=_FAMILIES, deserializers=_FAMILIES
        )
        return unpacked(answer)

    def install(self, plugin: object) -> None:
        """Install a plugin on all workers of the scheduler, including those that join later."""
        self._begun(self._installed(plugin)).result(_INSTALL_S)

    async def _installed(self, plugin: object) -> None:
        await self._client.register_plugin(plugin, name=PLUGIN)

    def _begun(self, work: Coroutine[object, object, T]) -> Future[T]:
        loop = self._client.loop if self._loop is None else self._loop
        try:
            return asyncio.run_coroutine_threadsafe(work, loop.asyncio_loop)
        except RuntimeError as error:  # the loop was closed
            work.close()
            failed: Future[T] = Future()
            failed.set_exception(OSError(f"the client of Dask was closed: {error}"))
            return failed

    def close(self) -> None:
        """Close the connection, unless the Dask client belongs to the caller.

        Nothing is done in a forked process, since the client's threads are those of its parent.
        """
        if self._loop is None or os.getpid() != self._process:
            return
        atexit.unregister(self.close)
        with suppress(Exception):  # the scheduler may be gone
            self._begun(self._left()).result(_CLOSE_S + _MORE_S)
        self._loop.close()

    async def _left(self) -> None:
        await self._client.close(timeout=_CLOSE_S)
