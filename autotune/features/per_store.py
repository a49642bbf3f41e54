"""The 164 features of TVM's auto-scheduler: one row for each buffer that a schedule writes.

What they mean is told in the appendix of the paper (Ansor, Zheng et al., OSDI 2020): operations,
loops that are vectorized, unrolled and parallel, threads, how each buffer is reused at which
distance, arithmetic intensity from loop to loop, and memory. Exact equality with TVM is not
possible, as there the order of a hash table decides about ties.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from autotune.features.stores import StoreLoop, StoreStatement, Touch, stores_of
from autotune.ir import Var
from autotune.ir.analysis_affine import Affine, Atom, AtomKind
from autotune.te import Schedule
from autotune.te.tensor import Tensor
from autotune.utils.garbage import collection_paused

_OPERATIONS = ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")
COUNTS = (*(f"{kind}_{each}" for kind in ("float", "int") for each in _OPERATIONS),
          "bool_op", "select_op")  # fmt: skip
_FLOAT = COUNTS[: len(_OPERATIONS)]
_POSITIONS = ("None", "InnerSpatial", "MiddleSpatial", "OuterSpatial", "InnerReduce",
              "MiddleReduce", "OuterReduce", "Mixed")  # fmt: skip
_MARKS = (("vec", "vectorized"), ("unroll", "unrolled"), ("parallel", "parallel"))
_AXES = tuple(f"{kind}Idx.{axis}" for kind in ("block", "thread") for axis in "xyz")
_ACCESS = ("kRead", "kWrite", "kReadWrite")
_REUSE = ("kLoopMultipleRead", "kSerialMultipleReadWrite", "kNoReuse")
_SIZES = ("bytes", "unique_bytes", "lines", "unique_lines")
_BUFFER = (
    *(f"acc_type.{each}" for each in _ACCESS), *_SIZES, *(f"reuse_type.{each}" for each in _REUSE),
    "reuse_dis_iter", "reuse_dis_bytes", "reuse_ct", *(f"{each}_d_reuse_ct" for each in _SIZES),
    "stride",
)  # fmt: skip
_CODES = {0, 1, 2, 7, 8, 9}  # one-hot columns of a buffer
SAMPLES = 10

FloatRow = npt.NDArray[np.float32]
# Of each loop and buffer: elements and bytes of an element, of each statement that touches it.
_Regions = dict[StoreLoop, dict[str, list[tuple[int, int]]]]


def per_store_feature_names(buffers: int = 5) -> list[str]:
    """Return the names of the features, in their order.

    Args:
        buffers: how many buffers of a statement are told apart.
    """
    names = list(COUNTS)
    for mark, _ in _MARKS:
        names += [f"{mark}_num", f"{mark}_prod", f"{mark}_len"]
        names += [f"{mark}_type.kPos{each}" for each in _POSITIONS]
    names += ["is_gpu", *(f"{axis.replace('.', '_')}_len" for axis in _AXES), "vthread_len"]
    names += [f"B{i}.{each}" for i in range(buffers) for each in _BUFFER]
    names += [f"arith_intensity_curve_{i}" for i in range(SAMPLES)]
    names += ["alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod"]
    return [*names, "outer_prod", "num_loops", "auto_unroll_max_step"]


@collection_paused()
def per_store_features(
    schedule: Schedule,
    args: Sequence[Tensor],
    on_gpu: bool,
    cache_line: int = 64,
    buffers: int = 5,
) -> npt.NDArray[np.float32]:
    """Return the features of a schedule, one row for each buffer that it writes.

    Sizes are ``log2(x + 1)``; codes are 0 or 1.

    Args:
        schedule: it is not changed.
        args: the tensors that the function takes, inputs and outputs.
        on_gpu: whether it is for a GPU.
        cache_line: bytes of one.
        buffers: how many buffers of a statement are told apart.

    Raises:
        LoweringError: the schedule cannot be lowered.
    """
    regions: _Regions = defaultdict(lambda: defaultdict(list))
    rows: dict[str, FloatRow] = {}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for store in stores_of(schedule, args):
        form = _Form(store, regions, cache_line)
        name = store.touches[0].buffer
        for kind, count in store.counts.items():
            counts[name][kind] += count * form.product
        found = [
            *(_log(counts[name][kind]) for kind in COUNTS), *form.marks(),
            float(on_gpu), *form.axes(), *form.buffers(buffers), *form.curve(), *form.memory(),
        ]  # fmt: skip
        rows[name] = np.array(found, np.float32)
    width = len(per_store_feature_names(buffers))
    return np.array([*rows.values()], np.float32).reshape(len(rows), width)


def _log(value: float) -> float:
    return math.copysign(math.log2(abs(value) + 1), value)


class _Form:
    """The features of one statement."""

    def __init__(self, store: StoreStatement, regions: _Regions, cache_line: int) -> None:
        self.store, self.regions, self.cache_line = store, regions, cache_line
        self.product = prod([loop.extent for loop in store.loops])
        self.touched: dict[str, list[Touch]] = defaultdict(list)
        for touch in store.touches:
            self.touched[touch.buffer].append(touch)
        # Elements of each buffer inside each loop, from the inside out, and its extents in all.
        self.elements: dict[str, list[int]] = {}
        self.extents: dict[str, list[int]] = {}
        for name, each in self.touched.items():
            self.elements[name], self.extents[name] = self._elements(each)
        for i, loop in enumerate(reversed(store.loops)):
            for name, counts in self.elements.items():
                regions[loop][name].append((counts[i], self.touched[name][0].item))

    def _elements(self, touches: Sequence[Touch]) -> tuple[list[int], list[int]]:
        """Return how many elements are touched inside each loop, and extents of all of them."""
        dimensions = [*zip(*(touch.indices for touch in touches), strict=True)]
        used = [{var for index in each for var in index.vars} for each in dimensions]
        free: set[Var] = set()
        extents = [_extent(each, free) for each in dimensions]
        found = []
        for loop in reversed(self.store.loops):
            if loop.var is not None:
                free.add(loop.var)
                for i, each in enumerate(dimensions):
                    if loop.var in used[i]:
                        extents[i] = _extent(each, free)
            found.append(prod(extents))
        return found, extents

    def marks(self) -> Iterable[float]:
        """Return how many loops are vectorized, unrolled and parallel, and how long they are."""
        for _, kind in _MARKS:
            own = [loop.extent for loop in self.store.loops if loop.kind == kind]
            yield from (_log(len(own)), _log(prod(own) if own else 0))
            yield _log(own[-1] if own else 0)
            yield from _code(len(_POSITIONS), len(_POSITIONS) - 1 if own else 0)

    def axes(self) -> Iterable[float]:
        """Return the extents of the thread axes, and of all virtual threads together."""
        for axis in _AXES:
            own = [loop.extent for loop in self.store.loops if loop.kind == axis]
            yield _log(own[-1] if own else 1)
        yield _log(prod([lp.extent for lp in self.store.loops if lp.kind == "vthread"]))

    def buffers(self, most: int) -> Iterable[float]:
        """Return the features of the buffers, those of most cache lines first."""
        each = sorted(
            (self._buffer(name) for name in self.touched), key=lambda row: (-row[5], -row[3])
        )
        for row in each[:most]:
            yield from (v if i in _CODES else _log(v) for i, v in enumerate(row))
        yield from [0.0] * (len(_BUFFER) * (most - len(each)))

    def _buffer(self, name: str) -> list[float]:
        touches = self.touched[name]
        item = touches[0].item
        writes = {touch.writes for touch in touches}
        access = _code(len(_ACCESS), 2 if len(writes) > 1 else int(touches[0].writes))
        unique = (self.elements[name][-1] if self.store.loops else 1) * item
        stride, lines = self._lines(touches)
        row = self.extents[name]
        run = item * (row[-1] if row else 1)
        sizes = [
            float(self.product * item), float(unique), lines,
            max(1.0, unique / min(run, self.cache_line)),
        ]  # fmt: skip
        reuse = self._reuse(name)
        less = [size / reuse.count if reuse.count > 0.5 else 2 * size for size in sizes]
        return [
            *access, *sizes, *_code(len(_REUSE), reuse.kind), reuse.iterations, reuse.bytes,
            reuse.count, *less, stride,
        ]  # fmt: skip

    def _lines(self, touches: Sequence[Touch]) -> tuple[float, float]:
        """Return the stride of the innermost loop, and the cache lines that are touched."""
        item, skipped, found = touches[0].item, 0, 0.0
        for loop in reversed(self.store.loops):
            found = min((_stride(touch, loop.var) for touch in touches), default=0.0)
            if found:
                break
            skipped += 1
        inner = self.store.loops[-1].extent if self.store.loops else 1
        part = min(1.0, found * item / self.cache_line)
        lines = max(1.0, self.product / float(inner) ** skipped * part)
        return (found if not skipped else 0.0), lines

    def _reuse(self, name: str) -> _Reuse:
        """Return how a buffer is used again first, from the inside out."""
        iterations, distance = 1.0, -1.0
        for loop in reversed(self.store.loops):
            known = self.regions[loop]
            everything = [pair for each in known.values() for pair in each]
            bytes_ = float(sum(elements * item for elements, item in everything))
            if not any(_depends(touch, loop.var) for touch in self.touched[name]):
                if distance < 0:
                    distance = float(sum(item for _, item in everything))
                return _Reuse(0, iterations, distance, float(loop.extent))
            iterations, distance = iterations * loop.extent, bytes_
            own = known[name]
            if len(own) > 1:
                least = min(elements for elements, _ in own)
                return _Reuse(1, least / loop.extent, bytes_ / loop.extent, len(own) - 1.0)
        return _Reuse(2, 0.0, 0.0, 0.0)

    def curve(self) -> Iterable[float]:
        """Return the operations a byte at tenths of all operations, from the inside out."""
        operations = float(sum(self.store.counts.get(kind, 0) for kind in _FLOAT))
        if not operations or not self.store.loops:
            return [0.0] * SAMPLES
        done, intensity = [], []
        for i, loop in enumerate(reversed(self.store.loops)):
            operations *= loop.extent
            pairs = self.elements.items()
            bytes_ = sum(each[i] * self.touched[name][0].item for name, each in pairs)
            done.append(math.log2(operations))
            intensity.append(operations / bytes_)
        points = [done[-1] * (k + 1) / SAMPLES for k in range(SAMPLES)]
        return [_log(float(value)) for value in np.interp(points, done, intensity)]

    def memory(self) -> Iterable[float]:
        """Return the size of the allocation, and the iterations around it and the statement."""
        written = self.store.touches[0]
        outer = prod([loop.extent for loop in self.store.loops[: self.store.allocated]])
        elements = prod(written.shape)
        sizes = (elements * written.item, elements * outer, outer, self.product / outer)
        place = (self.product, len(self.store.loops), self.store.unroll)
        return map(_log, (*sizes, *place))


@dataclass(frozen=True)
class _Reuse:
    """The reuse of a buffer: which of `_REUSE`, at which distance, and how often."""

    kind: int
    iterations: float
    bytes: float
    count: float


def _code(length: int, place: int) -> list[float]:
    """Return a one-hot code."""
    return [float(i == place) for i in range(length)]


def _depends(touch: Touch, var: Var | None) -> bool:
    return var is not None and any(var in index.vars for index in touch.indices)


def _stride(touch: Touch, var: Var | None) -> float:
    """Return how far one step of a loop moves an access, in elements; 0 for not at all."""
    if var is None:
        return 0.0
    pitch = 1
    for index, extent in zip(reversed(touch.indices), reversed(touch.shape), strict=True):
        if var in index.vars:
            plain = [
                abs(factor)
                for atom, factor in index.terms.items()
                if atom.kind is AtomKind.VAR and var in atom.vars
            ]
            return float(pitch * (plain[0] if plain else 2))
        pitch *= extent
    return 0.0


def _extent(indices: Sequence[Affine], free: set[Var]) -> int:
    """Return the extent of what accesses touch where some variables run and the others rest."""
    spans = [_span(index, free) for index in indices]
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    return int(high - low + 1)


def _span(form: Affine, free: set[Var]) -> tuple[float, float]:
    """Return the least and the greatest value of an index; variables at rest are 0."""
    low = high = float(form.const)
    for atom, factor in form.terms.items():
        first, last = _span_of_atom(atom, free)
        if factor < 0:
            first, last = last, first
        low, high = low + factor * first, high + factor * last
    return low, high


def _span_of_atom(atom: Atom, free: set[Var]) -> tuple[float, float]:
    if atom.vars.isdisjoint(free):
        return 0.0, 0.0
    if atom.form is None or atom.kind not in (AtomKind.DIV, AtomKind.MOD):
        known = math.isfinite(atom.low) and math.isfinite(atom.high)
        return (float(atom.low), float(atom.high)) if known else (0.0, 0.0)
    low, high = _span(atom.form, free)
    first, last = low // atom.divisor, high // atom.divisor
    if atom.kind is AtomKind.DIV:
        return first, last
    if first == last:
        return low % atom.divisor, high % atom.divisor
    return 0.0, float(atom.divisor - 1)
