"""Runs lowered functions in Python, threads and all, and watches shared memory for races.

A kernel becomes a Python generator for each thread, which yields at barriers and shuffles. Memory
starts as NaN, so reading what nobody wrote shows in the result; an index out of bounds raises.
"""

import math

import numpy as np

from autotune.ir import element_of
from autotune.ir import stmt as st
from autotune.ir.expr import (
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Conditional,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)

BINARY = {Add: "+", Sub: "-", Mul: "*", Div: "/", FloorDiv: "//", FloorMod: "%"}
CALLS = {
    "exp": np.exp,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "log": np.log,
    "abs": np.abs,
}


class Race(Exception):
    """Two threads met at one element of shared memory with no barrier between."""


class Array:
    """Flat memory that checks its bounds."""

    def __init__(self, data):
        self.data = data

    def get(self, i):
        self.check(i)
        return self.data[i]

    def set(self, i, value):
        self.check(i)
        self.data[i] = value

    def check(self, i):
        low, high = (i, i) if isinstance(i, int | np.integer) else (min(i), max(i))
        if low < 0 or high >= len(self.data):
            raise IndexError(f"index {low}..{high} of {len(self.data)} elements")


class Shared(Array):
    """Memory of a block, which knows who touched what since the last barrier."""

    def __init__(self, data, block):
        super().__init__(data)
        self.block = block
        self.clear()

    def clear(self):
        self.readers, self.writer = {}, {}

    def get(self, i):
        for each in np.atleast_1d(i):
            writer = self.writer.get(int(each))
            if writer not in (None, self.block.thread):
                raise Race(f"{self.block.thread} reads [{each}], which {writer} wrote")
            self.readers.setdefault(int(each), set()).add(self.block.thread)
        return super().get(i)

    def set(self, i, value):
        for each in np.atleast_1d(i):
            key, me = int(each), self.block.thread
            if self.readers.get(key, set()) - {me}:
                raise Race(f"{me} writes [{each}], which {self.readers[key]} read")
            if self.writer.get(key, me) != me:
                raise Race(f"{me} writes [{each}], which {self.writer[key]} wrote")
            self.writer[key] = me
        super().set(i, value)


class Writer:
    """Writes the Python text of one kernel."""

    def __init__(self):
        self.lines = []
        self.names = {}
        self.objects = {}

    def name(self, thing):
        if thing not in self.names:
            self.names[thing] = f"v{len(self.names)}"
        return self.names[thing]

    def expr(self, e):
        match e:
            case Var():
                return {"threadIdx": "t", "blockIdx": "b"}.get(e.name.split(".")[0], "") + (
                    e.name[-1] if e.name.startswith(("threadIdx", "blockIdx")) else self.name(e)
                )
            case IntImm(value, dtype):
                return str(bool(value)) if dtype == "bool" else str(value)
            case FloatImm(value, dtype):
                return f"np.{dtype}({value!r})".replace("(inf)", "('inf')").replace(
                    "(-inf)", "('-inf')"
                )
            case Load(buffer, (index,)):
                return f"{self.name(buffer)}.get({self.expr(index)})"
            case And(a, b):
                return f"({self.expr(a)} and {self.expr(b)})"
            case Or(a, b):
                return f"({self.expr(a)} or {self.expr(b)})"
            case Not(a):
                return f"(not {self.expr(a)})"
            case CompareOp(a, b):
                return f"({self.expr(a)} {e.symbol} {self.expr(b)})"
            case Min(a, b) | Max(a, b):
                name = "minimum" if isinstance(e, Min) else "maximum"
                return f"np.{name}({self.expr(a)}, {self.expr(b)})"
            case TruncDiv(a, b) | TruncMod(a, b):
                name = "div" if isinstance(e, TruncDiv) else "mod"
                return f"trunc_{name}({self.expr(a)}, {self.expr(b)})"
            case Conditional(cond, then, other):
                return f"({self.expr(then)} if {self.expr(cond)} else {self.expr(other)})"
            case Cast(value, dtype):
                return f"np.asarray({self.expr(value)}).astype({element_of(dtype)!r})[()]"
            case Ramp(base, stride, lanes):
                return f"({self.expr(base)} + {stride} * np.arange({lanes}))"
            case Broadcast(value, _):
                return self.expr(value)
            case Call("shfl_xor" | "shfl_down" as kind, args):
                return f"(yield ({kind!r}, {', '.join(map(self.expr, args))}))"
            case Call(name, args):
                return f"CALLS[{name!r}]({', '.join(map(self.expr, args))})"
            case _:
                return f"({self.expr(e.a)} {BINARY[type(e)]} {self.expr(e.b)})"

    def stmt(self, s, indent):
        def put(text):
            self.lines.append(" " * indent + text)

        match s:
            case st.Seq(stmts):
                for each in stmts:
                    self.stmt(each, indent)
            case st.For():
                assert s.kind not in (st.ForKind.THREAD, st.ForKind.VTHREAD)
                put(f"for {self.name(s.var)} in range({self.expr(s.extent)}):")
                self.stmt(s.body, indent + 1)
            case st.If(cond, then, other):
                put(f"if {self.expr(cond)}:")
                self.stmt(then, indent + 1)
                if other is not None:
                    put("else:")
                    self.stmt(other, indent + 1)
            case st.Allocate(buffer, body):
                self.objects[self.name(buffer)] = buffer
                put(f"{self.name(buffer)} = allocate({self.name(buffer)!r})")
                self.stmt(body, indent)
            case st.LetStmt(var, value, body):
                put(f"{self.name(var)} = {self.expr(value)}")
                self.stmt(body, indent)
            case st.Store(buffer, (index,), value):
                put(f"{self.name(buffer)}.set({self.expr(index)}, {self.expr(value)})")
            case st.Evaluate(value):
                put(self.expr(value))
            case st.Barrier():
                put("yield ('barrier',)")
            case st.AsyncCopy(dst, i, src, j, size):
                item = np.dtype(dst.dtype).itemsize
                put(
                    f"copies.append(({self.name(dst)}, {self.expr(i)}, {self.name(src)}, "
                    f"{self.expr(j)}, {size // item}))"
                )
            case st.AsyncCommit():
                put("copies.append(None)")
            case st.AsyncWait(pending):
                put(f"finish(copies, {pending})")
            case _:
                raise TypeError(type(s))


