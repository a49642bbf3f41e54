"""The steps of a state as python calls on a te schedule: TVM's text, and one that runs."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence

from autotune.auto_scheduler.graph.compute_graph import ComputeGraph
from autotune.auto_scheduler.states.loop_state import TransformStep
from autotune.auto_scheduler.states.loops import Annotation, clean_name
from autotune.auto_scheduler.states.replay import (
    PRIVATE,
    Replay,
    parts_of,
    permuted_order,
    phases_scope,
    view_groups,
    wide_scope,
)
from autotune.ir import IterVar
from autotune.te.relation import SplitRelation
from autotune.te.tensor import ComputeOp, Tensor

_MARKS = {
    Annotation.UNROLL: "unroll",
    Annotation.VECTORIZE: "vectorize",
    Annotation.PARALLEL: "parallel",
    Annotation.TENSORIZE: "tensorize",
}


class _Text(Replay):
    """A replay that writes each call down, as TVM does; subclasses choose other names."""

    def __init__(self, dag: ComputeGraph) -> None:
        super().__init__(dag)
        self.lines: list[str] = []
        self._label_stages()

    def _label_stages(self) -> None:
        """Give the tensors of all stages variables, and write where their axes come from."""
        self.axis_names: dict[IterVar, str] = {}
        self.labels: list[str] = []
        for name in self.names:
            self.labels.append(self.new_label(name))
        self.write_stages()
        for stage_id, stage in enumerate(self.schedule.stages):
            if isinstance(stage.op, ComputeOp):
                self.write_axes(stage_id, self.labels[stage_id], both=True)

    def write_stages(self) -> None:
        """Write where the tensors come from; TVM's text does not."""

    def online(self, stage_id: int, length: int, apart: int, tile: int, depth: int) -> None:
        """Begin anew with another graph."""
        product = self.labels[stage_id]
        super().online(stage_id, length, apart, tile, depth)
        more = f", {tile}, {depth}" if depth else f", {tile}" if tile else ""
        self.lines.append(f"tensors = te.online(tensors, {product}, {length}, {apart}{more})")
        self._label_stages()

    def new_label(self, name: str) -> str:
        """Return the variable for the tensor of a new stage; TVM's text lets some share one."""
        return _word(name)

    def axis(self, stage_id: int, axis: IterVar) -> str:
        """Return the variable that stands for an axis."""
        return f"{self.labels[stage_id]}_{_word(self.axis_names.get(axis, axis.name), part=True)}"

    def write_axes(self, stage_id: int, of: str, both: bool) -> None:
        """Write where the axes of a stage come from."""
        names = [self.axis(stage_id, axis) for axis in self.axes[stage_id]]
        values = f"tuple({of}.op.axis)" + (f" + tuple({of}.op.reduce_axis)" if both else "")
        self.lines.append(f"{self.targets(names)} = {values}")

    def targets(self, names: Sequence[str]) -> str:
        """Return what a tuple is unpacked to; TVM's text forgets the comma behind a single one."""
        return ", ".join(names)

    def stage_call(self, stage_id: int, call: str) -> None:
        """Write a primitive of a stage."""
        self.lines.append(f"s[{self.labels[stage_id]}].{call}")

    def split(
        self, stage_id: int, iter_id: int, lengths: Sequence[int], inner_to_outer: bool
    ) -> None:
        """Split an axis, and write one line for each cut.

        What is left after a cut has, in the text, the name of what the next cut takes from it.
        """
        stage = self.schedule.stages[stage_id]
        left, known = self.axis(stage_id, self.axes[stage_id][iter_id]), len(stage.relations)
        super().split(stage_id, iter_id, lengths, inner_to_outer)
        for relation in stage.relations[known:]:
            if isinstance(relation, SplitRelation) and relation.parent in self.axis_names:
                base = self.axis_names[relation.parent]
                self.axis_names[relation.outer] = f"{base}.outer"
                self.axis_names[relation.inner] = f"{base}.inner"
        axes = self.axes[stage_id][iter_id : iter_id + len(lengths) + 1]
        parts = [self.axis(stage_id, axis) for axis in axes]
        if inner_to_outer:
            parts.reverse()
        cuts = reversed(lengths) if inner_to_outer else lengths
        for part, rest, length in zip(parts, parts[1:], cuts, strict=False):
            pair = f"{rest}, {part}" if inner_to_outer else f"{part}, {rest}"
            by = f"factor={length}" if inner_to_outer else f"nparts={length}"
            self.lines.append(f"{pair} = s[{self.labels[stage_id]}].split({left}, {by})")
            left = rest

    def fuse(self, stage_id: int, iter_ids: Sequence[int]) -> None:
        """Fuse axes."""
        old = [self.axes[stage_id][each] for each in iter_ids]
        names = ", ".join(self.axis(stage_id, axis) for axis in old)
        super().fuse(stage_id, iter_ids)
        new = self.axes[stage_id][iter_ids[0] if iter_ids else 0]
        self._name_fused(old, new)
        text = f"{self.axis(stage_id, new)} = s[{self.labels[stage_id]}].fuse({names})"
        self.lines.append(text)

    def _name_fused(self, old: Sequence[IterVar], new: IterVar) -> None:
        if not any(axis in self.axis_names for axis in old) or new in old:
            return
        name = self.axis_names.get(old[0], old[0].name)
        for axis in old[1:]:
            name = f"{name}.{self.axis_names.get(axis, axis.name)}.fused"
        self.axis_names[new] = name

    def reorder(self, stage_id: int, iter_ids: Sequence[int]) -> None:
        """Reorder axes."""
        super().reorder(stage_id, iter_ids)
        names = ", ".join(self.axis(stage_id, axis) for axis in self.axes[stage_id])
        self.stage_call(stage_id, f"reorder({names})")

    def annotate(self, stage_id: int, iter_id: int, annotation: Annotation) -> None:
        """Mark an axis."""
        super().annotate(stage_id, iter_id, annotation)
        name = self.axis(stage_id, self.axes[stage_id][iter_id])
        if annotation in _MARKS:
            self.stage_call(stage_id, f"{_MARKS[annotation]}({name})")
        elif annotation is not Annotation.NONE:
            self.stage_call(stage_id, f'bind({name}, te.thread_axis("{annotation.text}"))')

    def pragma(self, stage_id: int, iter_id: int, key: str, value: int | None) -> None:
        """Give an axis a hint."""
        super().pragma(stage_id, iter_id, key, value)
        if iter_id < len(self.axes[stage_id]):
            name = self.axis(stage_id, self.axes[stage_id][iter_id])
            shown = "" if value is None else f", {value}"
            self.stage_call(stage_id, f'pragma({name}, "{key}"{shown})')

    def copy_ahead(self, stage_id: int, buffers: int) -> None:
        """Fill a shared stage ahead of its use."""
        super().copy_ahead(stage_id, buffers)
        if buffers:
            call = "double_buffer()" if buffers == 1 else f"async_copy({buffers})"
            self.stage_call(stage_id, call)

    def storage_align(self, stage_id: int, iter_id: int, factor: int, offset: int) -> None:
        """Pad what is inside a dimension."""
        super().storage_align(stage_id, iter_id, factor, offset)
        if self.is_dimension(stage_id, iter_id):
            name = self.axis(stage_id, self.axes[stage_id][iter_id])
            self.stage_call(stage_id, f"storage_align({name}, {factor}, {offset})")

    def compute_at(self, stage_id: int, target_id: int, iter_id: int) -> None:
        """Compute a stage in a loop of another one."""
        super().compute_at(stage_id, target_id, iter_id)
        axis = self.axis(target_id, self.axes[target_id][iter_id])
        self.stage_call(stage_id, f"compute_at(s[{self.labels[target_id]}], {axis})")

    def compute_inline(self, stage_id: int) -> None:
        """Compute a stage where it is read."""
        super().compute_inline(stage_id)
        self.stage_call(stage_id, "compute_inline()")

    def compute_root(self, stage_id: int) -> None:
        """Compute a stage in loops of its own."""
        super().compute_root(stage_id)
        self.stage_call(stage_id, "compute_root()")

    def cache_read(self, stage_id: int, scope: str, reader_ids: Sequence[int]) -> None:
        """Let stages read a copy of a stage."""
        tensor = self.labels[stage_id]
        readers = ", ".join(self.labels[each] for each in reader_ids)
        super().cache_read(stage_id, scope, reader_ids)
        copy = self.new_label(self.names[stage_id + 1])
        self.labels.insert(stage_id + 1, copy)
        groups, order = view_groups(scope), permuted_order(scope)
        if groups is not None:
            call = f"reindex({tensor}, {readers}, {[list(each) for each in groups]})"
        elif order is not None:
            call = f"permute({tensor}, [{readers}], {list(order)})"
        else:
            call = f'cache_read({tensor}, "{scope}", [{readers}])'
        self.lines.append(f"{copy} = s.{call}")
        self.write_axes(stage_id + 1, copy, both=False)

    def cache_write(self, stage_id: int, scope: str) -> None:
        """Let a stage copy from a cache."""
        tensor, before = self.labels[stage_id], self.axes[:stage_id]
        super().cache_write(stage_id, scope)
        cache = self.new_label(self.names[stage_id])
        self.labels.insert(stage_id, cache)
        self.lines.append(_cache_line(cache, tensor, scope))
        for at, axes in enumerate(before):
            if self.axes[at] is not axes:
                self.write_axes(at, f"s[{self.labels[at]}]", both=False)
        self.write_axes(stage_id, cache, both=True)

    def rfactor(self, stage_id: int, iter_id: int, place: int) -> None:
        """Reduce in two."""
        tensor = self.labels[stage_id]
        axis = self.factored_axis(stage_id, self.axes[stage_id][iter_id])
        super().rfactor(stage_id, iter_id, place)
        self.labels[stage_id] = self.rest_label(stage_id + 1, tensor)
        self.labels.insert(stage_id, self.new_label(self.names[stage_id]))
        first, rest = self.labels[stage_id : stage_id + 2]
        op = self.schedule.stages[stage_id + 1].op
        self.axis_names.update(zip(op.axis, self.renamed_axes[op], strict=True))
        self.lines.append(f"{first} = s.rfactor({tensor}, {axis}, {place})")
        self.write_axes(stage_id, first, both=True)
        self.write_axes(stage_id + 1, f"s[{rest}]", both=True)

    def factored_axis(self, stage_id: int, axis: IterVar) -> str:
        """Return the variable of the factored axis; TVM's text forgets the stage before it."""
        return _word(self.axis_names.get(axis, axis.name))

    def rest_label(self, stage_id: int, label: str) -> str:
        """Return the variable of the stage that reduces partial results."""
        return self.new_label(self.names[stage_id])


