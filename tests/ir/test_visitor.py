"""Visitors, rewriters, and what is asked of a tree."""

import pytest

from autotune import te
from autotune.ir import (
    Add,
    Allocate,
    Barrier,
    Broadcast,
    Buffer,
    Call,
    Evaluate,
    For,
    ForKind,
    If,
    IfThenElse,
    Imm,
    LetStmt,
    Load,
    Mul,
    Not,
    Ramp,
    Rewriter,
    Seq,
    Store,
    Var,
    Visitor,
    cast,
    children,
    const,
    reads_in,
    same,
    seq,
    structural_key,
    substitute,
    variables,
    walk,
)
from autotune.ir.address import Address
from autotune.ir.node import Node, among_fields
from autotune.ir.stmt import AsyncCommit, AsyncCopy, AsyncWait, While
from autotune.ir.structure import walk_once
from autotune.ir.visitor import StmtVisitor

N, M = Var("i"), Var("j")
A = Buffer("A", (4, 8), "float32")
LOOP = For(
    N,
    4,
    ForKind.SERIAL,
    seq(
        Store(A, (N, const(0)), Load(A, (N, const(1))) + 1),
        If(N < 3, Evaluate(Call("f", (N,), "int32"))),
    ),
)


def test_a_visitor_finds_the_method_of_the_nearest_class():
    seen = []

    class Find(Visitor):
        def visit_Add(self, node):
            seen.append("add")
            self.generic(node)

        def visit_BinaryOp(self, node):
            seen.append("binary")
            self.generic(node)

    Find().visit((N + M) * 2)
    assert seen == ["binary", "add"]


def test_a_visitor_reaches_everything_below_statements():
    loads = []

    class Loads(Visitor):
        def visit_Load(self, node):
            loads.append(node)

    Loads().visit(LOOP)
    assert len(loads) == 1


def test_two_visitors_do_not_share_methods():
    class One(Visitor):
        def visit_Var(self, node):
            found.append(node)

    class Other(Visitor):
        pass

    found = []
    Other().visit(N + M)
    One().visit(N + M)
    Other().visit(N + M)
    assert found == [N, M]


def test_a_rewriter_returns_the_same_object_where_nothing_changed():
    assert Rewriter().rewrite(LOOP) is LOOP
    for node in (Not(N < 3), Call("f", (N, M)), cast(N, "float32"), Ramp(N, 1, 4)):
        assert Rewriter().rewrite(node) is node


def test_a_rewriter_keeps_the_parts_that_did_not_change():
    class Double(Rewriter):
        def visit_Call(self, node):
            return Call("g", node.args, node.dtype)

    new = Double().rewrite(LOOP)
    assert new is not LOOP
    assert new.body.stmts[0] is LOOP.body.stmts[0]
    assert new.body.stmts[1].then.value.name == "g"


def test_rewriting_folds_constants_that_come_in():
    assert same(substitute(N * 4 + M, {N: const(0)}), M)
    choice = IfThenElse(N < 3, const(1.0), const(2.0))
    assert same(substitute(choice, {N: const(5)}), const(2.0))


def test_substitute_reaches_loads_stores_and_conditions():
    new = substitute(LOOP, {N: M})
    assert variables(new.body) == [M]


def test_a_rewriter_handles_every_statement():
    body = Allocate(A, LetStmt(M, N + 1, seq(Barrier(), Evaluate(M + N))))
    new = substitute(body, {N: const(2)})
    assert same(new.body.value, const(3))
    assert new.body.body.stmts[0] is body.body.body.stmts[0]


def test_variables_are_listed_once_in_order_of_occurrence():
    assert variables(M * N + M) == [M, N]
    assert variables(N + 1, M * N) == [N, M]


def test_reads_are_listed_before_those_in_their_indices():
    values, places = te.placeholder((4,), name="values"), te.placeholder((4,), "int32", "places")
    reads = reads_in(values[places[N]] + 1, places[M])
    assert [each.tensor for each in reads] == [values, places, places]