def finish(copies, pending):
    groups = copies.count(None)
    while groups > pending:
        copy = copies.pop(0)
        if copy is None:
            groups -= 1
            continue
        dst, i, src, j, n = copy
        for k in range(n):
            dst.set(i + k, src.get(j + k))


class Block:
    """One block of threads running a kernel."""

    def __init__(self, kernel, code, buffers, objects, where, sizes):
        self.kernel, self.objects, self.sizes = kernel, objects, sizes
        self.shared = {}
        self.thread = None
        bx, by, bz = where
        nx, ny, nz = kernel.block
        self.threads = []
        for z in range(nz):
            for y in range(ny):
                for x in range(nx):
                    scope = {
                        "np": np,
                        "CALLS": CALLS,
                        "finish": finish,
                        "copies": [],
                        "allocate": self.allocate,
                        "bx": bx,
                        "by": by,
                        "bz": bz,
                        "tx": x,
                        "ty": y,
                        "tz": z,
                        "math": math,
                        "trunc_div": lambda a, b: int(a / b) if abs(a) < 2**50 else a // b,
                        "trunc_mod": lambda a, b: int(math.fmod(a, b)),
                        **buffers,
                    }
                    exec(code, scope)
                    self.threads.append(((x, y, z), scope["run"]()))

    def allocate(self, name):
        buffer = self.objects[name]
        size = spanned(buffer, self.sizes)
        fill = np.nan if "float" in buffer.dtype else -12345 % 127
        make = lambda: np.full(size, fill, buffer.dtype)
        if buffer.scope != "shared":
            return Array(make())
        if name not in self.shared:
            self.shared[name] = Shared(make(), self)
        return self.shared[name]

    def run(self):
        answers = [None] * len(self.threads)
        while True:
            asked = []
            for (me, thread), answer in zip(self.threads, answers, strict=True):
                self.thread = me
                try:
                    asked.append(thread.send(answer))
                except StopIteration:
                    asked.append(None)
            kinds = {ask and ask[0] for ask in asked}
            assert len(kinds) == 1, f"threads diverge: {kinds}"
            (kind,) = kinds
            if kind is None:
                return
            answers = [None] * len(asked)
            if kind == "barrier":
                for memory in self.shared.values():
                    memory.clear()
            else:
                answers = [self.shuffled(asked, i) for i in range(len(asked))]

    @staticmethod
    def shuffled(asked, i):
        kind, _, step, width = asked[i]
        lane = i % width
        other = lane ^ step if kind == "shfl_xor" else lane + step
        j = i - lane + other if other < width else i
        assert j // 32 == i // 32
        assert j < len(asked), "a shuffle with a lane that does not exist"
        return asked[j][1]


def number(extent, sizes):
    """The value of an extent, given those of sizes."""
    if isinstance(extent, int):
        return extent
    writer = Writer()
    text = writer.expr(extent)
    return eval(
        text,
        {"trunc_div": int.__floordiv__, "trunc_mod": int.__mod__, "np": np},
        {writer.name(var): value for var, value in sizes.items()},
    )


def spanned(buffer, sizes):
    """How many elements a buffer spans."""
    if not buffer.shape:
        return 1
    return number(buffer.shape[0], sizes) * number(buffer.strides[0], sizes)


def run(function, arrays, sizes=None):
    """Run a lowered function on numpy arrays, in place; ``sizes`` are the values of variables."""
    sizes = sizes or {}
    buffers = {}
    for buffer, array in zip(function.args, arrays, strict=True):
        assert array.flags.c_contiguous
        buffers[buffer] = Array(array.reshape(-1))
    for buffer in function.workspaces:
        fill = np.nan if "float" in buffer.dtype else 77
        buffers[buffer] = Array(np.full(spanned(buffer, sizes), fill, buffer.dtype))
    for kernel in function.kernels:
        writer = Writer()
        writer.stmt(kernel.body, 1)
        text = "def run():\n" + "\n".join(writer.lines) + "\n yield None\n"
        code = compile(text.replace(" yield None\n", " return\n yield\n"), kernel.name, "exec")
        named = {writer.name(thing): value for thing, value in (buffers | sizes).items()}
        assert set(kernel.params) <= set(buffers | sizes)
        gx, gy, gz = (number(extent, sizes) for extent in kernel.grid)
        for where in np.ndindex(gx, gy, gz):
            Block(kernel, code, named, writer.objects, where, sizes).run()
