"""The statements of an intrinsic, at the regions of the tensors that it is used for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import LoweringError
from autotune.ir.address import WHOLE, Address
from autotune.ir.analysis_affine import Affine
from autotune.ir.expr import Call, Expr, IntImm, Load, Var, as_expr
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Allocate, Buffer, Evaluate, For, If, LetStmt, Stmt, Store, seq
from autotune.ir.visitor import Rewriter
from autotune.kernel.kernel import MOST_ELEMENTS
from autotune.lowering.buffers import TensorStorages
from autotune.lowering.extents import Extent, expr_of
from autotune.te.declared_buffer import LOAD_WORD, DeclaredBuffer, is_dense
from autotune.te.stage_state import IMPORTS
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class Place:
    """Where a declared buffer is: the memory, the index of its first element, its reach."""

    buffer: Buffer
    offset: Affine
    span: int


class Binding:
    """The places of declared buffers, and the values of the variables in their declarations."""

    def __init__(self, name: str, simplifier: Simplifier, storages: TensorStorages | None) -> None:
        self.name = name
        self.simplifier = simplifier
        self.storages = storages
        self.places: dict[Buffer, Place] = {}
        self.values: dict[Var, Affine] = {}
        # The variables of the kernel's thread axes, by tag.
        self.threads: dict[str, Var] = {}

    def bind(
        self,
        declared: DeclaredBuffer,
        tensor: Tensor,
        lows: Sequence[Affine],
        shape: Sequence[int | Expr],
        scope: str,
    ) -> None:
        """Bind a buffer to the region of a tensor that begins at ``lows``.

        Raises:
            LoweringError: the region is not as the buffer is declared.
        """
        assert self.storages is not None
        storage = self.storages.of(tensor)
        offset = self.storages.flat(storage, lows)
        strides = [expr_of(self.simplifier, k) for k in storage.strides]
        self.bind_memory(
            declared, storage.buffer, offset, shape, strides[len(lows) - len(shape) :]
        )
        if declared.scope and scope != declared.scope and scope:
            raise self._refusal(
                declared, f"expected memory of scope {declared.scope}, {tensor.name} is in {scope}"
            )

    def bind_memory(
        self,
        declared: DeclaredBuffer,
        memory: Buffer,
        offset: Affine,
        shape: Sequence[int | Expr],
        strides: Sequence[int | Expr],
    ) -> None:
        """Bind a buffer to a region of some memory."""
        self._equate(declared, "extents", declared.shape, shape, shape)
        if not declared.dense:
            self._equate(declared, "strides", declared.strides, strides, shape)
        elif not is_dense(shape, strides):
            shown = [", ".join(map(str, each)) for each in (declared.strides, strides)]
            raise self._refusal(
                declared,
                f"it is declared without strides, that is with [{shown[0]}], but the region has "
                f"[{shown[1]}]; declare it with strides=[te.var(), ...]",
            )
        factor = declared.offset_factor
        if any(k % factor for k in (offset.const, *offset.terms.values())):
            raise self._refusal(
                declared,
                f"expected an offset that is a multiple of {factor}, got "
                f"{self.simplifier.expr(offset)}",
            )
        if isinstance(declared.elem_offset, Var):
            self.values[declared.elem_offset] = offset
        self.places[declared] = Place(memory, offset, _span(shape, strides))

    def _equate(
        self,
        declared: DeclaredBuffer,
        what: str,
        wanted: Sequence[int | Expr],
        got: Sequence[int | Expr],
        shape: Sequence[int | Expr],
    ) -> None:
        if len(wanted) != len(got):
            raise self._refusal(
                declared, f"it has {len(wanted)} dimensions, the region {len(got)}"
            )
        for one, other, extent in zip(wanted, got, shape, strict=True):
            form = self.simplifier.form(as_expr(other))
            if isinstance(one, Var) and one not in self.values:
                self.values[one] = form
                continue
            known = self.simplifier.form(as_expr(one), self.values)
            # Single elements are any distance apart.
            if known.key != form.key and (extent != 1 or what == "extents"):
                shown = [", ".join(map(str, each)) for each in (wanted, got)]
                raise self._refusal(
                    declared, f"expected {what} of [{shown[0]}], the region has [{shown[1]}]"
                )

    def _refusal(self, declared: DeclaredBuffer, why: str) -> LoweringError:
        return LoweringError(f"{self.name}: buffer {declared.name}: {why}")

    def statement(self, stmt: Stmt, env: Mapping[Var, Affine]) -> Stmt:
        """Return a copy of a statement at the places, with loop variables of ``env`` replaced."""
        return _Bound(self, env).rewrite(stmt)


class _Bound(Rewriter):
    """Copies the statements of a body: memory, loops and names in it become those of this copy."""

    def __init__(self, binding: Binding, env: Mapping[Var, Affine]) -> None:
        self.binding = binding
        self.simplifier = binding.simplifier
        self.env = env
        self.values: dict[Var, Affine] = {
            var: self.simplifier.substitute(form, env) if env else form
            for var, form in binding.values.items()
        }
        self.renamed: dict[Var, Var] = {}
        self.memory: dict[Buffer, Buffer] = {}

    def _index(self, buffer: Buffer, index: Expr) -> tuple[Buffer, Expr]:
        """Return the memory and the index of an element of a buffer."""
        form = self.simplifier.form(self.rewrite(index))
        place = self.binding.places.get(buffer)
        if place is None:
            if isinstance(buffer, DeclaredBuffer):
                raise LoweringError(
                    f"{self.binding.name}: buffer {buffer.name} is no input or output of it"
                )
            return self.memory.get(buffer, buffer), self.simplifier.expr(form)
        offset = self.simplifier.substitute(place.offset, self.env) if self.env else place.offset
        return place.buffer, self.simplifier.expr(self.simplifier.add(offset, form))

    def visit_Var(self, node: Var) -> Expr:
        """Replace a variable."""
        form = self.values.get(node)
        if form is not None:
            return self.simplifier.expr(form)
        return self.renamed.get(node, node)

    def visit_Load(self, node: Load) -> Expr:
        """Move a load."""
        buffer, index = self._index(node.buffer, node.indices[0])
        return Load(buffer, (index,))

    def visit_Address(self, node: Address) -> Expr:
        """Move an address."""
        place = self.binding.places.get(node.buffer)
        whole = WHOLE if place is None else place.span
        return node.at(*self._index(node.buffer, node.index), whole)

    def visit_Call(self, node: Call) -> Expr:
        """Check that a word is aligned."""
        call = super().visit_Call(node)
        address = node.args[0] if node.name == LOAD_WORD else None
        if isinstance(call, Call) and isinstance(address, Address):
            address = call.args[0]
            assert isinstance(address, Address)
            form = self.simplifier.form_of(address.index)
            if any(k % address.extent for k in (form.const, *form.terms.values())):
                raise LoweringError(
                    f"{self.binding.name}: a word of {node.dtype} begins at {address.index} of "
                    f"{address.buffer.name}; expected a multiple of {address.extent}"
                )
        return call

    def visit_Store(self, node: Store) -> Stmt:
        """Move a store."""
        value = self.simplifier.simplify(self.rewrite(node.value))
        buffer, index = self._index(node.buffer, node.indices[0])
        return Store(buffer, (index,), value)

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        """Move what a call takes."""
        return Evaluate(self.simplifier.simplify(self.rewrite(node.value)))

    def visit_If(self, node: If) -> Stmt:
        """Choose at once where the condition is known."""
        cond = self.simplifier.simplify(self.rewrite(node.cond))
        other = seq() if node.other is None else self.rewrite(node.other)
        if isinstance(cond, IntImm):
            return self.rewrite(node.then) if cond.value else other
        return If(cond, self.rewrite(node.then), None if node.other is None else other)

    def visit_For(self, node: For) -> Stmt:
        """Copy a loop with a variable of its own."""
        if node.thread is not None and node.thread in self.binding.threads:
            self.renamed[node.var] = var = self.binding.threads[node.thread]
            return For(var, node.extent, node.kind, self.rewrite(node.body), node.thread)
        notes = {key: value for key, value in node.annotations.items() if key not in IMPORTS}
        if node.annotations and not notes:
            return self.rewrite(node.body)  # it was there for the text alone
        extent = self.simplifier.form(self.rewrite(node.extent))
        var = Var(node.var.name, "int32", node.var.axis)
        known: Extent = extent if extent.terms else extent.const
        most = known - 1 if isinstance(known, int) else float("inf")
        self.simplifier.bind(var, 0, most)
        self.renamed[node.var] = var
        body = self.rewrite(node.body)
        shown = expr_of(self.simplifier, known)
        return For(var, shown, node.kind, body, node.thread, notes)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        """Copy a name."""
        value = self.simplifier.simplify(self.rewrite(node.value))
        var = Var(node.var.name, node.var.dtype, node.var.axis)
        self.renamed[node.var] = var
        return LetStmt(var, value, self.rewrite(node.body))

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Copy an allocation."""
        old = node.buffer
        shape = tuple(
            expr_of(self.simplifier, _extent(self.simplifier.form(self.rewrite(as_expr(n)))))
            for n in old.shape
        )
        new = Buffer(old.name, shape, old.dtype, old.scope)
        self.memory[old] = new
        return Allocate(new, self.rewrite(node.body))


def _span(shape: Sequence[int | Expr], strides: Sequence[int | Expr]) -> int:
    """Return how many elements a region reaches over; more than any memory has if not known."""
    pairs = list(zip(shape, strides, strict=True))
    known = [(n, k) for n, k in pairs if isinstance(n, int) and isinstance(k, int)]
    return 1 + sum((n - 1) * k for n, k in known) if len(known) == len(pairs) else MOST_ELEMENTS


def _extent(form: Affine) -> Extent:
    return form if form.terms else form.const
