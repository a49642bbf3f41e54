"""TVM's rules for functions in expressions: `register_intrin_lowering` and its older names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir import Call
from autotune.te.intrin_rules import DEFAULT, add_rule, declare
from autotune.utils.check import Check

__all__ = [
    "CallEffectKind",
    "register_intrin_lowering",
    "register_intrin_rule",
    "register_op_attr",
]

_PREFIX = "tir."
Rule = Callable[[Any], object]


class CallEffectKind:
    """What TVM's calls do besides returning a value; no call here is left out for it."""

    ExprAnnotation, Pure, ReadState, UpdateState = range(4)
    Opaque, SpecialCallArg, EmbedInfo, ControlJump = range(3, 7)


class _Op:
    """What a rule asks a call for: the name of the function."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Asked(Call):
    """A call as rules of TVM see it."""

    __slots__ = ()

    @property
    def op(self) -> _Op:
        """The function, with TVM's name of it."""
        return _Op(f"{_PREFIX}{self.name}")


def register_intrin_lowering(
    op_name: str, target: str = DEFAULT, f: Rule | None = None, level: int = 10
) -> Any:
    """Say what stands in the place of calls of a function, for one kind of target.

    Args:
        op_name: of the function, such as ``"tir.exp"``.
        target: ``"cuda"``, ``"llvm"``, ``"c"`` or ``"default"``; rules for others have no effect.
        f: gets the call, and returns an expression, or the call to keep it; None to decorate one.
        level: of two rules the one of the higher level counts.

    Raises:
        ExpressionError: ``op_name`` is no name.
    """
    name = Check(ExpressionError, "register_intrin_lowering").text("op_name", op_name, "tir.exp")
    plain = name.removeprefix(_PREFIX)

    def decorate(rule: Rule) -> Rule:
        declare(plain)
        languages = {"cuda": "cuda", "llvm": "c", "c": "c", DEFAULT: DEFAULT}
        if target in languages:
            add_rule(plain, languages[target], _seen_as_tvm_does(rule), level)
        return rule

    return decorate if f is None else decorate(f)


def _seen_as_tvm_does(rule: Rule) -> Rule:
    """Let a rule see TVM's name of a call; the call that it returns is the one it was given."""

    @functools.wraps(rule)  # hashes of kernels know a rule by its text
    def replaced(call: Call) -> object:
        asked = _Asked(call.name, call.args, call.dtype)
        made = rule(asked)
        return call if made is asked else made

    return replaced


def register_intrin_rule(
    target: str, intrin: str, f: Rule | None = None, override: bool = False
) -> Any:
    """Do as `register_intrin_lowering`, by the arguments of TVM up to 0.7."""
    return register_intrin_lowering(intrin, target, f, 11 if override else 10)


def register_op_attr(op_name: str, attr_key: str, value: object = None, level: int = 10) -> Any:
    """Declare a function, of which rules say what it is; attributes have no effect.

    Args:
        op_name: of the function, such as ``"tir.mylog"``.
        attr_key: of an attribute.
        value: of the attribute; None to decorate a function that is.
        level: accepted for TVM's scripts.
    """
    name = Check(ExpressionError, "register_op_attr").text("op_name", op_name, "tir.mylog")
    del attr_key, level
    if name.startswith(_PREFIX):
        declare(name.removeprefix(_PREFIX))
    return (lambda function: function) if value is None else value
