"""Bodies of kernels over common memory, and a brute-force search for races in them.

All indices are affine in loops and threads, so what each thread touches between two barriers is
known without running anything.
"""

import math
from dataclasses import dataclass, field

from autotune.ir.expr import (
    EQ,
    LT,
    Add,
    And,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Load,
    Mul,
    Ramp,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    as_expr,
)
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Allocate, Barrier, Buffer, For, ForKind, If, LetStmt, Seq, Store, seq
from autotune.lowering.passes.barriers import insert_barriers
from autotune.lowering.passes.draft import Draft
from autotune.lowering.plan import Thread

ONE = FloatImm(1.0)
OPERATORS = {
    Add: int.__add__,
    Sub: int.__sub__,
    Mul: int.__mul__,
    FloorDiv: int.__floordiv__,
    TruncDiv: int.__floordiv__,
    FloorMod: int.__mod__,
    TruncMod: int.__mod__,
    LT: int.__lt__,
    EQ: int.__eq__,
    And: lambda a, b: a and b,
}


@dataclass
class Kernel:
    """A body to be built: its variables, buffers, and the slots that indices are in."""

    block: tuple = (4,)
    simplifier: Simplifier = field(default_factory=Simplifier)
    slots: dict = field(default_factory=dict)

    def __post_init__(self):
        self.threads = []
        for axis, extent in zip("xyz", self.block, strict=False):
            var = Var(f"threadIdx.{axis}", "int32", "thread")
            self.simplifier.bind(var, 0, extent - 1)
            self.threads.append(Thread(var.name, var, extent, "C", None))

    @property
    def vars(self):
        """The variables of the thread axes."""
        return [thread.var for thread in self.threads]

    def loop(self, extent, make, kind=ForKind.SERIAL):
        """A loop around what ``make`` gives for its variable."""
        var = Var(f"i{extent}")
        self.simplifier.bind(var, 0, max(extent - 1, 0))
        return For(var, extent, kind, make(var))

    def index(self, expr, slot=None, buffer=None):
        """An index in the form that lowering gives it, noted as one in a slot."""
        made = self.simplifier.simplify(as_expr(expr))
        if slot is not None:
            self.slots[buffer, made] = slot
        return made

    def write(self, buffer, index, value=ONE, slot=None):
        """A store."""
        return Store(buffer, (self.index(index, slot, buffer),), value)

    def value(self, buffer, index, slot=None):
        """A load."""
        return Load(buffer, (self.index(index, slot, buffer),))

    def read(self, buffer, index, slot=None):
        """A load into a register of the thread's own."""
        return Store(register(), (IntImm(0),), self.value(buffer, index, slot))

    def placed(self, *stmts):
        """The body with barriers."""
        body = seq(*stmts)
        draft = Draft("C", "C", self.simplifier, threads=self.threads, slots=self.slots)
        return insert_barriers(body, draft)

    def race(self, *stmts):
        """Why a body races, or None."""
        return race_in(seq(*stmts), self.threads)


def shared(size=4096):
    """Memory of a block."""
    return Buffer("S", (size,), "float32", "shared")


def register():
    """Memory of a thread."""
    return Buffer("r", (1,), "float32", "local")


def barriers(stmt):
    """How many barriers are written in a statement."""
    return str(stmt).count("barrier")


def count(kernel, *stmts):
    """How many barriers a body gets; with them it does not race, without them it does."""
    assert barriers(seq(*stmts)) == 0
    placed = kernel.placed(*stmts)
    assert race_in(placed, kernel.threads) is None, str(placed)
    if barriers(placed):
        assert kernel.race(*stmts) is not None, f"none needed:\n{placed}"
    return barriers(placed)


def race_in(stmt, threads, sizes=None):
    """Say which threads meet with no barrier between, given sizes that loops have, or None."""
    extents = [thread.extent for thread in threads]
    walk, blocks = _walk(stmt), []
    for flat in range(math.prod(extents)):
        env, rest = dict(sizes or {}), flat
        for thread in threads:
            env[thread.var] = rest % thread.extent
            rest //= thread.extent
        events = [[]]
        walk(env, events)
        blocks.append(events)
    if len({len(events) for events in blocks}) != 1:
        return "threads reach different numbers of barriers"
    for phase in zip(*blocks, strict=True):
        readers, writers = {}, {}
        for me, events in enumerate(phase):
            for writes, place in events:
                (writers if writes else readers).setdefault(place, set()).add(me)
        for place, who in writers.items():
            if any(me != other for me in who for other in readers.get(place, ())):
                return f"{place}: written by {who}, read by {readers[place]}"
    return None


# What follows gives functions of the values of variables and of what one thread has touched so
# far, a list for each time between two barriers. They are made once, and called by all threads.


def _walk(stmt):
    """What a statement touches."""
    match stmt:
        case Seq(stmts):
            parts = [_walk(each) for each in stmts]

            def walk(env, events):
                for part in parts:
                    part(env, events)

        case For(var, extent, _, body):
            end, inner = _value(extent), _walk(body)

            def walk(env, events):
                for i in range(end(env, events)):
                    inner({**env, var: i}, events)

        case If(cond, then, other):
            holds, sides = _value(cond), (other and _walk(other), _walk(then))

            def walk(env, events):
                taken = sides[bool(holds(env, events))]
                if taken is not None:
                    taken(env, events)

        case Allocate(_, body):
            return _walk(body)
        case LetStmt(var, value, body):
            named, inner = _value(value), _walk(body)

            def walk(env, events):
                inner({**env, var: named(env, events)}, events)

        case Store(buffer, (index,), value):
            stored, touch = _value(value), _touch(True, buffer, index)

            def walk(env, events):
                stored(env, events)
                touch(env, events)

        case Barrier():
            return lambda env, events: events.append([])
        case _:
            raise TypeError(type(stmt))
    return walk


def _touch(writes, buffer, index):
    """An access to memory."""
    if buffer.scope == "local":
        return lambda env, events: None
    if not isinstance(index, Ramp):
        first = _value(index)
        return lambda env, events: events[-1].append((writes, (buffer, first(env, events))))
    base, lanes = _value(index.base), range(0, index.stride * index.lanes, index.stride)

    def touch(env, events):
        start = base(env, events)
        events[-1] += [(writes, (buffer, start + lane)) for lane in lanes]

    return touch


def _value(expr):
    """The value of an expression."""
    match expr:
        case Var():
            return lambda env, events: env[expr]
        case IntImm(value):
            return lambda env, events: value
        case FloatImm():
            return lambda env, events: 0
        case Load(buffer, (index,)):
            touch = _touch(False, buffer, index)
            return lambda env, events: touch(env, events) or 0
        case _:
            a, b, operator = _value(expr.a), _value(expr.b), OPERATORS[type(expr)]
            return lambda env, events: operator(a(env, events), b(env, events))
