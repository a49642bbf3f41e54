"""Rules by which a script replaces functions in expressions, for one kind of target each.

A rule gets the call and returns what stands in its place; a function that has no other meaning is
known by its rules alone. Lowering applies them to the statements of all stages, before its passes.
"""

from __future__ import annotations

from collections.abc import Callable

from autotune.errors import ExpressionError
from autotune.ir import Call, Expr, Stmt
from autotune.ir.base import as_expr
from autotune.ir.visitor import Rewriter

Rule = Callable[[Call], object]
# The rules of a function by what it is for: a language, or DEFAULT for every one that has none.
_RULES: dict[str, dict[str, tuple[int, Rule]]] = {}
DEFAULT = "default"


def add_rule(name: str, language: str, rule: Rule, level: int = 10) -> None:
    """Replace calls of a function by what a rule returns; of two rules the higher level counts.

    Args:
        name: of the function, as calls have it (``"exp"``).
        language: ``"c"`` or ``"cuda"``, or `DEFAULT`.
        rule: gets the call, and returns an expression, or the call itself to keep it.
        level: what was added later counts where levels are equal.
    """
    rules = _RULES.setdefault(name, {})
    if language not in rules or level >= rules[language][0]:
        rules[language] = level, rule


def is_known(name: str) -> bool:
    """Return whether a function has a rule, or was declared by `declare`."""
    return name in _RULES


def declare(name: str) -> None:
    """Let calls of a function be built, whose rules follow."""
    _RULES.setdefault(name, {})


def rules_for(language: str) -> dict[str, Rule]:
    """Return the rules that count for a language, by the names of functions."""
    found = {name: rules.get(language) or rules.get(DEFAULT) for name, rules in _RULES.items()}
    return {name: each[1] for name, each in found.items() if each is not None}


def by_rules(stmt: Stmt, language: str) -> Stmt:
    """Return a statement with what the rules for a language put in the place of calls."""
    rules = rules_for(language)
    return _ByRules(rules).rewrite(stmt) if rules else stmt


class _ByRules(Rewriter):
    def __init__(self, rules: dict[str, Rule]) -> None:
        self.rules = rules
        # What a rule returns may call the function itself, which is then meant.
        self.inside: set[str] = set()

    def visit_Call(self, node: Call) -> Expr:
        """Replace a call."""
        call = super().visit_Call(node)
        rule = self.rules.get(node.name)
        if rule is None or node.name in self.inside or not isinstance(call, Call):
            return call
        made = rule(call)
        if made is None or made is call:
            return call
        value = as_expr(made)
        if value.dtype != call.dtype:
            raise ExpressionError(
                f"the rule of {node.name!r} returned {value} of {value.dtype}; expected "
                f"{call.dtype}, the type of {call}"
            )
        self.inside.add(node.name)
        value = self.rewrite(value)
        self.inside.discard(node.name)
        return value
