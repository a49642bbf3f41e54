"""The functions that a kernel calls and that are none of ours: something has to define them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from autotune.errors import LoweringError
from autotune.ir import Buffer, Call, Stmt
from autotune.ir.address import EXTERN, Address, addresses_in
from autotune.ir.structure import walk_once
from autotune.lowering import LoweredFunction
from autotune.te.declared_buffer import LOAD_WORD

_ASKED_FOR = (Call, Address)
# How names of functions begin that a compiler has itself.
_BUILT_IN = {"c": ("__builtin_",), "cuda": ("__", "atomic")}
# Functions of numbers that C and CUDA have, and `te` has not; with an f for float.
_OF_BOTH = (
    "cbrt", "erfc", "exp10", "expm1", "fdim", "fma", "fmax", "fmin", "ilogb", "j0", "j1", "ldexp",
    "lgamma", "llrint", "llround", "logb", "lrint", "lround", "nextafter", "pow", "remainder",
    "rint", "scalbn", "tgamma", "y0", "y1",
)  # fmt: skip
_OF_CUDA = ("cospi", "erfcinv", "erfinv", "normcdf", "rcbrt", "sinpi")
_ENDS = ("", "f")
OF_NUMBERS = {name + end for name in _OF_BOTH for end in _ENDS} | {"abs", "labs", "llabs"}
_OF_LANGUAGES = {"cuda": OF_NUMBERS | {name + end for name in _OF_CUDA for end in _ENDS}}


def calls_and_addresses(stmt: Stmt) -> list[Call | Address]:
    """Return all calls in a statement, and all addresses: what printing a kernel asks for."""
    return [node for node in walk_once(stmt) if isinstance(node, _ASKED_FOR)]


def functions_called(
    function: LoweredFunction, kernels: Iterable[Iterable[Call | Address]]
) -> list[str]:
    """Return the names of the functions that a function calls, none of which is ours.

    Args:
        function: which text it imports, and how the language is called.
        kernels: what `calls_and_addresses` finds in each of its kernels.

    Raises:
        LoweringError: neither a text that it imports nor the compiler defines one of them.
    """
    own = _BUILT_IN.get(function.target_kind, ())
    called = _called(node for nodes in kernels for node in nodes)
    numeric = _OF_LANGUAGES.get(function.target_kind, OF_NUMBERS)
    for name in called:
        words = (re.search(rf"\b{re.escape(name)}\b", text) for text in function.imports)
        if not name.startswith(own) and name not in numeric and not any(words):
            raise LoweringError(
                f"{function.name}: calling {name!r}: te has no such function, and no text that is "
                "imported defines it; give its text by s[C].pragma(axis, 'import_c', text)"
            )
    return called


def buffers_in_words(nodes: Iterable[Call | Address]) -> set[Buffer]:
    """Return the buffers whose elements are read by words of several."""
    words = (n for n in nodes if isinstance(n, Call) and n.name == LOAD_WORD)
    return {each.buffer for each in addresses_in(*words)}


def _called(nodes: Iterable[Call | Address]) -> list[str]:
    found: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, Call) and node.name.startswith(EXTERN):
            found[node.name.removeprefix(EXTERN)] = None
    return list(found)
