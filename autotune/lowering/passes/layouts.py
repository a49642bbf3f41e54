"""Buffers in shared memory whose elements are elsewhere than the schedule put them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from autotune.ir.analysis_affine import Affine
from autotune.ir.expr import BinaryOp, Expr, Load
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Allocate, Buffer, For, Stmt, Store
from autotune.ir.visitor import Rewriter
from autotune.lowering.stage_nest import PIPELINE, PipelinedBuffer


class Layout(Protocol):
    """Where the elements of a buffer are now, and in which buffer."""

    @property
    def buffer(self) -> Buffer:
        """The buffer that has them."""

    def place(self, simplifier: Simplifier, index: Affine) -> Affine:
        """Return where an element is that was at ``index``."""


def lay_out(stmt: Stmt, simplifier: Simplifier, tiles: Mapping[Buffer, Layout]) -> Stmt:
    """Returns a statement with all elements of some buffers where their layouts have them."""
    return _LayOut(simplifier, tiles).rewrite(stmt)


class _LayOut(Rewriter):
    """Moves all elements of some buffers."""

    def __init__(self, simplifier: Simplifier, tiles: Mapping[Buffer, Layout]) -> None:
        self.simplifier = simplifier
        self.tiles = tiles

    def visit_For(self, node: For) -> Stmt:
        """Rewrite the body; a pipeline is one of the tiles as they are now."""
        loop = node
        if marks := node.annotations.get(PIPELINE):
            loop = node.with_annotation(PIPELINE, tuple(map(self._pipelined, marks)))
        return loop.with_body(self.rewrite(node.body))

    def _pipelined(self, mark: PipelinedBuffer) -> PipelinedBuffer:
        tile = self.tiles.get(mark.buffer)
        return mark if tile is None else replace(mark, buffer=tile.buffer)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Allocate a tile as it is now."""
        tile = self.tiles.get(node.buffer)
        body = self.rewrite(node.body)
        return Allocate(node.buffer if tile is None else tile.buffer, body)

    def visit_Store(self, node: Store) -> Stmt:
        """Move a store."""
        tile = self.tiles.get(node.buffer)
        if tile is None:
            return super().visit_Store(node)
        value = self.rewrite(node.value)
        return Store(tile.buffer, (self._moved(tile, node.indices[0]),), value)

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        """Keep what is made of variables alone, as nearly all indices are."""
        form = self.simplifier.known_form(node)
        return node if form is not None and form.is_plain else super().visit_BinaryOp(node)

    def visit_Load(self, node: Load) -> Expr:
        """Move a load."""
        tile = self.tiles.get(node.buffer)
        if tile is None:
            return super().visit_Load(node)
        return Load(tile.buffer, (self._moved(tile, node.indices[0]),))

    def _moved(self, tile: Layout, index: Expr) -> Expr:
        return self.simplifier.expr(tile.place(self.simplifier, self.simplifier.form_of(index)))
