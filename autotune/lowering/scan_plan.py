"""What bound inference says of a recurrence, and checks of what its steps read of each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine, AtomKind, constant
from autotune.ir.expr import Expr, IntImm, IterVar, ProducerLoad, Var, as_expr
from autotune.lowering.axes import axis_values, overrun_conditions
from autotune.lowering.bodies import BodySimplifier, reads_of
from autotune.lowering.extents import Extent, as_extent
from autotune.lowering.plan import Body, Plan, StagePlan, Thread
from autotune.lowering.regions import Region
from autotune.te.scan_reads import certain_reads
from autotune.te.stage import Stage
from autotune.te.tensor import PlaceholderOp, ScanOp, Tensor


def scan_plan(
    simplifier: BodySimplifier,
    stage: Stage,
    op: ScanOp,
    extents: Mapping[IterVar, Extent],
    loops: Mapping[IterVar, Affine],
    threads: Mapping[IterVar, Thread],
) -> StagePlan:
    """Return the plan of the stage of a scan, whose loops hold those of what it computes.

    Its body reads what it has to be given: all first rows, and of each step its row.
    """
    values = axis_values(simplifier, stage.relations, extents, loops)
    overruns = overrun_conditions(simplifier, stage.relations, extents, values)
    first = simplifier.form(as_expr(op.init[0].shape[0]))
    row = simplifier.add(first, values[op.scan_axis])
    return StagePlan(
        stage=stage,
        root=stage,
        scope="global",
        compact=False,
        regions=(Region(first, extents[op.scan_axis]),),
        extents=extents,
        loops=loops,
        threads=threads,
        values=values,
        conditions=tuple(c for _, c in overruns if not isinstance(c, IntImm)),
        outside=frozenset(),
        body=Body(tuple(_rows(simplifier, op, row))),
    )


def _rows(simplifier: BodySimplifier, op: ScanOp, row: Affine) -> Iterator[Expr]:
    """Yield reads of all rows that a state begins with, and of the row of one step."""
    for init, update in zip(op.init, op.update, strict=True):
        given = _every(simplifier, op.name, init.shape[0])
        rest = [_every(simplifier, op.name, extent) for extent in update.shape[1:]]
        yield ProducerLoad(init, (given, *rest))
        yield ProducerLoad(update, (simplifier.expr(row), *rest))


def _every(simplifier: BodySimplifier, name: str, extent: int | Expr) -> Expr:
    """Return an index that stands for all of a dimension."""
    var = Var(f"{name}.all", "int32", "data")
    return simplifier.expr(simplifier.bind_loop(var, as_extent(simplifier.form(as_expr(extent)))))


def check_steps(plan: Plan, simplifier: BodySimplifier) -> None:
    """Raise if a step reads a row of a state that has not been computed by then.

    Where the distance of a row from the present one varies, some steps may read it under a
    condition: it is refused if no step can. So may steps that have one so far before.
    """
    _check_updates(plan, simplifier)
    for scan, state, reader, load in _reads_of_states(plan):
        op, name = scan.stage.op, reader.stage.op.name
        assert isinstance(op, ScanOp)
        row = simplifier.add(scan.regions[0].low, scan.values[op.scan_axis])
        if not scan.values[op.scan_axis].vars <= reader.outside:
            raise LoweringError(
                f"compute_at: {name} reads {state.name}, a state of {op.name}, outside of the "
                f"loop over its rows; compute it at {op.scan_axis.name!r} of {op.name}, or inside"
            )
        distance = simplifier.sub(simplifier.form_of(load.indices[0]), row)
        first = op.init[0].shape[0]
        assert isinstance(first, int)
        early = not distance.terms and distance.const < -first and _is_certain(reader.body, load)
        if early or (not distance.terms and distance.const >= 0):
            raise LoweringError(
                f"{op.name}: {name} reads {state.name}[t {distance.const:+d}, ...] at step t, "
                f"which is {_why_no_row(distance.const, first, op.init[0].name)}"
            )
        if distance.bounds[0] >= 0:
            raise LoweringError(
                f"{op.name}: {name} reads row {load.indices[0]} of {state.name}, which is not "
                "computed by then at any step; a step reads rows before its own, such as t - 1"
            )
    _check_pipelines(plan, simplifier)


def _is_certain(body: Body, load: ProducerLoad) -> bool:
    return body.condition is None and any(load is one for one in certain_reads(body.values))


def _check_updates(plan: Plan, simplifier: BodySimplifier) -> None:
    """Raise if a step reads an update at another row than its own, which it has not computed."""
    for scan, state, reader, load in _reads_of_updates(plan):
        op = scan.stage.op
        assert isinstance(op, ScanOp)
        row = simplifier.add(scan.regions[0].low, scan.values[op.scan_axis])
        distance = simplifier.sub(simplifier.form_of(load.indices[0]), row)
        if distance.terms or distance.const:
            raise LoweringError(
                f"{op.name}: {reader.stage.op.name} reads row {load.indices[0]} of "
                f"{load.tensor.name}, an update, of which each step has its own row "
                f"alone; read rows before by the state {state.name}"
            )


def _check_pipelines(plan: Plan, simplifier: BodySimplifier) -> None:
    """Raise if what a step needs of the step before would be fetched before that has ended."""
    late: set[Stage] = set()
    for stage in plan.schedule.stages:
        if stage not in plan.stages or stage.scan is None:
            continue
        read = [simplifier.stage_of[load.tensor.op] for load in reads_of(plan.stages[stage].body)]
        if not any(each in late or _is_state(each) for each in read):
            continue
        late.add(stage)
        ahead = stage.double_buffered or stage.pipeline_stages
        if ahead and stage.attach_stage is stage.scan:
            raise LoweringError(
                f"{'async_copy' if stage.pipeline_stages else 'double_buffer'}: {stage.op.name} "
                f"depends on a state of {stage.scan.op.name}, so it cannot be computed for the "
                "next step before the present one has ended; leave it out, or attach the stage to "
                "a loop within the step"
            )


def _is_state(stage: Stage) -> bool:
    return stage.scan is not None and (stage.holds_state or isinstance(stage.op, PlaceholderOp))


def _why_no_row(distance: int, first: int, init: str) -> str:
    if distance >= 0:
        return "not computed by then; a step reads rows before its own, such as t - 1"
    return (
        f"before the first row at the first step, t = {first}, as {init} gives {first}; let it "
        f"give {-distance}"
    )


def _reads_of_states(
    plan: Plan,
) -> Iterator[tuple[StagePlan, Tensor, StagePlan, ProducerLoad]]:
    """Yield the scan, the state, and the reader of each read of a state by its placeholder."""
    for scan in plan.stages.values():
        if not isinstance(scan.stage.op, ScanOp):
            continue
        states = {(t.op, t.value_index): t for t in scan.stage.op.state_placeholder}
        for reader in plan.stages.values():
            for load in reads_of(reader.body):
                state = states.get((load.tensor.op, load.tensor.value_index))
                if state is not None:
                    yield scan, state, reader, load


def _reads_of_updates(
    plan: Plan,
) -> Iterator[tuple[StagePlan, Tensor, StagePlan, ProducerLoad]]:
    """Yield the scan, the state, and the reader of each read within a step of its update."""
    for scan in plan.stages.values():
        op = scan.stage.op
        if not isinstance(op, ScanOp):
            continue
        states = dict(zip(op.update, op.state_placeholder, strict=True))
        step = scan.values[op.scan_axis].vars
        within = [each for each in plan.stages.values() if step <= each.outside]
        for reader in within:
            for load in reads_of(reader.body):
                if load.tensor in states:
                    yield scan, states[load.tensor], reader, load


def private_states(plan: Plan, simplifier: BodySimplifier, root: Stage) -> list[int]:
    """Return the states of a scan of which each thread reads only what it computed itself."""
    op = root.op
    if not isinstance(op, ScanOp):
        return []
    threads = {thread.var for (stage, _), thread in plan.threads.items() if stage is root}
    found = []
    for at, tensors in enumerate(zip(op.state_placeholder, op.update, op.init, strict=True)):
        _, *writers = [(simplifier.stage_of[t.op], t.value_index) for t in tensors]
        written = [_written(simplifier, plan.stages[stage]) for stage, _ in writers]
        places = {(simplifier.stage_of[t.op], t.value_index) for t in tensors}
        reads = [
            [simplifier.form_of(index) for index in load.indices[1:]]
            for reader in plan.stages.values()
            if reader.stage is not root
            for load in reads_of(reader.body)
            if (simplifier.stage_of[load.tensor.op], load.tensor.value_index) in places
        ]
        complete = all(threads <= _variables(forms) for forms in written)
        if complete and all(_equal(one, forms) for one in reads for forms in written):
            found.append(at)
    return found


def _variables(forms: Sequence[Affine]) -> set[Var]:
    return {var for form in forms for var in form.vars}


def _equal(a: Sequence[Affine], b: Sequence[Affine]) -> bool:
    return all(x.key == y.key for x, y in zip(a, b, strict=True))


def reads_across_blocks(plan: Plan, simplifier: BodySimplifier, root: Stage) -> str:
    """Return why the blocks of a kernel would have to wait for each other; empty if they do not.

    A step may read what a block computed in steps before. Blocks run in any order, and some may
    begin when others have ended: what one reads, it has to have computed itself.
    """
    blocks = [
        thread
        for (stage, tag), thread in plan.threads.items()
        if stage is root and tag.startswith("blockIdx")
    ]
    if not blocks or not isinstance(root.op, ScanOp):
        return ""
    for scan, state, reader, load in _reads_of_states(plan):
        if scan.stage is not root:
            continue
        at = root.op.state_placeholder.index(state)
        read = [simplifier.form_of(index) for index in load.indices[1:]]
        for tensor in (root.op.update[at], root.op.init[at]):
            writer = plan.stages[simplifier.stage_of[tensor.op]]
            if not _same_block(_written(simplifier, writer), read, blocks):
                return (
                    f"{root.op.name}: {reader.stage.op.name} reads elements of {state.name} that "
                    f"other blocks compute ({tensor.name} is bound to "
                    f"{', '.join(block.tag for block in blocks)}), and blocks do not wait for "
                    "each other; bind what depends on all of a row to threads of one block"
                )
    return ""


def _written(simplifier: BodySimplifier, plan: StagePlan) -> list[Affine]:
    """Return the element of a row that one iteration computes."""
    pairs = zip(plan.stage.op.axis[1:], plan.regions[1:], strict=True)
    return [simplifier.add(region.low, plan.values[axis]) for axis, region in pairs]


def _same_block(
    written: Sequence[Affine], read: Sequence[Affine], blocks: Sequence[Thread]
) -> bool:
    """Return whether an element is seen to be written by the block that reads it.

    Either both are the same element of one iteration, or in each dimension the blocks are digits
    of a number, of which the rest is the same in both.
    """
    if not {block.var for block in blocks} <= _variables(written):
        return False
    if _equal(written, read):
        return True
    return all(_same_digits(a, b, blocks) for a, b in zip(written, read, strict=True))


def _same_digits(a: Affine, b: Affine, blocks: Sequence[Thread]) -> bool:
    counts = {block.var: block.extent for block in blocks}
    weights: dict[Var, int] = {}
    rests: list[tuple[float, float]] = []
    for form in (a, b):
        digits: dict[Var, int] = {}
        low: float = form.const
        high: float = form.const
        for atom, k in form.terms.items():
            if atom.vars.isdisjoint(counts):
                low, high = (
                    low + min(k * atom.low, k * atom.high),
                    high + max(k * atom.low, k * atom.high),
                )
            elif atom.kind is AtomKind.VAR and k > 0:
                (var,) = atom.vars
                digits[var] = k
            else:
                return False
        if rests and digits != weights:
            return False
        weights = digits
        rests.append((low, high))
    if not weights:
        return True
    ordered = sorted(weights.items(), key=lambda item: item[1])
    span: Extent = ordered[0][1]
    for var, weight in ordered:
        count = counts[var]
        if not isinstance(span, int) or weight < span:
            return False
        span = weight * count if isinstance(count, int) else as_extent(constant(0))
    lows, highs = zip(*rests, strict=True)
    return bool(max(highs) - min(lows) < ordered[0][1])