def _cache_line(cache: str, tensor: str, scope: str) -> str:
    """Return the line that moves a computation to a cache."""
    calls = {phases_scope(): "phases", wide_scope(): "widen"}
    if scope in calls:
        return f'{cache} = s.{calls[scope]}({tensor}, "{PRIVATE}")'
    scope, parts = parts_of(scope)
    more = "" if parts is None else f", {parts}"
    return f'{cache}, = s.cache_write([{tensor}], "{scope}"{more})'


def _word(name: str, part: bool = False) -> str:
    """Return a name as a variable has it: what is printed may be run, whatever it is called."""
    word = re.sub(r"\W", "_", clean_name(name))
    return word if part or word.isidentifier() else f"_{word}"


def schedule_text(dag: ComputeGraph, steps: Iterable[TransformStep]) -> str:
    """Return steps as TVM prints them, one python call a line.

    It reads well but need not run: tensors of one name share a variable.
    """
    written = _Text(dag)
    for step in steps:
        written.take(step)
    return "".join(f"{line}\n" for line in written.lines)


class _Runnable(_Text):
    """A replay written with a variable of its own for each tensor, in a form that runs."""

    def new_label(self, name: str) -> str:
        """Return a variable that no other tensor has."""
        label = base = _word(name)
        count = 1
        while label in self.labels or label in _TAKEN or keyword.iskeyword(label):
            count += 1
            label = f"{base}_{count}"
        return label

    def write_stages(self) -> None:
        """Write where the schedule and the tensors come from."""
        places = [_place(self.dag, op.output(0)) for op in self.dag.outputs]
        outputs = ", ".join(f"tensors[{at}].op" for at in places)
        self.lines += [
            f"s = te.create_schedule([{outputs}])",
            f"{self.targets(self.labels)} = [each.op.output(0) for each in s.stages]",
        ]

    def targets(self, names: Sequence[str]) -> str:
        """Return what a tuple is unpacked to."""
        return f"({', '.join(names)}{',' * (len(names) == 1)})"

    def annotate(self, stage_id: int, iter_id: int, annotation: Annotation) -> None:
        """Mark an axis; it is written at the end, if the axis is there still."""
        Replay.annotate(self, stage_id, iter_id, annotation)

    def factored_axis(self, stage_id: int, axis: IterVar) -> str:
        """Return the variable of the factored axis."""
        return self.axis(stage_id, axis)

    def rest_label(self, stage_id: int, label: str) -> str:
        """Return the variable that the tensor has had before."""
        return label

    def written_marks(self) -> list[str]:
        """Return the lines that mark the loops that are left."""
        begin = len(self.lines)
        for stage_id, axes in enumerate(self.axes):
            for iter_id, axis in enumerate(axes):
                if axis in self.marks:
                    super().annotate(stage_id, iter_id, self.marks[axis][1])
        return self.lines[begin:]


# What the function itself uses.
_TAKEN = ("s", "te", "tensors", "tuple", "each")


def runnable_text(dag: ComputeGraph, steps: Iterable[TransformStep]) -> str:
    """Return steps as a python function of a graph's tensors that gives schedule and arguments.

    Example::

        exec(runnable_text(dag, steps))
        s, args = schedule(dag.tensors)
    """
    written = _Runnable(dag)
    for step in steps:
        written.take(step)
    written.written_marks()
    lines = [*written.lines, "return s, tensors"]
    inputs = ", ".join(_word(tensor.name) for tensor in dag.tensors)
    head = f'from autotune import te\n\n\ndef schedule(tensors):\n    """{inputs}"""\n'
    return head + "".join(f"    {line}\n" for line in lines)


def _place(dag: ComputeGraph, tensor: Tensor) -> int:
    return next(i for i, each in enumerate(dag.tensors) if each.op is tensor.op)
