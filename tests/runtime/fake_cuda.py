"""A driver of NVIDIA devices that computes nothing, and remembers what it was asked.

It refuses what the real one refuses while a stream is captured. Python's side calls its functions
as attributes, the launcher in C by their addresses.
"""

import ctypes
import itertools

from autotune.runtime.arrays.array import NDArray
from autotune.runtime.arrays.memory import Block
from autotune.runtime.device import Device

U64, PTR, INT = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int
CAPTURING, REFUSED_WHILE_CAPTURING, IMPLICITLY_CAPTURING = 900, 901, 906
# Those of which the launcher is given the address, in its order, with their prototypes.
FUNCTIONS = {
    "cuCtxGetCurrent": [PTR],
    "cuCtxPushCurrent_v2": [PTR],
    "cuCtxPopCurrent_v2": [PTR],
    "cuLaunchKernel": [PTR, *[ctypes.c_uint] * 7, PTR, PTR, PTR],
    "cuMemsetD8Async": [U64, ctypes.c_ubyte, ctypes.c_size_t, PTR],
    "cuMemcpyDtoDAsync_v2": [U64, U64, ctypes.c_size_t, PTR],
    "cuStreamGetCaptureInfo_v2": [PTR] * 6,
    "cuStreamGetId": [PTR, PTR],
    "cuLaunchKernelEx": [PTR, PTR, PTR, PTR],
}


class Config(ctypes.Structure):
    """``CUlaunchConfig`` with attributes of 72 bytes, of which the first words tell."""

    _fields_ = [
        ("sizes", ctypes.c_uint * 7),
        ("stream", U64),
        ("attributes", ctypes.POINTER(ctypes.c_int * 18)),
        ("count", ctypes.c_uint),
    ]


def put(where, value, kind=U64):
    """Store through a pointer: an address, or what `ctypes.byref` makes."""
    address = getattr(where, "value", where)
    if hasattr(where, "_obj"):
        where._obj.value = value
    elif address:
        kind.from_address(address).value = value


def plain(value):
    return getattr(value, "value", value) or 0


