"""An estimate of the time of a schedule on a GPU, from its loops: nothing is lowered or built.

Each statement that stores is looked at as a warp carries it out: how many instructions it issues,
which words of shared memory and which sectors of global memory its lanes ask for, and how often.
A multiprocessor then takes as long as the busiest of its units; where warps are few, as long as
one block waits for what it loads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt

from autotune.features.stores import StoreLoop, StoreStatement, Touch, stores_of
from autotune.ir import Var
from autotune.ir.analysis_affine import Affine, AtomKind
from autotune.target import Limits
from autotune.te import Schedule
from autotune.te.tensor import Tensor

Ints = npt.NDArray[np.int64]
_WARP = 32
# Multiprocessors where a target does not say, of a large datacentre GPU.
_SMS = 132
_CLOCK = 1.7e9
# Cycles: of a kernel without work, from asking global memory until the answer is there, the same
# of shared memory, and of a barrier.
_LAUNCH, _FAR, _NEAR, _BARRIER = 2000.0, 500.0, 12.0, 10.0
# Warps that a multiprocessor issues in a cycle, and bytes that it gets from the cache of all.
_ISSUE, _CACHE_BYTES = 4.0, 24.0
# Instructions of an element that is copied, more for each condition and division, and of a loop.
_COPY, _CHOICE, _DIVISION, _STEP = 10.0, 1.5, 5.0, 1.0
# The same of a step in which threads add up what each has.
_EXCHANGE, _SHUFFLE, _TREE = 1.5, 1.0, 45.0
# How much later the answers for four more copies come, and which part of the times of units that
# are less busy is not hidden.
_NEXT, _APART = 0.4, 0.25
# Registers for addresses, and most of a thread and of its private arrays.
_ADDRESSES, _REGISTERS, _PRIVATE = 30, 255, 160
# Statements that may be written out before instructions come too slowly.
_CODE = 8000.0
# How much longer loops take that are left to the compiler.
_LEFT = 1.05
# What threads, virtual threads and blocks are called.
_OF_THREADS, _OF_BLOCKS = "threadIdx.", "blockIdx."


def estimated_seconds(schedule: Schedule, args: Sequence[Tensor], limits: Limits) -> float:
    """Return about how long a schedule takes on a GPU; infinite if it does not fit there.

    Args:
        schedule: it is not changed.
        args: the tensors that the function takes, inputs and outputs.
        limits: of the GPU.

    Raises:
        LoweringError: bounds cannot be inferred.
    """
    kernels = groupby(stores_of(schedule, args), key=lambda store: id((*store.loops, store)[0]))
    return sum(_Kernel([*stores], limits).seconds for _, stores in kernels)


@dataclass(frozen=True)
class _Access:
    """What a warp does to one buffer: instructions, and cycles or bytes that these take."""

    instructions: float
    shared_cycles: float
    bytes: float


class _Threads:
    """The threads and blocks to which loops of a kernel are bound."""

    def __init__(self, stores: Sequence[StoreStatement]) -> None:
        self.axes: dict[str, StoreLoop] = {}
        for store in stores:
            for loop in store.loops:
                known = self.axes.get(loop.kind)
                if known is None or known.extent < loop.extent:
                    self.axes[loop.kind] = loop

    def extents(self, prefix: str) -> Iterable[int]:
        """Return the extents of the axes whose names begin so."""
        return (loop.extent for kind, loop in self.axes.items() if kind.startswith(prefix))

    @cached_property
    def count(self) -> int:
        """Threads of a block."""
        return math.prod(self.extents(_OF_THREADS))

    @cached_property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.count // _WARP)

    @cached_property
    def lanes(self) -> Mapping[Var, Ints]:
        """The values of thread axes in the first warp."""
        lane = np.arange(min(self.count, _WARP), dtype=np.int64)
        found, left = {}, lane
        for letter in "xyz":
            loop = self.axes.get(f"{_OF_THREADS}{letter}")
            if loop is None:
                continue
            if loop.var is not None:
                found[loop.var] = left % loop.extent
            left = left // loop.extent
        return found


class _Kernel:
    """The statements of one kernel."""

    def __init__(self, stores: Sequence[StoreStatement], limits: Limits) -> None:
        self.threads, self.limits = _Threads(stores), limits
        self.works = [_Statement(store, self.threads) for store in stores]

    def _memory(self, scope: str) -> float:
        """Return the bytes of all buffers in a memory."""
        found: dict[str, float] = {}
        for work in self.works:
            (place, *_) = work.store.touches
            if place.scope == scope:
                size = place.strides[0] * place.shape[0] if place.shape else 1
                virtual = [loop.extent for loop in work.serial if loop.kind == "vthread"]
                copies = math.prod(virtual) if scope == "local" else 1 + work.store.ahead
                found[place.buffer] = size * place.item * copies
        return sum(found.values())

    @cached_property
    def seconds(self) -> float:
        """The estimate."""
        threads, limits = self.threads, self.limits
        blocks = math.prod(threads.extents(_OF_BLOCKS))
        shared, held = self._memory("shared"), self._memory("local") / 4
        most_shared = max(limits.shared_bytes_optin, limits.shared_bytes)
        if threads.count > limits.threads_per_block or shared > most_shared:
            return math.inf
        sms = limits.sm_count if limits.sm_count > 1 else _SMS
        registers = min(_ADDRESSES + held * 1.2, _REGISTERS)
        slots = threads.warps * _WARP
        resident = min(
            32,
            2048 // slots,
            int(65536 // (registers * slots)),
            int((most_shared + 1024) // (shared + 1024)),
        )
        if resident < 1:
            return math.inf
        share = math.ceil(blocks / sms)
        together = min(share, resident)
        issued = near = far = 0.0
        fetch = wait = code = 0.0
        for work in self.works:
            issued += work.instructions
            near += work.shared_cycles
            far += work.bytes
            # Copies that are needed together are asked for together.
            fetch, wait = max(fetch, work.fetch), max(wait, work.waits)
            code += work.code
        spilled = max(held - _PRIVATE, 0.0) / 8
        warps = threads.warps * share
        slow = 1.0 + max(code / _CODE - 1.0, 0.0) * 0.5 + spilled
        if not any(work.store.unroll and work.store.explicit for work in self.works):
            slow *= _LEFT
        busy = [warps * issued * slow / _ISSUE, warps * near, warps * far / _CACHE_BYTES]
        alone = fetch + wait + issued * slow
        waves = math.ceil(share / together)
        cycles = max(*busy, waves * alone) + _APART * (sum(busy) - max(busy))
        return (cycles + _LAUNCH) / _CLOCK


class _Statement:
    """One statement, as a warp carries it out."""

    def __init__(self, store: StoreStatement, threads: _Threads) -> None:
        self.store, self.threads = store, threads
        # Virtual threads fetch nothing twice.
        once = any(touch.scope != "local" for touch in store.touches)
        moving = set[Var | None]().union(*(touch.moving for touch in store.touches))
        self.serial = [
            loop
            for loop in store.loops
            if not loop.kind.startswith((_OF_THREADS, _OF_BLOCKS))
            and not (once and loop.kind == "vthread" and loop.var not in moving)
        ]
        # Loops over what is in registers are written out: what does not change there stays.
        self.written = [
            loop
            for loop in self.serial
            if loop.kind == "vthread"
            or any(touch.scope == "local" and loop.var in touch.moving for touch in store.touches)
        ]

    @cached_property
    def steps(self) -> float:
        """How often it is carried out."""
        return float(math.prod(loop.extent for loop in self.serial))

    @cached_property
    def accesses(self) -> list[_Access]:
        """What it does to buffers outside registers."""
        return [self._access(each) for each in self.store.touches if each.scope != "local"]

    def _access(self, touch: Touch) -> _Access:
        kept = [
            loop for loop in self.serial if loop.var in touch.moving or loop not in self.written
        ]
        times = float(math.prod(loop.extent for loop in kept))
        width, run = 1, kept[-1] if kept else None
        if run is not None and run.var is not None and _moves_by_one(touch, run.var):
            together = run.kind == "vectorized" or (
                touch.scope == "shared" and not touch.writes and run in self.written
            )
            if together:
                width = math.gcd(run.extent, max(16 // touch.item, 1), *self._rows)
        words = self._words(touch, width)
        times /= width
        if touch.scope == "shared":
            return _Access(times, times * _conflicts(words * touch.item // 4), 0.0)
        sectors = len(np.unique(words * touch.item // 32))
        return _Access(times, 0.0, times * sectors * 32.0)

    @cached_property
    def _rows(self) -> list[int]:
        """Lengths of rows, and from row to row, of what a vector may not reach across."""
        outside = [touch for touch in self.store.touches if touch.scope != "local"]
        return [n for touch in outside for n in (*touch.shape[-1:], *touch.strides[:-1])]

    def _words(self, touch: Touch, width: int) -> Ints:
        """Return the elements that the lanes of a warp access, relative to each other."""
        place = np.zeros(min(self.threads.count, _WARP), np.int64)
        for index, stride in zip(touch.indices, touch.strides, strict=True):
            place = place + stride * _value(index, self.threads.lanes)
        return np.asarray((place[:, None] + np.arange(width)).ravel())

    @cached_property
    def bytes(self) -> float:
        """Bytes that a warp asks global memory for."""
        return sum(each.bytes for each in self.accesses)

    @cached_property
    def shared_cycles(self) -> float:
        """Cycles in which shared memory answers a warp."""
        return sum(each.shared_cycles for each in self.accesses)

    @cached_property
    def instructions(self) -> float:
        """Instructions that a warp issues."""
        counts = self.store.counts
        found = sum(each.instructions for each in self.accesses)
        sums, products = counts.get("float_addsub", 0), counts.get("float_mul", 0)
        other = sum(
            counts.get(kind, 0) for kind in ("float_cmp", "float_mathfunc", "float_divmod")
        )
        found += self.steps * (max(sums, products) + other)
        if not self.written and any(each.bytes for each in self.accesses):
            width = max(self.steps / max(self.accesses[0].instructions, 1.0), 1.0)
            cost = _COPY + _CHOICE * counts.get("int_cmp", 0)
            cost += _DIVISION * counts.get("int_divmod", 0)
            found += self.steps / width * cost
        around = math.prod(loop.extent for loop in self.serial if loop not in self.written)
        found += self.steps * _EXCHANGE * self._exchanges
        return found + _STEP * around

    @cached_property
    def _exchanges(self) -> float:
        """In how many steps threads add up what each of them has, for each element."""
        place = self.store.touches[0]
        inside = self.store.loops[self.store.allocated :]
        shared = [
            loop.extent
            for loop in inside
            if loop.kind.startswith(_OF_THREADS) and place.scope == "local"
            if loop.var is not None and not any(loop.var in index.vars for index in place.indices)
        ]
        return math.log2(math.prod(shared))

    @cached_property
    def _exchanged_in_warp(self) -> bool:
        first = self.threads.axes.get(f"{_OF_THREADS}x")
        return first is not None and first in self.store.loops[self.store.allocated :]

    @cached_property
    def code(self) -> float:
        """Statements that are written out."""
        limit, count = max(self.store.unroll, 1), 1.0
        for loop in self.written:
            count *= loop.extent
        for loop in reversed(self.serial):
            if loop in self.written:
                continue
            if count * loop.extent > limit:
                break
            count *= loop.extent
        return count

    @cached_property
    def fetch(self) -> float:
        """Cycles in which a block waits until shared memory is filled."""
        if self.store.touches[0].scope != "shared":
            return 0.0
        rounds = self._rounds(self.store.loops[: self.store.allocated])
        # Few copies of a round are under way at the same time.
        own = max(self.accesses[0].instructions / rounds / 4, 1.0)
        far = _FAR * (1 + _NEXT * (own - 1)) if self.bytes else _NEAR
        return rounds * (far / (1 + self.store.ahead) + _BARRIER)

    @cached_property
    def waits(self) -> float:
        """Cycles in which a thread waits for what it reads, one answer after another."""
        if self.store.touches[0].scope != "local":
            return 0.0
        answer = _FAR / 4 if self.bytes else _NEAR if self.shared_cycles else 0.0
        waits = answer * self._rounds(self.serial)
        if not self._exchanges:
            return waits
        if self._exchanged_in_warp:
            return waits + self.steps * self._exchanges * _SHUFFLE
        return waits + self.steps * (self._exchanges + 2) * _TREE

    def _rounds(self, loops: Sequence[StoreLoop]) -> float:
        """Return how many iterations follow each other, which are not written out."""
        followed = [loop.extent for loop in loops if loop in self.serial]
        written = [loop.extent for loop in loops if loop in self.written]
        return math.prod(followed) / math.prod(written)


def _moves_by_one(touch: Touch, var: Var) -> bool:
    """Return whether a step of a loop goes to the next element."""
    moved = 0
    for index, stride in zip(touch.indices, touch.strides, strict=True):
        if var in index.vars:
            moved += stride * int(_value(index, {var: 1}) - _value(index, {}))
    return moved == 1


def _conflicts(words: Ints) -> float:
    """Return in how many cycles shared memory answers: words of one bank come one by one."""
    return float(np.bincount(np.unique(words) % _WARP, minlength=_WARP).max())


def _value(form: Affine, known: Mapping[Var, Ints | int]) -> Ints | int:
    """Return an index where some variables have values and all others are 0."""
    total: Ints | int = 0
    for atom, factor in form.terms.items():
        if atom.kind is AtomKind.VAR:
            (var,) = atom.vars
            if var in known:
                total = total + factor * known[var]
        elif atom.form is not None and atom.kind in (AtomKind.DIV, AtomKind.MOD):
            inner = _value(atom.form, known) + atom.form.const
            whole = atom.kind is AtomKind.DIV
            total = total + factor * (inner // atom.divisor if whole else inner % atom.divisor)
    return total
