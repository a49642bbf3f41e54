"""Rewriters of bodies that read something else than before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.ir import Expr, ProducerLoad, Rewriter
from autotune.te.rewrite import share_sources
from autotune.te.tensor import ComputeOp, Operation, Tensor


class ReadInstead(Rewriter):
    """Reads a tensor at some indices in place of the result of an operation."""

    def __init__(self, op: Operation, new: Tensor, at: Sequence[Expr]) -> None:
        self.op, self.load = op, ProducerLoad(new, tuple(at))

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Return the new read, or that of another tensor, whose indices may read the result."""
        if node.tensor.op is self.op:
            return self.load
        indices = self.rewrite_all(node.indices)
        return node if indices is node.indices else ProducerLoad(node.tensor, indices)


class Swap(Rewriter):
    """Puts a read in place of another one."""

    def __init__(self, old: ProducerLoad, new: ProducerLoad) -> None:
        self.old, self.new = old, new

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Return it."""
        return self.new if node.tensor is self.old.tensor else node


class Moved(Rewriter):
    """The operations of a graph that read others than before."""

    def __init__(self, to: Mapping[Tensor, Tensor]) -> None:
        self.to = dict(to)

    def move(self, op: Operation) -> None:
        """Note what replaces an operation."""
        if not isinstance(op, ComputeOp) or op.outputs[0] in self.to:
            return
        body = self.rewrite_all(op.body)
        if body is not op.body:
            new = ComputeOp(op.name, op.tag, op.attrs, op.axis, share_sources(body))
            self.to |= dict(zip(op.outputs, new.outputs, strict=True))

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Read what replaces a tensor."""
        indices, tensor = self.rewrite_all(node.indices), self.to.get(node.tensor, node.tensor)
        if tensor is node.tensor and indices is node.indices:
            return node
        return ProducerLoad(tensor, indices)