class FakeCuda:
    """A driver, and what became of what it was asked.

    Attributes:
        log: what was launched, cleared and copied, in order.
        memory, modules, graphs, streams: those in use.
        captures: the numbers of captures, by their streams. What a test puts there is in the
            strictest mode; those of streams that the default stream waits for are in ``blocking``.
        ended: captures that something ended before their time.
        attributes: what was set of functions, by their handles and the attributes' numbers.
    """

    def __init__(self):
        self.log = []
        self.memory, self.modules, self.stack = {}, {}, []
        self.graphs, self.streams = set(), set()
        self.captures, self.ended = {}, set()
        self.allowing, self.blocking = set(), set()
        self.graph_ends = {}
        self.broken = None
        self.capability = 9
        self.numbers = itertools.count(0x1000, 0x100)
        self.params = {}
        self.attributes = {}
        self.relaxed = False
        # Whether it takes nothing back during any capture, however relaxed the thread is.
        self.keeps_while_capturing = False
        self.kept = {
            name: ctypes.CFUNCTYPE(INT, *kinds)(getattr(self, name))
            for name, kinds in FUNCTIONS.items()
        }

    def address(self, name):
        return ctypes.cast(self.kept[name], PTR).value

    # ---- contexts
    def cuInit(self, flags):
        return 0

    def cuDeviceGet(self, out, index):
        put(out, plain(index))
        return 0

    def cuDevicePrimaryCtxRetain(self, out, device):
        put(out, 0xC0DE + plain(device))
        return 0

    def cuCtxGetCurrent(self, out):
        put(out, self.stack[-1] if self.stack else 0)
        return 0

    def cuCtxPushCurrent_v2(self, context):
        self.stack.append(plain(context))
        return 0

    def cuCtxPopCurrent_v2(self, out):
        put(out, self.stack.pop())
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode):
        before = 2 if self.relaxed else 0
        self.relaxed = mode._obj.value == 2
        mode._obj.value = before
        return 0

    # ---- streams and graphs
    def cuStreamGetCaptureInfo_v2(self, stream, status, number, graph, nodes, count):
        found = self.captures.get(plain(stream))
        put(status, 1 if found else 0, INT)
        if found:
            put(number, found)
            put(graph, found + 1)
        return 0

    def cuStreamIsCapturing(self, stream, status):
        if not plain(stream) and self.blocking & self.captures.keys():
            return IMPLICITLY_CAPTURING
        put(status, 1 if plain(stream) in self.captures else 0, INT)
        return 0

    def cuStreamBeginCapture_v2(self, stream, mode):
        self.captures[plain(stream)] = next(self.numbers)
        if plain(mode) == 2:
            self.allowing.add(plain(stream))
        return 0

    def cuStreamEndCapture(self, stream, out):
        number = self.captures.pop(plain(stream))
        self.allowing.discard(plain(stream))
        if number in self.ended:
            return REFUSED_WHILE_CAPTURING
        self.graphs.add(number + 1)
        put(out, number + 1)
        return 0

    def cuGraphInstantiateWithFlags(self, out, graph, flags):
        self.graphs.add(plain(graph) + 1)
        put(out, plain(graph) + 1)
        return 0

    def cuGraphLaunch(self, graph, stream):
        self.log.append(("graph", plain(graph), plain(stream)))
        return 0

    def cuGraphExecDestroy(self, graph):
        return self._gone(self.graphs, graph)

    def cuGraphDestroy(self, graph):
        return self._gone(self.graphs, graph)

    def cuStreamGetId(self, stream, out):
        if plain(stream) in self.captures:
            return CAPTURING
        put(out, plain(stream) + 7)
        return 0

    def cuStreamSynchronize(self, stream):
        return CAPTURING if plain(stream) in self.captures else 0

    def cuUserObjectCreate(self, out, where, function, count, flags):
        number = next(self.numbers)
        self.graph_ends[number] = (plain(where), plain(function))
        put(out, number)
        return 0

    def cuGraphRetainUserObject(self, graph, holder, count, flags):
        self.graph_ends[plain(graph)] = self.graph_ends.pop(plain(holder))
        return 0

    def end_graph(self, graph):
        where, function = self.graph_ends.pop(graph)
        ctypes.CFUNCTYPE(INT, PTR)(function)(where)

    # ---- memory and modules
    def _unsafe(self):
        strict = self.captures.keys() - self.allowing
        if self.relaxed or not strict:
            return 0
        self.ended |= {self.captures[stream] for stream in strict}
        return REFUSED_WHILE_CAPTURING

    def _gone(self, kind, handle):
        """Take something out of what is in use."""
        refused = self._unsafe() or (self.keeps_while_capturing and self.captures and CAPTURING)
        if not refused:
            kind.remove(plain(handle)) if isinstance(kind, set) else kind.pop(plain(handle))
        return refused or 0

    def cuMemAlloc_v2(self, out, size):
        if self._unsafe():
            return self._unsafe()
        where = next(self.numbers)
        self.memory[where] = plain(size)
        put(out, where)
        return 0

    def cuMemFree_v2(self, where):
        return self._gone(self.memory, where)

    def cuModuleLoadData(self, out, image):
        if self._unsafe():
            return self._unsafe()
        handle = next(self.numbers)
        self.modules[handle] = plain(image)
        put(out, handle)
        return 0

    def cuModuleUnload(self, handle):
        return self._gone(self.modules, handle)

    def cuModuleGetFunction(self, out, module, name):
        put(out, plain(module) + 1 + plain(name)[-1])
        return 0

    def cuModuleGetGlobal_v2(self, out, size, module, name):
        put(out, plain(module) + 0x80)
        return 0

    def cuFuncGetAttribute(self, out, attribute, function):
        put(out, 1024)
        return 0

    def cuFuncSetAttribute(self, function, attribute, value):
        self.attributes[plain(function), plain(attribute)] = plain(value)
        return 0

    def cuGetErrorString(self, status, out):
        out._obj.value = f"error {plain(status)}".encode()
        return 0

    def cuDeviceGetAttribute(self, out, attribute, device):
        assert plain(attribute) == 75, "the major compute capability"
        put(out, self.capability)
        return 0

    # ---- work
    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        sizes = [plain(one) for one in (gx, gy, gz, bx, by, bz)]
        return self._launch("launch", function, sizes, stream, params)

    def cuLaunchKernelEx(self, config, function, params, extra):
        at = getattr(config, "_obj", None)
        given = Config.from_address(config if at is None else ctypes.addressof(at))
        kinds = [(each[0], each[2]) for each in given.attributes[: given.count]]
        assert kinds == [(6, 1)], "programmatic stream serialization"
        return self._launch("early", function, given.sizes[:6], given.stream, params)

    def _launch(self, how, function, sizes, stream, params):
        if self.broken:
            return self.broken
        assert self.stack, "a context is current"
        grid, block = tuple(sizes[:3]), tuple(sizes[3:])
        count = self.params[plain(function) % 0x100]
        at = ctypes.cast(params, ctypes.POINTER(PTR))
        values = tuple(U64.from_address(at[i]).value for i in range(count))
        self.log.append((how, plain(function), grid, block, values, plain(stream)))
        return 0

    def cuMemsetD8Async(self, where, byte, size, stream):
        self.log.append(("clear", plain(where), plain(size), plain(stream)))
        return 0

    def cuMemcpyDtoDAsync_v2(self, to, source, size, stream):
        self.log.append(("copy", plain(to), plain(source), plain(size), plain(stream)))
        return 0


def array_at(pointer, shape, dtype="float32", index=0):
    """Return an array of ours that says that it lies on a device."""
    return NDArray(Device("cuda", index), shape, dtype, Block(pointer, 0, None))
