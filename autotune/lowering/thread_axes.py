"""The thread axes that loops are bound to: one for all stages of a kernel that name it."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine, constant
from autotune.ir.expr import Expr, IntImm, IterVar, Var
from autotune.ir.structure import variables
from autotune.lowering.attachments import thread_axis
from autotune.lowering.bodies import BodySimplifier
from autotune.lowering.extents import Extent, expr_of, is_constant, same_extent
from autotune.lowering.plan import Thread
from autotune.te.stage import Stage


class ThreadAxes:
    """The thread axes of all kernels of one schedule, found stage by stage."""

    def __init__(self, simplifier: BodySimplifier) -> None:
        self.simplifier = simplifier
        # By the first stage of the kernel, and the tag; of virtual threads, the axis itself.
        self._of_kernel: dict[tuple[Stage, str | IterVar], Thread] = {}
        self._of_var: dict[Var, Thread] = {}

    @property
    def launched(self) -> dict[tuple[Stage, str], Thread]:
        """The axes that kernels are launched with, by first stage of the kernel and tag."""
        return {(one.root, one.tag): one for one in self._of_var.values() if not one.is_virtual}

    @property
    def virtual(self) -> dict[Var, Thread]:
        """The virtual threads, by variable."""
        return {var: thread for var, thread in self._of_var.items() if thread.is_virtual}

    def loops(
        self, stage: Stage, root: Stage, extents: Mapping[IterVar, Extent]
    ) -> tuple[dict[IterVar, Affine], dict[IterVar, Thread]]:
        """Return the values of the leaf axes of a stage, and the threads of those bound."""
        loops: dict[IterVar, Affine] = {}
        threads: dict[IterVar, Thread] = {}
        for leaf in stage.leaf_iter_vars:
            axis = thread_axis(stage, leaf)
            extent = extents[leaf]
            if axis is None:
                loops[leaf] = self.simplifier.bind_loop(leaf.var, extent)
                continue
            if extent == 1:
                loops[leaf] = constant(0)
            else:
                threads[leaf] = self.bind(stage, root, axis, leaf, extent)
                loops[leaf] = self.simplifier.var(threads[leaf].var)
        return loops, threads

    def bind(
        self, stage: Stage, root: Stage, axis: IterVar, leaf: IterVar, extent: Extent
    ) -> Thread:
        """Return the kernel's thread axis for a bound loop; all stages must agree about it."""
        name, tag = stage.op.name, axis.thread_tag
        self._check_declared(name, axis, leaf, extent)
        key = (root, axis if tag == "vthread" else tag)
        known = self._of_kernel.get(key)
        if known is None:
            var = Var(leaf.var.name if tag == "vthread" else tag, "int32", "thread")
            self.simplifier.bind_loop(var, extent)
            known = self._of_kernel[key] = self._of_var[var] = Thread(tag, var, extent, name, root)
        elif not same_extent(extent, known.extent):
            raise LoweringError(
                f"bind: axis {leaf.var.name!r} of {name} has {self._shown(extent)} iterations, "
                f"but {tag} of the same kernel has {self._shown(known.extent)} (from "
                f"{known.stage}); split it so that both agree"
            )
        return known

    def _check_declared(self, name: str, axis: IterVar, leaf: IterVar, extent: Extent) -> None:
        if not is_constant(extent) and not axis.thread_tag.startswith("blockIdx"):
            raise LoweringError(
                f"bind: axis {leaf.var.name!r} of {name} has {self._shown(extent)} iterations, "
                f"but the number of {axis.thread_tag} must be a constant; split it by a constant "
                "factor, and bind the inner axis"
            )
        declared = axis.dom.extent if axis.dom is not None else None
        if isinstance(declared, IntImm) and extent != declared.value:
            raise LoweringError(
                f"bind: axis {leaf.var.name!r} of {name} has {self._shown(extent)} iterations, "
                f"but the thread axis {axis.thread_tag} was declared with {declared.value}"
            )

    def _shown(self, extent: Extent) -> str:
        return str(expr_of(self.simplifier, extent))

    def is_uniform(self, condition: Expr, outside: frozenset[Var]) -> bool:
        """Return whether a condition is the same for all threads, and all elements, of a block.

        Args:
            condition: in the loops of a stage.
            outside: the variables of loops around that stage.
        """
        threads = [(var, self._of_var.get(var)) for var in variables(condition)]
        return all(
            var in outside if thread is None else thread.tag.startswith("blockIdx")
            for var, thread in threads
        )

    def is_ranged(self, var: Var, scope: str, outside: frozenset[Var]) -> bool:
        """Return whether a stage must hold what is read for all values of a loop variable.

        Args:
            var: the variable.
            scope: the memory of the stage.
            outside: the variables of loops around the stage.
        """
        thread = self._of_var.get(var)
        if thread is None or (thread.is_virtual and scope == "local"):
            return var not in outside
        if thread.tag.startswith("blockIdx"):
            return False
        return scope != "local"
