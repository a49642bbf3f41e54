"""The memory plan of a network: offsets of its values in one block of memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from autotune.graph import Value
from autotune.graph.fuse import FusedFunction
from autotune.utils.math import round_up

ALIGNMENT = 256
# Of what a kernel reads or writes: it may do so by vectors.
_VECTOR_ALIGNMENT = 64
Aliases = Mapping[Value, tuple[Value, int]]


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets of values in one block.

    Attributes:
        offsets: bytes from the start; values that share memory have the same one.
        bytes: of the whole block.
        least: what any plan needs: the most that is alive at one time.
        aliases: values that are in the memory of another one, with that one and the bytes from its
            start: the same numbers in another shape, parts of numbers that are joined, or written
            over numbers that nobody reads any more.
    """

    offsets: Mapping[Value, int]
    bytes: int
    least: int
    aliases: Aliases


@dataclass(frozen=True)
class _LiveRange:
    """The functions between which a value must be kept, both included."""

    value: Value
    size: int
    first: int
    last: int


def plan_memory(
    functions: Sequence[FusedFunction],
    outside: Sequence[Value],
    in_place: Sequence[Sequence[Value]] = (),
    kept: int = 0,
) -> MemoryPlan:
    """Place the values between functions so that those alive together do not overlap.

    The largest are placed first, each at the lowest offset that is free (greedy by size, as in
    Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).

    Args:
        functions: the functions, in the order in which they run.
        outside: inputs, outputs and constants, which have memory of their own.
        in_place: for each function, the inputs whose memory its result may take over if they are
            not read later; by default none.
        kept: the number of functions after the last reader of a value for which its memory is not
            reused, so that they may run concurrently with the reader.
    """
    aliases = _aliases(functions, set(outside), in_place)
    lives = _lives(functions, set(outside), aliases)
    offsets: dict[Value, int] = {}
    longer = [replace(each, last=each.last + kept) for each in lives.values()]
    placed, total = _Placed(len(functions) + kept), 0
    for life in sorted(longer, key=lambda each: (-each.size, each.first)):
        offset = _free_offset(life, placed)
        placed.add(life, offset)
        offsets[life.value] = offset
        total = max(total, offset + life.size)
    return MemoryPlan(offsets, total, _most_alive(lives.values()), aliases)


def _most_alive(lives: Iterable[_LiveRange]) -> int:
    """Return the most bytes that are alive at one time."""
    change: Counter[int] = Counter()
    for each in lives:
        change[each.first] += each.size
        change[each.last + 1] -= each.size
    return max(accumulate(change[step] for step in sorted(change)), default=0)


def _aliases(
    functions: Sequence[FusedFunction], outside: set[Value], in_place: Sequence[Sequence[Value]]
) -> Aliases:
    """Return the values in the memory of others: reshaped, joined, or written over dead values."""
    aliases = {f.outputs[0]: (f.inputs[0], 0) for f in functions if f.is_free}
    for function in functions:
        if function.joins and function.outputs[0] not in outside:
            aliases |= _parts(function, outside, aliases)
    aliases = _flattened(aliases)
    last: dict[Value, int] = {}
    for step, function in enumerate(functions):
        for value in (*function.inputs, *function.outputs):
            last[memory_root(value, aliases)] = step
    for step, (function, offered) in enumerate(zip(functions, in_place, strict=False)):
        result = function.outputs[0]
        if result in outside or result in aliases:
            continue
        for value in offered:
            root, offset = root_and_offset(value, aliases)
            if root not in outside and last[root] == step:
                aliases[result] = root, offset
                last[root] = last[result]
                break
    return aliases


def _parts(function: FusedFunction, outside: set[Value], aliases: Aliases) -> Aliases:
    """Return the offsets of values in those that they are joined to; nothing where they cannot."""
    result, at = function.outputs[0], 0
    parts: dict[Value, tuple[Value, int]] = {}
    for value in function.inputs:
        root, offset = root_and_offset(value, aliases)
        whole = offset == 0 and root.type.bytes == value.type.bytes
        if not whole or root in outside or root in parts or at % _VECTOR_ALIGNMENT:
            return {}
        parts[root] = result, at
        at += value.type.bytes
    return parts


def _flattened(aliases: Aliases) -> dict[Value, tuple[Value, int]]:
    """Return aliases that lead at once to where a search from one to the next ends."""
    flat: dict[Value, tuple[Value, int]] = {}
    for value in aliases:
        way = []
        while value in aliases and value not in flat:
            way.append(value)
            value = aliases[value][0]
        for each in reversed(way):
            inner, at = aliases[each]
            root, further = flat.get(inner, (inner, 0))
            flat[each] = root, at + further
    return flat


def root_and_offset(value: Value, aliases: Aliases) -> tuple[Value, int]:
    """Return the value in whose memory another one is, and its offset in bytes."""
    at = 0
    while value in aliases:
        value, further = aliases[value]
        at += further
    return value, at


def memory_root(value: Value, aliases: Aliases) -> Value:
    """Return the value in whose memory another one is."""
    return root_and_offset(value, aliases)[0]


def is_done(function: FusedFunction, aliases: Aliases) -> bool:
    """Return whether nothing needs to run for a function, as its result is where it has to be."""
    result = function.outputs[0]
    return function.is_free or (
        function.joins and memory_root(function.inputs[0], aliases) is memory_root(result, aliases)
    )


def _lives(
    functions: Sequence[FusedFunction], outside: set[Value], aliases: Aliases
) -> dict[Value, _LiveRange]:
    found: dict[Value, _LiveRange] = {}
    for step, function in enumerate(functions):
        for value in (*function.inputs, *function.outputs):
            root = memory_root(value, aliases)
            if root in outside:
                continue
            first = found[root].first if root in found else step
            found[root] = _LiveRange(root, round_up(root.type.bytes, ALIGNMENT), first, step)
    return found


class _Placed:
    """Offsets and sizes of what has its place, by the steps at which it is alive.

    Args:
        steps: how many there are.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._begun: list[list[tuple[int, int]]] = [[] for _ in range(steps)]
        # A segment tree: of what is alive at a step, each is in one list on the way to the root.
        self._alive: list[list[tuple[int, int]]] = [[] for _ in range(2 * steps)]

    def add(self, life: _LiveRange, offset: int) -> None:
        """Give a value its place."""
        item = offset, life.size
        self._begun[life.first].append(item)
        left, right = life.first + self._steps, life.last + 1 + self._steps
        while left < right:
            if left % 2:
                self._alive[left].append(item)
                left += 1
            if right % 2:
                right -= 1
                self._alive[right].append(item)
            left, right = left // 2, right // 2

    def beside(self, life: _LiveRange) -> Iterator[tuple[int, int]]:
        """Yield what is alive at some step at which a value is."""
        at = life.first + self._steps
        while at:
            yield from self._alive[at]
            at //= 2
        for step in range(life.first + 1, life.last + 1):
            yield from self._begun[step]


def _free_offset(life: _LiveRange, placed: _Placed) -> int:
    """Return the lowest offset that no value occupies which is live at the same time."""
    at = 0
    for offset, size in sorted(placed.beside(life)):
        if offset - at >= life.size:
            break
        at = max(at, offset + size)
    return at
