"""The buffers of tensors, and the offsets of elements in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine
from autotune.ir.expr import Expr, Load, ProducerLoad, as_expr
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer
from autotune.ir.visitor import Rewriter
from autotune.kernel.kernel import MOST_ELEMENTS
from autotune.lowering.extents import Extent, as_extent, as_form, expr_of, times
from autotune.lowering.plan import Plan, StagePlan
from autotune.lowering.storage_order import neighbours
from autotune.te.stage import Stage
from autotune.te.tensor import Operation, ScanOp, Tensor


@dataclass(frozen=True)
class TensorStorage:
    """A tensor's buffer; ``lows`` is the index of its first element, ``strides`` the layout."""

    buffer: Buffer
    lows: tuple[Affine, ...] | None
    strides: tuple[Extent, ...]


class TensorStorages:
    """The buffers of all tensors of one plan."""

    def __init__(
        self,
        plan: Plan,
        simplifier: Simplifier,
        stage_of: Mapping[Operation, Stage],
        given: Mapping[tuple[Stage, int], Buffer],
    ) -> None:
        self.simplifier = simplifier
        self.stage_of = stage_of
        self.gpu = plan.gpu
        self._storages: dict[tuple[Stage, int], TensorStorage] = {}
        self._neighbours = neighbours(plan, simplifier, stage_of)
        for (stage, i), buffer in given.items():
            _check_size(buffer)
            strides = self._strides_of(stage.op.outputs[i])
            self._storages[stage, i] = TensorStorage(buffer, None, strides)
        for stage, stage_plan in plan.stages.items():
            for tensor in stage.op.outputs:
                if (stage, tensor.value_index) not in self._storages:
                    storage = self._make_storage(stage_plan, tensor)
                    self._storages[stage, tensor.value_index] = storage
            if isinstance(stage.op, ScanOp):
                self._share(stage, stage.op)

    def _share(self, stage: Stage, scan: ScanOp) -> None:
        """Let first rows, steps and states of a scan be its result."""
        for tensors in (scan.init, scan.update, scan.state_placeholder):
            for i, tensor in enumerate(tensors):
                place = self.stage_of[tensor.op], tensor.value_index
                self._storages[place] = self._storages[stage, i]

    def _strides_of(self, tensor: Tensor) -> tuple[Extent, ...]:
        shape = [as_extent(self.simplifier.form(as_expr(extent))) for extent in tensor.shape]
        return _aligned_strides(self.simplifier, shape, {})

    def _make_storage(self, plan: StagePlan, tensor: Tensor) -> TensorStorage:
        extents = [region.extent for region in plan.regions]
        if not plan.compact:
            extents = [as_extent(self.simplifier.form(as_expr(n))) for n in tensor.shape]
        shape = tuple([expr_of(self.simplifier, extent) for extent in extents])
        if not plan.compact:
            buffer = Buffer(tensor.name, shape, tensor.dtype, "global")
            _check_size(buffer)
            return TensorStorage(buffer, None, _aligned_strides(self.simplifier, extents, {}))
        order = self._order(plan)
        strides = _aligned_strides(self.simplifier, extents, plan.stage.alignments, order)
        size = expr_of(self.simplifier, _span(self.simplifier, extents, strides, order))
        if not isinstance(size, int) and self.gpu:
            raise LoweringError(
                f"{tensor.name}: {size} elements of it are needed at a time inside a kernel; "
                "expected a constant number: split the loop that it is computed in by a constant "
                "factor, or compute it at the root"
            )
        buffer = Buffer(tensor.name, (size,), tensor.dtype, plan.scope)
        _check_size(buffer)
        return TensorStorage(buffer, tuple(region.low for region in plan.regions), strides)

    def _order(self, plan: StagePlan) -> list[int]:
        """Return the dimensions of a buffer, that of neighbours last."""
        near = self._neighbours.get(plan.stage)
        order = [i for i in range(len(plan.regions)) if i != near]
        return order if near is None else [*order, near]

    def of(self, tensor: Tensor) -> TensorStorage:
        """Return the buffer of a tensor and the layout of its elements."""
        stage = self.stage_of[tensor.op]
        storage = self._storages.get((stage, tensor.value_index))
        if storage is None:
            raise LoweringError(
                f"{tensor.name} is read, but it is neither an argument of the function nor "
                "computed by the schedule; add it to the argument list"
            )
        return storage

    def index(self, storage: TensorStorage, indices: Sequence[Affine]) -> Expr:
        """Return the flat index of an element, given its position in the whole tensor."""
        return self.simplifier.expr(self.flat(storage, indices))

    def flat(self, storage: TensorStorage, indices: Sequence[Affine]) -> Affine:
        """Return the flat index of an element as a form."""
        lows = storage.lows
        strides = [k for k in storage.strides if isinstance(k, int)]
        if len(strides) < len(storage.strides):
            return self._flat_of_sizes(storage, indices)
        parts = list(zip(indices, strides, strict=True))
        if lows is not None:
            parts += [(low, -k) for low, k in zip(lows, strides, strict=True)]
        return self.simplifier.combine(parts)

    def _flat_of_sizes(self, storage: TensorStorage, indices: Sequence[Affine]) -> Affine:
        """Return a flat index where strides are sizes: subtract first, as it simplifies more."""
        simplifier = self.simplifier
        if storage.lows is not None:
            pairs = zip(indices, storage.lows, strict=True)
            indices = [simplifier.sub(index, low) for index, low in pairs]
        parts = zip(indices, storage.strides, strict=True)
        return simplifier.combine([(times(simplifier, index, k), 1) for index, k in parts])

    def load(self, read: ProducerLoad) -> Load:
        """Return the load of a buffer that a read of a tensor becomes."""
        storage = self.of(read.tensor)
        forms = [self.simplifier.form_of(index) for index in read.indices]
        return Load(storage.buffer, (self.index(storage, forms),))


