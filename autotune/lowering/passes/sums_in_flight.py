"""Products of warpgroups in flight: their sums, the waits for these, and fences before them."""

from __future__ import annotations

from autotune.ir.expr import Call, IntImm, Load
from autotune.ir.stmt import Barrier, Evaluate, Seq, Stmt, Store, seq
from autotune.ir.structure import walk_once, walk_statements
from autotune.ir.visitor import StmtRewriter
from autotune.lowering.passes.draft import Draft

FENCE, COMMIT, WAIT, SUMS = "wgmma_fence", "wgmma_commit", "wgmma_wait", "wgmma_sums"
_SHOW = "wgmma_show"


def insert_proxy_fences(stmt: Stmt, draft: Draft) -> Stmt:
    """Puts ``fence.proxy.async`` before barriers of kernels with ``wgmma``, which reads stores."""
    return _ProxyFences().rewrite(stmt) if draft.gpu and multiplies(stmt) else stmt


def multiplies(stmt: Stmt) -> bool:
    """Returns whether a statement contains ``wgmma``."""
    effects = (node.value for node in walk_statements(stmt) if isinstance(node, Evaluate))
    return any(isinstance(each, Call) and each.name == FENCE for each in effects)


def waited(pending: int) -> Stmt:
    """Returns the wait until at most ``pending`` groups of ``wgmma`` are in flight."""
    return effect(WAIT, pending)


def without_waits(stmt: Stmt) -> tuple[Stmt, Stmt]:
    """Returns a statement without its waits for ``wgmma``, and these waits."""
    taken = _TakeWaits()
    return taken.rewrite(stmt), seq(*taken.waits)


def after_first_group(stmt: Stmt) -> tuple[Stmt, Stmt] | None:
    """Returns the first of several groups of ``wgmma``, and the rest; None if there is one."""
    stmts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
    ends = [i for i, each in enumerate(stmts) if _is_commit(each)]
    if len(ends) < 2:
        return None
    return seq(*stmts[: ends[0] + 1]), seq(*stmts[ends[0] + 1 :])


def _is_commit(stmt: Stmt) -> bool:
    call = stmt.value if isinstance(stmt, Evaluate) else None
    return isinstance(call, Call) and call.name == COMMIT


def uses_sums(stmt: Stmt) -> bool:
    """Returns whether a statement stores or reads sums of ``wgmma`` otherwise than by products."""
    calls = [node for node in walk_once(stmt) if isinstance(node, Call) and node.name == SUMS]
    sums = {load.buffer for call in calls for load in call.args[:1] if isinstance(load, Load)}
    stores = [node for node in walk_statements(stmt) if isinstance(node, Store)]
    values = walk_once(*[store.value for store in stores])
    read = {node.buffer for node in values if isinstance(node, Load)}
    return not sums.isdisjoint(read.union(store.buffer for store in stores))


def effect(name: str, *arguments: int) -> Stmt:
    """Returns a call for its effect."""
    return Evaluate(Call(name, tuple(map(IntImm, arguments)), "int32"))


class _TakeWaits(StmtRewriter):
    """Removes the waits for ``wgmma`` from statements, and keeps them."""

    def __init__(self) -> None:
        self.waits: list[Stmt] = []

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        """Remove a wait, unless it is for registers that instructions of the group before read."""
        if not isinstance(node.value, Call) or node.value.name not in (WAIT, SUMS):
            return node
        pending = node.value.args[0]
        if node.value.name == WAIT and isinstance(pending, IntImm) and pending.value:
            return node
        self.waits.append(node)
        return seq()


class _ProxyFences(StmtRewriter):
    """Puts the fence of the asynchronous proxy before each barrier."""

    def visit_Barrier(self, node: Barrier) -> Stmt:
        """Put the fence before a barrier."""
        return seq(effect(_SHOW), node) if node.scope == "shared" else node