def test_walk_yields_parents_before_children_left_to_right():
    kinds = [type(node) for node in walk((N + 1) * M)]
    assert kinds[:3] == [Mul, Add, Var]


def test_children_are_the_nodes_directly_below():
    store = LOOP.body.stmts[0]
    assert len(list(children(store))) == 3


def test_seq_is_flat_and_leaves_out_nothing_else():
    one = Evaluate(N)
    assert seq(one, None) is one
    assert seq(seq(one, one), one).stmts == (one, one, one)
    assert isinstance(seq(), Seq)


def test_structural_keys_are_equal_just_where_trees_are_the_same():
    assert structural_key(N * 4 + M) == structural_key(N * 4 + M)
    assert structural_key(N * 4 + M) != structural_key(M * 4 + N)
    assert structural_key(const(1)) != structural_key(const(True))
    assert structural_key(LOOP) == structural_key(Rewriter().rewrite(LOOP))
    assert len({structural_key(N + 1), structural_key(N + 1)}) == 1


def test_an_unhandled_class_goes_to_generic():
    class Count(Visitor):
        total = 0

        def generic(self, node):
            self.total += 1
            super().generic(node)

        def visit_Imm(self, node):
            self.total += isinstance(node, Imm)

    count = Count()
    count.visit(Call("f", (const(1), const(2))))
    assert count.total == 3


@pytest.mark.parametrize("kind", list(ForKind))
def test_loop_kinds_survive_a_rewrite(kind):
    loop = For(N, M, kind, Evaluate(N + M), "threadIdx.x", {"note": 1})
    new = substitute(loop, {M: const(7)})
    assert (new.kind, new.thread, new.annotations) == (kind, "threadIdx.x", {"note": 1})


def test_what_a_class_says_is_below_it_is_what_its_fields_hold():
    buffer = Buffer("a", (8,), "float32")
    load, on = Load(buffer, (N,)), Store(buffer, (N,), const(1.0))
    some = [
        N, const(1), Add(N, M), cast(N, "int64"), Call("exp", (load,)), Not(N < M), load,
        IfThenElse(N < M, load, load), Ramp(N, 1, 4), Broadcast(N, 4), Address(buffer, N),
        te.placeholder((8,))[N], For(N, M, ForKind.SERIAL, on), on, If(N < M, on),
        If(N < M, on, on), While(N < M, on), seq(on, on), Allocate(buffer, on), LetStmt(N, M, on),
        Evaluate(load), Barrier(), AsyncCopy(buffer, N, buffer, M, 16), AsyncCommit(),
        AsyncWait(1),
    ]  # fmt: skip
    for node in some:
        assert children(node) == among_fields(node)
    tried = {cls for node in some for cls in type(node).__mro__}
    assert {cls for cls in subclasses(Node) if says_what_is_below(cls)} <= tried


def subclasses(cls):
    return [each for sub in cls.__subclasses__() for each in (sub, *subclasses(sub))]


def says_what_is_below(cls):
    return cls.__module__.startswith("autotune.") and vars(cls).get("below", among_fields) is not (
        among_fields
    )


def test_fields_that_a_class_adds_to_those_of_another_are_below_it():
    class Guarded(Call):
        __slots__ = ("guard",)
        __match_args__ = ("name", "args", "dtype", "guard")

        def __init__(self, name, args, dtype, guard):
            super().__init__(name, args, dtype)
            self.guard = guard

    assert variables(Guarded("exp", (N,), "float32", M)) == [N, M]


def test_copies_that_share_a_part_are_walked_through_it_once():
    shared = Mul(N, M)
    total = Add(Add(shared, const(3)), shared)
    assert len([*walk(total)]) == 9
    assert [*walk_once(total)] == list(dict.fromkeys(walk(total)))


def test_visitors_of_statements_see_no_expression():
    class All(StmtVisitor):
        def visit_Var(self, node):
            raise AssertionError(node)

    buffer = Buffer("a", (8,), "float32")
    copy = AsyncCopy(buffer, N, buffer, M, 16)
    All().visit(If(N < M, seq(Store(buffer, (N,), const(1.0)), copy, Evaluate(Add(N, M)))))
