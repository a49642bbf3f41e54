"""Per-stream and per-graph resources of a function: its workspaces and its loaded module.

Calls on two streams may run at the same time, so each stream has its own workspaces and, if the
kernel has constants, its own loaded copy of the module, to whose variables they are copied. A
captured graph has its own as well, since it may be replayed later on any stream. The driver
reports when a graph and all its copies are destroyed; until then nothing of it is freed.
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from autotune.errors import DeviceError
from autotune.runtime.nvidia import libcuda, releases
from autotune.runtime.nvidia.modules import Loaded

# Streams whose memory is kept; of the next one the least recently used gives way.
_MOST_STREAMS = 32
# Flags of cuUserObjectCreate and cuGraphRetainUserObject.
_NO_DESTRUCTOR_SYNC, _MOVE = 1, 1


class DestroyedFlag:
    """A flag that the driver sets when a graph is destroyed, in a thread that must not run Python.

    It is a semaphore of the C library, which a plain C function raises.
    """

    def __init__(self) -> None:
        self._semaphore = ctypes.create_string_buffer(64)
        _libc().sem_init(self._semaphore, 0, 0)

    def set_when_destroyed(self, graph: int) -> None:
        """Let the driver set the flag when a graph and all its copies are destroyed."""
        holder = ctypes.c_void_p()
        post = ctypes.cast(_libc().sem_post, ctypes.c_void_p)
        where = ctypes.cast(self._semaphore, ctypes.c_void_p)
        one, flags = ctypes.c_uint(1), ctypes.c_uint(_NO_DESTRUCTOR_SYNC)
        libcuda.call("cuUserObjectCreate", ctypes.byref(holder), where, post, one, flags)
        libcuda.call(
            "cuGraphRetainUserObject", ctypes.c_void_p(graph), holder, one, ctypes.c_uint(_MOVE)
        )

    def __bool__(self) -> bool:
        value = ctypes.c_int()
        _libc().sem_getvalue(self._semaphore, ctypes.byref(value))
        return value.value > 0


_held: list[tuple[DestroyedFlag, object]] = []


def hold_until_destroyed(graph: int, what: object) -> None:
    """Keep an object until a graph and all its copies are destroyed.

    It is dropped at a later call, since the driver runs no Python.
    """
    _held[:] = [each for each in _held if not each[0]]
    flag = DestroyedFlag()
    flag.set_when_destroyed(graph)
    _held.append((flag, what))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@dataclass(eq=False)
class StreamResources:
    """What one stream or one captured graph has of its own.

    Attributes:
        loaded: the module that it runs.
        owns: whether nothing else runs that module.
        spaces: addresses of workspaces.
        gone: set when the graph is destroyed; None for a stream.
    """

    loaded: Loaded
    owns: bool
    spaces: tuple[int, ...]
    gone: DestroyedFlag | None = None

    def values(self) -> tuple[int, ...]:
        """Return what the launcher needs: functions, workspaces, variables of constants."""
        return (*self.loaded.functions, *self.spaces, *self.loaded.constants)

    def free(self) -> None:
        """Give everything back; the driver waits for what is running.

        Raises:
            DeviceError: it takes nothing; a `libcuda.CaptureError` says not yet: call it again.
        """
        while self.spaces:
            libcuda.call("cuMemFree_v2", ctypes.c_uint64(self.spaces[-1]))
            self.spaces = self.spaces[:-1]
        if self.owns:
            self.loaded.unload()
            self.owns = False


@dataclass(eq=False)
class ResourcePool:
    """The resources of one function on one device, by stream and by captured graph.

    Args:
        context: of the device.
        load: loads the module once more.
        sizes: bytes of each workspace.
    """

    context: int
    load: Callable[[], Loaded]
    sizes: tuple[int, ...]
    _common: list[Loaded] = field(default_factory=list)
    _of: OrderedDict[tuple[int, int], StreamResources] = field(default_factory=OrderedDict)
    _unused: list[StreamResources] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def load_first(self) -> None:
        """Load the module, to see that the device runs it.

        Raises:
            DeviceError: it does not.
        """
        with self._lock, libcuda.entered(self.context):
            self._unused.append(self._new())

    def of(
        self, key: int, capture: int, graph: int, forget: Callable[[int, int], bool]
    ) -> StreamResources:
        """Return the resources of a stream, or of a capture on it; they are made on first use.

        Args:
            key: identifies the stream.
            capture: the number of the capture, 0 for none.
            graph: the graph of the capture.
            forget: called before resources are reused; returns False if they are in use.
        """
        with self._lock:
            found = self._of.get((key, capture))
            if found is None:
                with libcuda.entered(self.context):
                    found = self._make(capture, graph, forget)
                self._of[key, capture] = found
            self._of.move_to_end((key, capture))
            return found

    def _make(
        self, capture: int, graph: int, forget: Callable[[int, int], bool]
    ) -> StreamResources:
        self._sweep()
        if not capture:
            self._make_room(forget)
        new = self._unused.pop() if self._unused else self._new()
        if capture:
            new.gone = DestroyedFlag()
            new.gone.set_when_destroyed(graph)
        return new

    def _new(self) -> StreamResources:
        owns = bool(self._common and self._common[0].constants)
        loaded = self.load() if owns or not self._common else self._common[0]
        if not self._common:
            self._common.append(loaded)
        spaces: list[int] = []
        try:
            for size in self.sizes:
                spaces.append(libcuda.allocate(size))
        except DeviceError:
            releases.leave(self.context, StreamResources(loaded, owns, tuple(spaces)).free)
            raise
        return StreamResources(loaded, owns, tuple(spaces))

    def _sweep(self) -> None:
        """Reclaim the resources of graphs that are destroyed."""
        for key, one in list(self._of.items()):
            if one.gone:
                del self._of[key]
                one.gone = None
                self._unused.append(one)

    def _make_room(self, forget: Callable[[int, int], bool]) -> None:
        streams = [key for key, one in self._of.items() if one.gone is None]
        for key in streams[: max(0, len(streams) + 1 - _MOST_STREAMS)]:
            if forget(*key):
                releases.leave(self.context, self._of.pop(key).free)

    def close(self) -> bool:
        """Free everything; return False if graphs that hold some of it still live."""
        with self._lock, libcuda.entered(self.context):
            self._sweep()
            held = [one for one in self._of.values() if one.gone is not None]
            for one in [*self._unused, *(s for s in self._of.values() if s.gone is None)]:
                one.free()
            self._unused.clear()
            self._of = OrderedDict((k, s) for k, s in self._of.items() if s.gone is not None)
            if held:
                return False
            while self._common:
                self._common[-1].unload()
                self._common.pop()
            return True


_waiting: deque[ResourcePool] = deque()


def close_when_free(pool: ResourcePool) -> None:
    """Free the resources of a function that can no longer be called.

    Also frees those that earlier functions had left to graphs which are destroyed by now.
    """
    _waiting.append(pool)
    releases.leave(pool.context, _close_waiting)


def _close_waiting() -> None:
    """Close all that can be; what graphs hold, or a capture keeps, waits for another turn."""
    for _ in range(len(_waiting)):
        one = _waiting.popleft()
        try:
            closed = one.close()
        except libcuda.CaptureError:
            _waiting.append(one)
            raise
        except DeviceError:
            continue
        if not closed:
            _waiting.append(one)
