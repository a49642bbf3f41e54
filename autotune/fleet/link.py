"""The client's door to Dask: who is there, and messages to them.

Dask finds the workers, carries messages (TLS included) and knows who lives. Trials are no tasks of
Dask: a task is run again when its worker is lost, whatever came of it, and takes two ways through
the scheduler. A message goes to the worker itself, as text, numbers and bytes (msgpack).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from autotune.errors import FleetError

# What is installed on workers that were not started by `autotune worker`.
PLUGIN = "autotune-fleet"
HANDLER = "autotune_fleet"
_FAMILIES = ["msgpack"]
# A scheduler that is gone need not be told that a client leaves.
_CLOSE_S = 2.0


@dataclass(frozen=True)
class Seen:
    """What a scheduler knows of one worker.

    Attributes:
        word: when it was last heard of, by the scheduler's clock.
        agent: its name; empty where it has none.
    """

    word: float
    agent: str


def distributed() -> Any:
    """Return the package.

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


class Link:
    """A connection to the scheduler of a fleet, and through it to the workers.

    Args:
        where: address of a scheduler, a `distributed.Client`, or a cluster (`LocalCluster`, ...).
        timeout_s: seconds to find the scheduler.
        security: TLS, a `distributed.Security`; by default what Dask's configuration says.

    Raises:
        FleetError: there is none.
    """

    def __init__(self, where: Any, timeout_s: float = 10.0, security: Any = None) -> None:
        package = distributed()
        self._owned = not isinstance(where, package.Client)
        self._client = where
        if self._owned:
            address = getattr(where, "scheduler_address", where)
            if not isinstance(address, str) or not address:
                raise FleetError(
                    "Fleet: expected the address of a scheduler such as 'tcp://host:8786', a "
                    f"distributed.Client or a cluster, got {where!r}"
                )
            self._client = self._connected(package, where, address, timeout_s, security)
        self.address = str(self._client.scheduler.address)

    @staticmethod
    def _connected(package: Any, where: Any, address: str, timeout_s: float, security: Any) -> Any:
        try:
            return package.Client(
                where, timeout=timeout_s, set_as_default=False, security=security
            )
        except (OSError, ValueError, RuntimeError, asyncio.TimeoutError) as error:
            raise FleetError(
                f"no scheduler answers at {address}: {type(error).__name__}: {error}; start one "
                "(dask scheduler), or look whether the address, a firewall or TLS is in the way"
            ) from error

    def seen(self) -> Future[Mapping[str, Seen]]:
        """Ask the scheduler who its workers are, by their addresses."""
        return self._begun(self._seen())

    async def _seen(self) -> Mapping[str, Seen]:
        told = await self._client.scheduler.identity()
        return {
            str(address): Seen(float(one["last_seen"]), str(one["metrics"].get(HANDLER, "")))
            for address, one in told["workers"].items()
        }

    def ask(self, address: str, message: Mapping[str, Any]) -> Future[Any]:
        """Send a message to the agent of a worker."""
        return self._begun(self._asked(address, message))

    async def _asked(self, address: str, message: Mapping[str, Any]) -> Any:
        remote = self._client.rpc(address)
        return await getattr(remote, HANDLER)(
            message=message, serializers=_FAMILIES, deserializers=_FAMILIES
        )

    def install(self, plugin: Any) -> None:
        """Give all workers, and those to come, a plugin of ours."""
        self._client.register_plugin(plugin, name=PLUGIN)

    def _begun(self, work: Any) -> Future[Any]:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._client.loop.asyncio_loop)
        except RuntimeError as error:  # the loop was closed
            work.close()
            failed: Future[Any] = Future()
            failed.set_exception(OSError(f"the client of Dask was closed: {error}"))
            return failed

    def close(self) -> None:
        """Leave the scheduler; a client that was given stays open."""
        if self._owned:
            self._client.close(timeout=_CLOSE_S)
