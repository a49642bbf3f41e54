"""Drawing random schedules by the public primitives of te."""

import contextlib

from autotune import te
from autotune.errors import ScheduleError
from autotune.ir import ForKind
from autotune.te import ComputeOp

FACTORS = (2, 3, 4, 5, 7, 8, 16)
BLOCKS = (4, 8, 16, 32, 33)


class Drawing:
    """One random schedule of a workload, for the CPU or for CUDA."""

    def __init__(self, rng, workload, cuda):
        self.rng = rng
        self.workload = workload
        self.cuda = cuda
        self.schedule = te.create_schedule([t.op for t in workload.outputs])
        self.extents = {}
        self.threads = {}  # root stage -> {tag: extent}
        self.limit = {}  # stage -> loops inside this one (vectorised, say) take no other stage
        self.done = set()  # stages that have their loops and place

    def chance(self, probability):
        return self.rng.random() < probability

    def draw(self):
        """Make the drawing and return the schedule."""
        self.views()
        self.inline_some()
        if self.cuda and self.chance(0.3):
            self.tiles()
            return self.place_all()
        self.cache_writes()
        self.rfactors()
        self.cache_reads()
        return self.place_all()

    def place_all(self):
        """Give each stage its loops and its place."""
        while True:
            # Consumers first: a stage is attached to loops that will not change any more.
            stage = next((t for t in reversed(self.schedule.stages) if t not in self.done), None)
            if stage is None:
                return self.schedule
            self.done.add(stage)
            if isinstance(stage.op, ComputeOp) and stage.attach_type != "inline":
                self.place(stage)

    def tiles(self):
        """Reduce in registers from tiles in shared memory, as the templates of kernels do."""
        stages = [t for t in self.computed() if t.op.reduce_axis and t.op.axis]
        stages = [t for t in stages if t.is_output and t.op.num_outputs == 1]
        if not stages:
            return
        stage = self.rng.choice(stages)
        local = self.schedule[self.schedule.cache_write(stage.op.outputs[0], "local")]
        self.done |= {stage, local}
        self.bind_root(stage, plain=True)
        at = [a for a in stage.leaf_iter_vars if stage.attr(a).thread is not None][-1]
        local.compute_at(stage, at)
        first = self.rng.choice(list(local.op.reduce_axis))
        outer, inner = self.split(local, first)
        others = [a for a in local.op.reduce_axis if a is not first]
        local.reorder(outer, inner, *others, *local.op.axis)
        self.annotate(local)
        for tensor in local.op.input_tensors:
            if self.chance(0.7):
                tile = self.schedule[self.schedule.cache_read(tensor, "shared", [local.op])]
                self.done.add(tile)
                self.attach(tile, local, self.rng.choice([outer, outer, inner]))

    # -- dataflow ----------------------------------------------------------------------------

    def readers(self, stage):
        """Return the stages that read a stage, through those computed inline."""
        found = []
        for other in self.schedule.stages:
            if not isinstance(other.op, ComputeOp):
                continue
            if any(self.schedule.stage_of(t) is stage for t in other.op.input_tensors):
                found += self.readers(other) if other.attach_type == "inline" else [other]
        return list(dict.fromkeys(found))

    def computed(self):
        return [t for t in self.schedule.stages if isinstance(t.op, ComputeOp)]

    def inline_some(self):
        for stage in self.computed():
            if not stage.is_output and not stage.op.reduce_axis and self.chance(0.5):
                stage.compute_inline()

    def views(self):
        """Let some stages read a copy in another order, or a view by axes of their own."""
        for stage in list(self.schedule.stages):
            readers = [t for t in self.direct_readers(stage) if self.reads(t, stage.op.outputs[0])]
            if not readers or not stage.op.outputs[0].shape or not self.chance(0.1):
                continue
            if self.chance(0.6):
                order = list(range(len(stage.op.outputs[0].shape)))
                self.rng.shuffle(order)
                self.schedule.permute(stage.op.outputs[0], [t.op for t in readers], order)
                continue
            with contextlib.suppress(ScheduleError):  # some read at several places, or elsewhere
                groups = [(n,) for n in range(len(readers[0].op.root_iter_vars))]
                self.rng.shuffle(groups)
                last = self.rng.randrange(len(groups))
                groups[last:] = [tuple(n for group in groups[last:] for n in group)]
                view = self.schedule.reindex(stage.op.outputs[0], readers[0].op, groups)
                if self.chance(0.5):
                    self.schedule[view].compute_inline()

    def cache_writes(self):
        for stage in self.computed():
            if stage.attach_type == "inline" or not self.chance(0.3):
                continue
            scope = "local" if self.cuda else self.rng.choice(["local", "global"])
            outputs = stage.op.outputs
            if len(outputs) == 1 and outputs[0].shape and self.chance(0.25):
                dimension = self.rng.randrange(len(outputs[0].shape))
                size = int(outputs[0].shape[dimension])
                part = self.rng.choice([n for n in range(1, size + 1) if size % n == 0])
                self.schedule.cache_write(outputs[0], scope, (dimension, part))
                continue
            self.schedule.cache_write(list(outputs) if len(outputs) > 1 else outputs[0], scope)

    def rfactors(self):
        for stage in self.computed():
            if not stage.op.reduce_axis or not self.chance(0.25):
                continue
            axis = self.rng.choice(list(stage.op.reduce_axis))
            outer, inner = stage.split(axis, factor=self.rng.choice(FACTORS))
            outputs = stage.op.outputs
            self.schedule.rfactor(
                list(outputs) if len(outputs) > 1 else outputs[0], self.rng.choice([outer, inner])
            )

    def cache_reads(self):
        for stage in list(self.schedule.stages):
            if stage.attach_type == "inline" or not self.chance(0.35):
                continue
            readers = self.direct_readers(stage)
            if not readers or (stage.is_output and isinstance(stage.op, ComputeOp)):
                continue
            some = self.rng.sample(readers, self.rng.randint(1, len(readers)))
            if self.cuda:
                scope = self.rng.choice(["shared", "shared", "local"])
            else:
                scope = self.rng.choice(["global", "local"])
            tensor = stage.op.outputs[self.rng.randrange(stage.op.num_outputs)]
            reading = [r for r in some if self.reads(r, tensor)]
            if reading:
                self.schedule.cache_read(tensor, scope, [r.op for r in reading])

    def reads(self, reader, tensor):
        return any(
            self.schedule.stage_of(t) is self.schedule.stage_of(tensor)
            and t.value_index == tensor.value_index
            for t in reader.op.input_tensors
        )

    def direct_readers(self, stage):
        return [
            t
            for t in self.computed()
            if any(self.schedule.stage_of(u) is stage for u in t.op.input_tensors)
        ]

    # -- loops -------------------------------------------------------------------------------

    def extent(self, axis):
        if axis not in self.extents:
            self.extents[axis] = int(axis.dom.extent)
        return self.extents[axis]

    def split(self, stage, axis, factor=None):
        """Split an axis, at random by factor or nparts."""
        n = self.extent(axis)
        if factor is None and self.chance(0.15):
            factors, from_inner = (
                [self.rng.choice([1, 2, 5]), self.rng.choice([2, 3])],
                self.chance(0.6),
            )
            parts = stage.multi_split(axis, factors, from_inner=from_inner)
            left = -(-n // (factors[0] * factors[1]))
            sizes = [left, *factors] if from_inner else [*factors, left]
            self.extents.update(zip(parts, sizes, strict=True))
            return parts[0], parts[-1]
        number = factor or self.rng.choice(FACTORS)
        if factor is None and self.chance(0.3):
            outer, inner = stage.split(axis, nparts=number)
            self.extents[outer], self.extents[inner] = number, -(-n // number)
        else:
            outer, inner = stage.split(axis, factor=number)
            self.extents[outer], self.extents[inner] = -(-n // number), number
        return outer, inner

    def fuse(self, stage, axes):
        fused = stage.fuse(*axes)
        product = 1
        for axis in axes:
            product *= self.extent(axis)
        self.extents[fused] = product
        return fused

    def data(self, stage):
        return [a for a in stage.leaf_iter_vars if a.kind == "data"]

    def shake(self, stage, most=3):
        """Split, fuse and reorder at random the loops that are still plain."""
        for _ in range(self.rng.randint(0, most)):
            leaves = [a for a in stage.leaf_iter_vars if stage.attr(a).kind is ForKind.SERIAL]
            if not leaves:
                return
            axis = self.rng.choice(leaves)
            at = stage.leaf_iter_vars.index(axis)
            after = stage.leaf_iter_vars[at + 1 : at + 2]
            if self.chance(0.6) and self.extent(axis) > 1:
                self.split(stage, axis)
            elif after and after[0] in leaves and after[0].kind == axis.kind:
                self.fuse(stage, [axis, after[0]])
        if self.chance(0.5):
            leaves = [a for a in stage.leaf_iter_vars if stage.attr(a).kind is ForKind.SERIAL]
            self.rng.shuffle(leaves)
            if len(leaves) > 1:
                stage.reorder(*leaves)

    def annotate(self, stage):
        """Unroll some loops, vectorise the innermost one if it is a data axis."""
        leaves = stage.leaf_iter_vars
        if not leaves:
            return
        last = leaves[-1] if self.chance(0.8) else self.rng.choice(leaves)
        plain = stage.attr(last).kind is ForKind.SERIAL
        if plain and last.kind == "data" and self.extent(last) <= 64 and self.chance(0.4):
            stage.vectorize(last)
            self.limit[stage] = last
        for axis in leaves:
            plain = stage.attr(axis).kind is ForKind.SERIAL
            if plain and self.extent(axis) <= 8 and self.chance(0.25):
                stage.unroll(axis)
        if self.chance(0.15):
            stage.pragma(leaves[0], "auto_unroll_max_step", self.rng.choice([4, 16, 64]))
            stage.pragma(leaves[0], "unroll_explicit", self.rng.choice([0, 1]))

    def attach_points(self, stage, reader):
        """Return loops of a reader inside which a stage may be computed."""
        leaves = list(reader.leaf_iter_vars)
        if reader in self.limit:
            leaves = leaves[: leaves.index(self.limit[reader])]
        return leaves

    # -- placing -----------------------------------------------------------------------------

    def place(self, stage):
        readers = self.readers(stage)
        if not stage.is_output and len(readers) == 1 and self.chance(0.75):
            points = self.attach_points(stage, readers[0])
            if points:
                self.attach(stage, readers[0], self.rng.choice(points))
                return
        if self.cuda:
            if stage.scope in ("shared", "local"):
                # On a device, such memory lives inside a kernel only.
                if len(readers) != 1 or not self.attach_points(stage, readers[0]):
                    raise ScheduleError(f"{stage.name} has no place for scope {stage.scope}")
                self.attach(
                    stage, readers[0], self.rng.choice(self.attach_points(stage, readers[0]))
                )
                return
            self.bind_root(stage)
            return
        self.shake(stage)
        outer = stage.leaf_iter_vars[:1]
        if outer and outer[0].kind == "data" and self.chance(0.4):
            stage.parallel(outer[0])
        self.annotate(stage)

    def root_of(self, stage):
        while stage.attach_type == "at":
            stage = stage.attach_stage
        return stage

    def attach(self, stage, reader, axis):
        stage.compute_at(reader, axis)
        if self.cuda:
            if stage.scope == "" and self.chance(0.3):
                stage.set_scope("local" if self.inside_threads(reader, axis) else "shared")
            self.fetch_together(stage, reader, axis)
        self.shake(stage, 2)
        shared = self.cuda and stage.scope == "shared"
        if self.chance(0.5 if shared else 0.2) and stage.scope in ("shared", "local", "global"):
            if shared and self.chance(0.5):
                stage.async_copy(self.rng.choice([2, 3]))
            else:
                stage.double_buffer()
        if self.chance(0.2) and stage.op.axis:
            align = self.rng.choice(list(stage.op.axis))
            stage.storage_align(align, self.rng.choice([4, 8]), self.rng.choice([0, 1, 3]))
        self.annotate(stage)

    def inside_threads(self, stage, axis):
        """Tell whether a loop stands inside one bound to a thread, be it virtual."""
        leaves = stage.leaf_iter_vars
        for outer in leaves[: leaves.index(axis) + 1]:
            thread = stage.attr(outer).thread
            if thread is not None and not thread.thread_tag.startswith("blockIdx"):
                return True
        if stage.attach_type == "at":
            return self.inside_threads(stage.attach_stage, stage.attach_iter)
        return False

    def fetch_together(self, stage, reader, axis):
        """Spread a stage over the threads of its block, where that makes sense."""
        threads = self.threads.get(self.root_of(reader), {})
        shared = stage.scope == "shared" or (
            stage.scope == "" and not self.inside_threads(reader, axis)
        )
        axes = [a for a in stage.leaf_iter_vars if a.kind == "data"]
        if not threads or not shared or not axes or not self.chance(0.8):
            return
        if [a for a in stage.leaf_iter_vars[: len(axes)] if a.kind != "data"]:
            stage.reorder(*axes, *(a for a in stage.leaf_iter_vars if a not in axes))
        fused = self.fuse(stage, axes) if len(axes) > 1 else axes[0]
        if self.chance(0.4):
            fused, _ = self.split(stage, fused, self.rng.choice([2, 4]))
        for tag, size in threads.items():
            fused, inner = self.split(stage, fused, size)
            stage.bind(inner, te.thread_axis(tag))

    def bind_root(self, stage, plain=False):
        axes = self.data(stage)
        threads = self.threads[stage] = {}
        reduces = [a for a in stage.leaf_iter_vars if a.kind == "reduce"]
        if not plain and reduces and self.chance(0.35 if axes else 0.8):
            self.cross_thread(stage, axes, reduces)
            return
        if not axes:
            return
        if len(axes) >= 2 and self.chance(0.4):
            y = self.fuse(stage, axes[:-1]) if len(axes) > 2 else axes[0]
            pairs = [(y, "y"), (axes[-1], "x")]
        else:
            pairs = [(self.fuse(stage, axes) if len(axes) > 1 else axes[0], "x")]
        outers, middles, inners = [], [], []
        for axis, d in pairs:
            if self.chance(0.4):
                axis, inner = self.split(stage, axis, self.rng.choice([2, 3, 4]))
                inners.append(inner)
            if self.chance(0.25):
                axis, virtual = self.split(stage, axis, self.rng.choice([2, 3]))
                stage.bind(virtual, te.thread_axis("vthread"))
                middles.append(virtual)
            size = self.rng.choice(BLOCKS[: 3 if len(pairs) > 1 else 5])
            axis, thread = self.split(stage, axis, size)
            stage.bind(axis, te.thread_axis(f"blockIdx.{d}"))
            stage.bind(thread, te.thread_axis(f"threadIdx.{d}"))
            threads[f"threadIdx.{d}"] = size
            outers.append(axis)
            middles.append(thread)
        rest = [a for a in stage.leaf_iter_vars if a.kind == "reduce"]
        order = [*rest, *inners] if self.chance(0.5) else [*inners, *rest]
        stage.reorder(*outers, *middles, *order)
        self.shake(stage, 2)
        self.annotate(stage)

    def cross_thread(self, stage, axes, reduces):
        """One block for some elements, whose threads reduce together."""
        threads = self.threads[stage]
        axis = self.fuse(stage, reduces) if len(reduces) > 1 else reduces[0]
        size = self.rng.choice((4, 8, 16, 32, 64))
        if self.chance(0.5):
            _, inner = self.split(stage, axis, size)
        else:
            inner, _ = stage.split(axis, nparts=size)
            self.extents[inner], self.extents[_] = size, -(-self.extent(axis) // size)
        stage.bind(inner, te.thread_axis("threadIdx.x"))
        threads["threadIdx.x"] = size
        if not axes:
            return
        fused = self.fuse(stage, axes) if len(axes) > 1 else axes[0]
        if self.chance(0.4):
            size = self.rng.choice((2, 4))
            fused, rows = self.split(stage, fused, size)
            stage.bind(rows, te.thread_axis("threadIdx.y"))
            threads["threadIdx.y"] = size
        stage.bind(fused, te.thread_axis("blockIdx.x"))
