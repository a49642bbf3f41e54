"""Shared parts of the source templates: kernel texts, target limits, choices, small arithmetic."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from autotune import SourceKernel, Target, workspace
from autotune.kernel import Argument, KernelCall
from autotune.target import Limits
from autotune.task import is_symbolic
from autotune.task import larger as larger  # also for other templates, as `common.larger`
from autotune.task import smaller as smaller

# Values of any dtype.
Array = npt.NDArray[Any]
KERNELS = Path(__file__).parent / "kernels"


@cache
def _kernel_files() -> Mapping[str, Path]:
    """Return the files of the kernels folder by name; names are unique among its folders."""
    return {path.name: path for path in KERNELS.rglob("*.*")}


@cache
def text(*names: str) -> str:
    """Return the named files of the kernels folder, wherever in it, one after another."""
    return "\n".join(_kernel_files()[name].read_text("utf-8") for name in names)


def clusters_of(target: Target) -> bool:
    """Return whether blocks can form clusters: sm_90 and later."""
    digits = "".join(c for c in target.arch if c.isdigit())
    return target.kind == "cuda" and int(digits or 0) >= 90


def ceil_div(n: int, by: int) -> int:
    """Divide, rounding up."""
    return -(-n // by)


def up_to(limit: int, candidates: Iterable[int]) -> list[int]:
    """Keep the candidates that are at most ``limit``; never an empty list."""
    return [c for c in candidates if c <= limit] or [1]


# Elements up to which several rows may share a warp, and up to which a lane or two have a row.
_SHORT, _TINY = 512, 32


def lanes(columns: int) -> list[int]:
    """Return how many lanes of a warp may have a row of so many elements."""
    return [*([1, 2] if columns <= _TINY else []), *([4, 8, 16] if columns <= _SHORT else [])]


def side_by_side(columns: int) -> list[int]:
    """Return how many rows of so many elements a block may have."""
    return [1, 2, 4, 8, 16, 32, 64] if columns <= _SHORT else [1, 2, 4, 8, 16]


def odd_quads(floats: int) -> int:
    """Round a row of shared memory up to an odd number of 16-byte words.

    This avoids bank conflicts of 4-byte and of 16-byte loads.
    """
    quads = ceil_div(floats, 4)
    return 4 * (quads + 1 - quads % 2)


# The rules by which a family refuses choices are also evaluated for all choices at once, with
# expressions in place of numbers; see "Filters of a space" in the architecture.
# There a question about a number (`if`, `and`, `max`) parts the choices in two, so rules compute
# what they compare without asking: with `&` and `|`, with `larger` and `smaller`, and with these.


Number = TypeVar("Number", int, float)


def pick(condition: int, then: Number, otherwise: Number) -> Number:
    """Return one of two numbers; ``condition`` is a truth value, or 0 or 1."""
    return otherwise + condition * (then - otherwise)


def is_none_of(value: int, strangers: Iterable[int]) -> bool:
    """Return whether ``value`` differs from each of ``strangers``."""
    differs = True
    for stranger in strangers:
        differs &= value != stranger
    return differs


def widest(*extents: int) -> int:
    """Return the widest vector, 4, 2 or 1 floats, that divides all ``extents``."""
    halves = quarters = True
    for extent in extents:
        halves &= extent % 2 == 0
        quarters &= extent % 4 == 0
    return 1 + halves + 2 * quarters


# With the older dialect headers have a third less of the C++ library: that is 0.12 s of the 0.45
# that nvcc takes for an empty kernel (release 13.0).
CUDA_FLAGS = ("-std=c++14",)


def straight(steps: int, least: int, size: int, most: int) -> int:
    """Return how many of ``steps`` to unroll at a time.

    Args:
        steps: how many there are.
        least: fewest that can be unrolled; it divides ``steps``.
        size: multiply-adds of one.
        most: multiply-adds to unroll.
    """
    counts = (n for n in range(least, steps + 1, least) if steps % n == 0)
    return max((n for n in counts if n * size <= most), default=least)


def defines(**values_by_name: int) -> Mapping[str, int]:
    """Return preprocessor definitions, upper case."""
    return {name.upper(): value for name, value in values_by_name.items()}


def first_broken(rules: Iterable[tuple[bool, str]]) -> str | None:
    """Return the reason of the first rule that is broken, or None; a rule is (broken, reason).

    Of choices that are expressions it returns one that is true where a rule is broken: a question
    about each rule would part the choices as often.
    """
    broken: Any = None
    for each, reason in rules:
        if is_symbolic(each):
            broken = each if broken is None else broken | each
        elif each:
            return reason
    return cast("str | None", broken)


def best_drawn(
    options: Mapping[str, Sequence[int]],
    count: int,
    violation: Callable[[dict[str, int]], str | None],
    estimate: Callable[[dict[str, int]], float],
) -> dict[str, int]:
    """Return the best of the same ``count`` choices, or the first of all where none can run."""
    names = list(options)
    drawn = (dict(zip(names, row, strict=True)) for row in _drawn(options, count).tolist())
    first = {name: values[0] for name, values in options.items()}
    return min((c for c in drawn if not violation(c)), key=estimate, default=first)


def _drawn(options: Mapping[str, Sequence[int]], count: int) -> Array:
    """Return the same random choices each time: a row each, a column for each knob."""
    indices = _indices(tuple(len(values) for values in options.values()), count)
    return np.stack([np.array(v)[indices[:, i]] for i, v in enumerate(options.values())], axis=1)


@lru_cache(maxsize=8)
def _indices(sizes: tuple[int, ...], count: int) -> Array:
    """Return random indices of lists of so many values; most shapes have as many as others.

    They are those of ``random.Random(0).choice``, list after list, without its overhead.
    """
    bits = random.Random(0).getrandbits
    widths = [(size, size.bit_length()) for size in sizes]
    indices = []
    for _ in range(count):
        for size, width in widths:
            index = bits(width)
            while index >= size:
                index = bits(width)
            indices.append(index)
    return np.array(indices, np.int64).reshape(count, len(sizes))


def best_drawn_at_once(
    options: Mapping[str, Sequence[int]],
    count: int,
    rules: Callable[[Any], Sequence[tuple[Any, str]]],
    estimate: Callable[[dict[str, int]], float],
) -> dict[str, int]:
    """Return what `best_drawn` does, with the rules evaluated for all choices together.

    Args:
        options: values of each knob.
        count: how many choices are drawn.
        rules: of a family; it gets an array of values for each knob.
        estimate: of what remains, the least is best.
    """
    table = _drawn(options, count)
    broken = np.zeros(count, bool)
    for each, _ in rules(dict(zip(options, table.T, strict=True))):
        broken |= each
    first = {name: values[0] for name, values in options.items()}
    good = (dict(zip(options, row, strict=True)) for row in table[~broken].tolist())
    return min(good, key=estimate, default=first)


# Choices from which a local search starts, and its rounds.
_STARTS, _ROUNDS = 24, 8


def best_near_drawn(
    options: Mapping[str, Sequence[int]],
    count: int,
    rules: Callable[[Any], Sequence[tuple[Any, str]]],
    estimate: Callable[[Any], Any],
) -> dict[str, int]:
    """Return the best choice that changes of one knob at a time lead to from the best drawn ones.

    Args:
        options: values of each knob.
        count: how many choices are drawn.
        rules: of a family; it gets an array of values for each knob.
        estimate: of arrays too, the least is best.
    """
    names = list(options)

    def best(table: Array) -> Array:
        table = np.unique(table, axis=0)
        choices = dict(zip(names, table.T, strict=True))
        broken = np.zeros(len(table), bool)
        for each, _ in rules(choices):
            broken |= each
        good = table[~broken]
        if not len(good):
            return good
        cycles = estimate(dict(zip(names, good.T, strict=True)))
        return good[np.argsort(cycles, kind="stable")[:_STARTS]]

    found = best(_drawn(options, count))
    for _ in range(_ROUNDS if len(found) else 0):
        near = [found]
        for column, values in enumerate(options.values()):
            changed = np.repeat(found, len(values), axis=0)
            changed[:, column] = np.tile(np.array(values), len(found))
            near.append(changed)
        better = best(np.concatenate(near))
        if np.array_equal(better, found):
            break
        found = better
    first = found[0] if len(found) else [values[0] for values in options.values()]
    return {name: int(value) for name, value in zip(names, first, strict=True)}


class Shape(Protocol):
    """A shape with its arguments and a reference."""

    def arguments(self) -> list[Argument]:
        """Return the arguments of the function."""

    def reference(self) -> Callable[..., object]:
        """Return numpy in, numpy out."""


def activation_texts(defines: Mapping[str, int | str]) -> list[str]:
    """Return the files of functions that an epilogue calls, to come before it."""
    texts = ["maximum.h"] if "ACTIVATION" in defines else []
    texts += ["erf_by_tanh.h"] if "ERF_BY_TANH" in defines else []
    return texts + ["functions.h", "activation_function.h"] * ("ACTIVATION_FUNCTION" in defines)


def cuda_kernel(
    shape: Shape,
    texts: Sequence[str],
    defines: Mapping[str, int | str],
    calls: Sequence[KernelCall],
    parts: tuple[int, int] | None = None,
    flags: Sequence[str] = (),
    parts_dtype: str = "float32",
) -> SourceKernel:
    """Return the kernel of ``texts``, named as the first of its calls.

    Args:
        shape: what it computes.
        texts: files of the kernels folder, joined in this order.
        defines: preprocessor definitions.
        calls: what is launched, in order.
        parts: the shape of the workspace ``partial``, of partial sums of split-K.
        flags: of the compiler, before those of all kernels.
        parts_dtype: the type of these sums.
    """
    return SourceKernel(
        calls[0].entry,
        text("device.h", *activation_texts(defines), *texts),
        defines=defines,
        args=shape.arguments(),
        calls=list(calls),
        workspace=[workspace("partial", parts, parts_dtype)] if parts else [],
        reference=shape.reference(),
        flags=(*flags, *CUDA_FLAGS),
        language="cuda",
    )


class Tiling(Protocol):
    """The resources of a block."""

    threads: int
    shared_bytes: int

    @property
    def registers(self) -> int:
        """Estimate of the registers of a thread."""


def limit_rules(tiling: Tiling, limits: Limits) -> list[tuple[bool, str]]:
    """Return the rules by which a block may be too large for a device."""
    return [
        (tiling.threads > limits.threads_per_block, "too many threads"),
        (tiling.registers * tiling.threads > limits.registers, "too many registers"),
        (tiling.registers > 250, "too many registers a thread"),
        (tiling.shared_bytes > limits.shared_bytes_optin, "too much shared memory"),
    ]


def cluster_rules(choice: Mapping[str, int], target: Target) -> list[tuple[bool, str]]:
    """Return the rules that forbid clusters for the blocks of split-K."""
    wanted = choice["cluster"] > 0
    return [
        (wanted & (not clusters_of(target)), "no clusters"),
        (wanted & is_none_of(choice["split"], (2, 4, 8)), "cluster of that size"),
    ]


def multiprocessors(target: Target) -> int:
    """Return how many a device has; where a target does not say, as many as an H100 or A100."""
    if target.limits.sm_count > 1:
        return target.limits.sm_count
    return 132 if "90" in target.arch else 108


@dataclass(frozen=True)
class Occupancy:
    """The occupancy of a device by the blocks of a CUDA kernel.

    Attributes:
        multiprocessors: of the device.
        together: blocks that run on a multiprocessor at a time.
        waves: how often the device is filled with blocks.
    """

    multiprocessors: int
    together: int
    waves: int


def occupancy(
    target: Target, blocks: int, threads: int, registers: int, shared_bytes: int
) -> Occupancy:
    """Return how ``blocks`` share a device; ``registers`` are those of one of their threads."""
    limits, whole_warps = target.limits, 32 * ceil_div(threads, 32)
    resident = min(
        limits.registers // (registers * whole_warps),
        limits.shared_bytes_optin // (shared_bytes + 1024),
        2048 // whole_warps,
    )
    count = multiprocessors(target)
    waves = ceil_div(blocks, count * max(resident, 1))
    together = min(max(resident, 1), ceil_div(blocks, count))
    return Occupancy(count, together, waves)


def reduction_cycles(choice: Mapping[str, int], outputs: int, occupied: Occupancy) -> float:
    """Return the cycles of reducing the ``outputs`` partial sums of each range of K."""
    if choice["split"] == 1:
        return 0.0
    if choice["cluster"]:
        return 4000.0
    return 5000.0 + 4 * choice["split"] * outputs / (20 * occupied.multiprocessors)


def overlapped_cycles(compute: float, staging: float, share: float) -> float:
    """Return the cycles of two stages, of which a share of the shorter is hidden."""
    return compute + staging - min(compute, staging) * share