class ReadsToLoads(Rewriter):
    """Replaces reads of tensors by loads of their buffers."""

    def __init__(self, storages: TensorStorages) -> None:
        self.storages = storages
        self._made: dict[ProducerLoad, Load] = {}

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Find the buffer and the index; an index may itself read tensors."""
        load = self._made.get(node)
        if load is None:
            load = self.storages.load(node)
            inner = self.rewrite_all(load.indices)
            load = load if inner is load.indices else Load(load.buffer, inner)
            self._made[node] = load
        return load


def _aligned_strides(
    simplifier: Simplifier,
    shape: Sequence[Extent],
    align: Mapping[int, tuple[int, int]],
    order: Sequence[int] | None = None,
) -> tuple[Extent, ...]:
    """Return strides, padded so that ``stride % factor == offset`` where asked.

    ``order`` lists the dimensions, the slowest first; by default the last is the fastest.
    """
    strides: list[Extent] = [1] * len(shape)
    step: Extent = 1
    for axis in reversed(range(len(shape)) if order is None else order):
        if axis in align and isinstance(step, int):
            factor, offset = align[axis]
            step += (offset - step) % factor
        strides[axis] = step
        extent = shape[axis]
        if isinstance(step, int) and isinstance(extent, int):
            step *= extent
        else:
            step = as_extent(times(simplifier, as_form(step), extent))
    return tuple(strides)


def _span(
    simplifier: Simplifier,
    shape: Sequence[Extent],
    strides: Sequence[Extent],
    order: Sequence[int],
) -> Extent:
    """Return how many elements a buffer spans."""
    if not shape:
        return 1
    first, stride = shape[order[0]], strides[order[0]]
    if isinstance(first, int) and isinstance(stride, int):
        return first * stride
    return as_extent(times(simplifier, as_form(first), stride))


def _check_size(buffer: Buffer) -> None:
    shape = [extent for extent in buffer.shape if isinstance(extent, int)]
    if prod(shape) > MOST_ELEMENTS:
        raise LoweringError(
            f"{buffer.name} has {prod(shape)} elements; a buffer can have at most {MOST_ELEMENTS}"
        )
