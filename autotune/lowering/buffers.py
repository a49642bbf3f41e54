"""The memory of tensors: which buffer holds each, and where in it an element lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine
from autotune.ir.expr import Expr, Load, ProducerLoad
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer, row_major
from autotune.ir.visitor import Rewriter
from autotune.lowering.plan import Plan, StagePlan
from autotune.te.stage import Stage
from autotune.te.tensor import Operation, Tensor
from autotune.utils.math import product

# Indices are 32-bit integers; a larger buffer could not be addressed.
MOST_ELEMENTS = 2**31 - 1


@dataclass(frozen=True)
class Home:
    """A tensor's buffer; ``lows`` is the index of its first element, ``strides`` the layout."""

    buffer: Buffer
    lows: tuple[Affine, ...] | None
    strides: tuple[int, ...]


class Homes:
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
        self._homes: dict[tuple[Stage, int], Home] = {}
        for place, buffer in given.items():
            _check_size(buffer)
            self._homes[place] = Home(buffer, None, buffer.strides)
        for stage, stage_plan in plan.stages.items():
            for tensor in stage.op.outputs:
                if (stage, tensor.value_index) not in self._homes:
                    home = _make_home(stage_plan, tensor)
                    self._homes[stage, tensor.value_index] = home

    def of(self, tensor: Tensor) -> Home:
        """Return where a tensor lives."""
        stage = self.stage_of[tensor.op]
        home = self._homes.get((stage, tensor.value_index))
        if home is None:
            raise LoweringError(
                f"{tensor.name} is read, but it is neither an argument of the function nor "
                "computed by the schedule; add it to the argument list"
            )
        return home

    def index(self, home: Home, indices: Sequence[Affine]) -> Expr:
        """Return the flat index of an element, given its position in the whole tensor."""
        return self.simplifier.expr(self.flat(home, indices))

    def flat(self, home: Home, indices: Sequence[Affine]) -> Affine:
        """Return the flat index of an element as a form."""
        parts = list(zip(indices, home.strides, strict=True))
        if home.lows is not None:
            parts += [(low, -k) for low, k in zip(home.lows, home.strides, strict=True)]
        return self.simplifier.combine(parts)

    def load(self, read: ProducerLoad) -> Load:
        """Return the load of a buffer that a read of a tensor becomes."""
        home = self.of(read.tensor)
        forms = [self.simplifier.form_of(index) for index in read.indices]
        return Load(home.buffer, (self.index(home, forms),))


class ReadsToLoads(Rewriter):
    """Replaces reads of tensors by loads of their buffers."""

    def __init__(self, homes: Homes) -> None:
        self.homes = homes
        self._made: dict[ProducerLoad, Load] = {}

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Find the buffer and the index; an index may read tensors in turn."""
        load = self._made.get(node)
        if load is None:
            load = self.homes.load(node)
            inner = self.rewrite_all(load.indices)
            load = load if inner is load.indices else Load(load.buffer, inner)
            self._made[node] = load
        return load


def _make_home(plan: StagePlan, tensor: Tensor) -> Home:
    if not plan.compact:
        shape = tuple(region.extent for region in plan.regions)
        buffer = Buffer(tensor.name, shape, tensor.dtype, "global")
        _check_size(buffer)
        return Home(buffer, None, buffer.strides)
    shape = tuple(region.extent for region in plan.regions)
    strides = _aligned_strides(shape, plan.stage.alignments)
    size = shape[0] * strides[0] if shape else 1
    buffer = Buffer(tensor.name, (size,), tensor.dtype, plan.scope)
    _check_size(buffer)
    return Home(buffer, tuple(region.low for region in plan.regions), strides)


def _aligned_strides(
    shape: tuple[int, ...], align: Mapping[int, tuple[int, int]]
) -> tuple[int, ...]:
    """Return row-major strides, padded so that ``stride % factor == offset`` where asked."""
    if not align:
        return row_major(shape)
    strides: list[int] = []
    step = 1
    for axis in reversed(range(len(shape))):
        if axis in align:
            factor, offset = align[axis]
            step += (offset - step) % factor
        strides.append(step)
        step *= shape[axis]
    return tuple(reversed(strides))


def _check_size(buffer: Buffer) -> None:
    if product(buffer.shape) > MOST_ELEMENTS:
        raise LoweringError(
            f"{buffer.name} has {product(buffer.shape)} elements; a buffer can have at most "
            f"{MOST_ELEMENTS}"
        )
