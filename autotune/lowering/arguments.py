"""The arguments of a function that is lowered: which are computed, by which stages, and where."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from autotune.errors import LoweringError
from autotune.ir.dtype import INDEX_DTYPE
from autotune.ir.expr import Expr, Var, as_expr
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer
from autotune.ir.structure import variables
from autotune.lowering.extents import as_extent, expr_of
from autotune.te.location import warn_user
from autotune.te.schedule import Schedule
from autotune.te.stage import Stage
from autotune.te.stores import as_store, written_shape
from autotune.te.tensor import ComputeOp, PlaceholderOp, Tensor

# A tensor of a schedule: its stage, and which of the stage's outputs it is.
Place = tuple[Stage, int]


def checked_arguments(schedule: object, args: object, name: object) -> tuple[Tensor | Var, ...]:
    """Return the arguments of the function to be lowered.

    Raises:
        LoweringError: the schedule, the arguments or the name are something else.
    """
    if not isinstance(schedule, Schedule):
        raise LoweringError(
            "lower: expected a schedule, as te.create_schedule makes it, got "
            f"{kind_text(schedule)}"
        )
    if isinstance(args, Tensor):
        raise LoweringError(f"lower: the arguments are a list of tensors: write [{args.name}]")
    if not isinstance(args, Iterable):
        raise LoweringError(
            "lower: expected the list of tensors that the function takes, such as [A, B], got "
            f"{kind_text(args)}"
        )
    tensors = tuple(args)
    for position, each in enumerate(tensors):
        if not isinstance(each, Tensor | Var):
            raise LoweringError(
                f"lower: argument {position} must be a tensor or a te.var, got {kind_text(each)}"
            )
    if not isinstance(name, str) or not name:
        raise LoweringError(f"lower: expected a name for the function, got {name!r}")
    return tensors


class FunctionArguments:
    """What a function takes.

    Args:
        schedule: of the function.
        given: the tensors and variables that it takes.
        name: of the function.
        shown: whether its loops are printed only.

    Attributes:
        tensors: those of ``given`` that are tensors.
        sizes: variables that follow from their shapes.
        places: the stage and the output that compute each tensor; None if nothing does.

    Raises:
        LoweringError: a shape needs a variable that neither follows nor is an argument.
        ScheduleError: a tensor is none of the schedule.
    """

    def __init__(
        self, schedule: Schedule, given: Sequence[Tensor | Var], name: str, shown: bool
    ) -> None:
        self.schedule, self.given, self.name, self.shown = schedule, given, name, shown
        self.tensors = [each for each in given if isinstance(each, Tensor)]
        self.sizes = sizes_of(given, name)
        self.places = [self._place(tensor) for tensor in self.tensors]

    def _place(self, tensor: Tensor) -> Place | None:
        if tensor.op not in self.schedule.stage_map and isinstance(tensor.op, PlaceholderOp):
            return None
        stage = self.schedule[tensor]
        if self.shown and stage.attach_type == "inline":
            return None  # `build` refuses it
        return stage, tensor.value_index

    def results(self) -> list[Place]:
        """Return what is computed for the caller, and what is no argument but an output.

        Raises:
            LoweringError: an argument is given twice, or cannot be one; or nothing is computed.
        """
        places = [place for place in self.places if place is not None]
        self._warn_of_inlined()
        if len(set(self.given)) < len(self.given) or len(set(places)) < len(places):
            names = ", ".join(each.name for each in self.given)
            raise LoweringError(f"{self.name}: an argument is given twice: {names}")
        for stage, _ in places:
            if stage.holds_state or (
                stage.scan is not None and isinstance(stage.op, PlaceholderOp)
            ):
                raise LoweringError(
                    f"{self.name}: {stage.op.name} is no argument, as its memory is the result of "
                    f"{stage.scan.op.name if stage.scan else 'a scan'}; pass that tensor instead"
                )
        self._check_stores({stage for stage, _ in places})
        computed = [place for place in places if not isinstance(place[0].op, PlaceholderOp)]
        computed += self._discarded(places)
        if not computed:
            raise LoweringError(f"{self.name}: the schedule computes nothing, it has inputs only")
        return computed

    def _warn_of_inlined(self) -> None:
        for tensor in self.tensors:
            stage = self.schedule.stage_map.get(tensor.op)
            if self.shown and stage is not None and stage.attach_type == "inline":
                warn_user(
                    f"{self.name}: {tensor.name} is an argument, but compute_inline leaves it "
                    "without loops: nothing is stored in it"
                )

    def _check_stores(self, given: Collection[Stage]) -> None:
        """Refuse what is stored where it says if that is no argument, or is read or cached."""
        for stage in self.schedule.stages:
            if not isinstance(stage.op, ComputeOp) or written_shape(stage.op) is None:
                continue
            result = stage.op.outputs[0]
            read = any(result in each.op.input_tensors for each in self.schedule.stages)
            if read or stage not in given or as_store(stage.op.body[0]) is None:
                raise LoweringError(
                    f"{self.name}: {stage.op.name} is stored where it says itself; it must be an "
                    "argument that no stage reads, without cache_write"
                )

    def _discarded(self, places: Collection[Place]) -> list[Place]:
        """Return the outputs that are no arguments: computed in a workspace, as TVM does."""
        found = [
            (self.schedule[op], i)
            for op in self.schedule.outputs
            if not isinstance(op, PlaceholderOp)
            for i in range(op.num_outputs)
            if (self.schedule[op], i) not in places
        ]
        for stage, i in found:
            warn_user(
                f"{self.name}: output {stage.op.outputs[i].name} of the schedule is not among the "
                "arguments: it is computed and discarded; add it to the argument list to get it"
            )
        return found

    def buffers(self, simplifier: Simplifier) -> dict[Tensor, Buffer]:
        """Return the memory of each tensor."""
        found = {}
        for tensor in self.tensors:
            whole = written_shape(tensor.op) or tensor.shape
            extents = [as_extent(simplifier.form(as_expr(each))) for each in whole]
            shape = tuple([expr_of(simplifier, extent) for extent in extents])
            found[tensor] = Buffer(tensor.name, shape, tensor.dtype)
        return found

    def roles(self) -> list[str]:
        """Return the role of each argument: in, out, or inout for what is written in part."""
        places = zip(self.tensors, self.places, strict=True)
        computed = {
            tensor
            for tensor, place in places
            if place is not None and not isinstance(place[0].op, PlaceholderOp)
        }
        return [self._role_of_result(each) if each in computed else "in" for each in self.given]

    @staticmethod
    def _role_of_result(argument: Tensor | Var) -> str:
        partly = isinstance(argument, Tensor) and written_shape(argument.op) is not None
        return "inout" if partly else "out"


def sizes_of(args: Sequence[Tensor | Var], name: str) -> tuple[Var, ...]:
    """Return the sizes that follow from the shapes of the arguments.

    A size is a variable that is an extent of an argument by itself; one that is an argument too is
    not returned.

    Raises:
        LoweringError: a shape needs a variable that neither follows nor is an argument.
    """
    given = [each for each in args if isinstance(each, Var)]
    extents = [e for each in args if isinstance(each, Tensor) for e in each.shape]
    found = dict.fromkeys(extent for extent in extents if isinstance(extent, Var))
    for extent in extents:
        for var in variables(extent) if isinstance(extent, Expr) else ():
            if var.dtype != INDEX_DTYPE:
                raise LoweringError(
                    f"{name}: size {var.name!r} is of dtype {var.dtype}; expected {INDEX_DTYPE}"
                )
            if var not in found and var not in given:
                raise LoweringError(
                    f"{name}: the extent {extent} needs {var.name!r}, which is no extent by "
                    "itself; add it to the argument list"
                )
    return tuple([var for var in found if var not in given])


def kind_text(value: object) -> str:
    """Return the kind of a value in words, with its name if it has one."""
    kind, name = type(value).__name__, getattr(value, "name", None)
    if value is None:
        return "None"
    return f"{kind} {name!r}" if isinstance(name, str) else kind
