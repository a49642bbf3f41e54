"""Prototypes of entries, as far as they can be parsed without a compiler.

For messages that name parameters before anything is compiled. Whatever is not understood (a type
of the user's own, a macro with arguments, a function defined twice) is left to the compilers: see
`autotune.codegen.packed`, `autotune.runtime.compile.cubin` and the emulator's ``signature.h``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

ADDRESS = "address"

_COMMENT_OR_TEXT = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\(?)[ \t]*((?:\\\n|[^\n])*)$", re.MULTILINE)
# Lines of macros at the start of a text, in which no function and no long comment begins.
_KNOB_LINES = re.compile(r"(?:#define [^\n{*\\]*\n)*")
_UNDEFINE = re.compile(r"^[ \t]*#[ \t]*undef[ \t]+(\w+)", re.MULTILINE)
_TYPEDEF = re.compile(r"\btypedef\s+([\w\s*]+?)\s*\b(\w+)\s*;")
_USING = re.compile(r"\busing\s+(\w+)\s*=\s*([\w\s*:]+?)\s*;")
_OWN_TYPE = re.compile(r"\b(?:struct|class|union)\b[^;{}()]*?\b(\w+)\s*(?::[^;{}()]*)?\{")
_NAMES = re.compile(r"[A-Za-z_]\w*")
# What stands before a member, or before the rest of a longer name.
_BEFORE_USE = re.compile(r"[\w.>]")
# Statements that look like a function and its body.
_BLOCKS = frozenset({"if", "for", "while", "switch", "catch", "constexpr"})
_WORDS = re.compile(r"[A-Za-z_]\w*|::|[^\s\w]|\w+")
_QUALIFIERS = frozenset({
    "const", "volatile", "restrict", "__restrict", "__restrict__", "register", "struct",
    "__grid_constant__",
})  # fmt: skip
_STORAGE = _QUALIFIERS | {"static", "extern", "inline", "__constant__", "__device__", '"'}
_ALIGNMENT = re.compile(r"\b(?:alignas|_Alignas|__align__|__attribute__)\s*\(+[^()]*\)+")
# Names of types, their words in alphabetical order.
_TYPES = {
    "bool": "bool", "_Bool": "bool",
    "char": "int8", "char signed": "int8", "char unsigned": "uint8",
    "short": "int16", "int short": "int16", "short unsigned": "uint16",
    "int short unsigned": "uint16", "int": "int32", "int signed": "int32", "signed": "int32",
    "unsigned": "uint32", "int unsigned": "uint32", "uint": "uint32",
    "long": "int64", "int long": "int64", "long unsigned": "uint64", "int long unsigned": "uint64",
    "long long": "int64", "int long long": "int64", "long long unsigned": "uint64",
    "int long long unsigned": "uint64", "size_t": "uint64", "ptrdiff_t": "int64",
    "ssize_t": "int64", "float": "float32", "double": "float64",
    "half": "float16", "__half": "float16", "_Float16": "float16",
    "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16", "__bf16": "bfloat16",
    **{f"{s}int{bits}_t": f"{s}int{bits}" for s in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_KNOWN = {word for name in _TYPES for word in name.split()} | {"*", "std", "::", "void"}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function.

    Attributes:
        name: name of the parameter; empty if it has none.
        kind: the dtype of a number, or `ADDRESS`; empty if it was not understood.
        text: its text, in one line.
        sure: whether every word of it is known, so that no macro can hide a comma. What is sure
            and has no kind is a type that the text defines.
        pointee: the dtype of the elements to which an address points; empty if it was not
            understood, or is not a number.
    """

    name: str
    kind: str
    text: str
    sure: bool = True
    pointee: str = ""


def prototype(source: str, entry: str, flags: Sequence[str] = ()) -> tuple[Parameter, ...] | None:
    """Return the parameters of the function of this name that a source defines.

    None if there is no such function, or several that differ.

    Args:
        source: text in C or CUDA C++.
        entry: name of the function.
        flags: flags of the compiler, whose macros are known.
    """
    text = _plain(source, flags)
    names, own = _meanings(text), frozenset(_OWN_TYPE.findall(text))
    found = {
        tuple(_parameters(params, names, own)) for _, params, _, _ in _definitions(text, entry)
    }
    return found.pop() if len(found) == 1 else None


def element_kind(source: str, variable: str, flags: Sequence[str] = ()) -> str:
    """Return the dtype of a variable, or of its elements, that a source declares, or nothing.

    It is `ADDRESS` for pointers, and nothing where that is not understood, or several differ.

    Args:
        source: in C or CUDA C++.
        variable: its name.
        flags: see `prototype`.
    """
    text = _plain(source, flags)
    names = _meanings(text)
    kinds = set()
    for found in re.finditer(rf"(?<![^;{{}}])([^;{{}}]*?)\b{re.escape(variable)}\s*[\[;=]", text):
        lines = [line for line in found[1].splitlines() if not line.lstrip().startswith("#")]
        words = _WORDS.findall(_ALIGNMENT.sub(" ", "\n".join(lines)))
        before = text[: found.start()]
        # Others are variables of a function that have the same name.
        if "__constant__" in words or before.count("{") == before.count("}"):
            kinds.add(_kind([w for w in _expand(words, names) if w not in _STORAGE]))
    return kinds.pop() if len(kinds) == 1 else ""


def body_starts(source: str, entry: str) -> list[int]:
    """Return where the bodies of the functions of a name begin: behind each opening brace.

    Several where a preprocessor chooses among them; none where a macro makes the function.
    """
    head = knob_lines(source)
    return [head + start for start in _body_starts(source[head:], entry)]


def knob_lines(source: str) -> int:
    """Return where the lines of knobs at the start of a source end; trials share what follows."""
    found = _KNOB_LINES.match(source)
    return found.end() if found else 0


@lru_cache(maxsize=32)
def _body_starts(text: str, entry: str) -> tuple[int, ...]:
    """Return what `body_starts` does of a text, which trials share behind the lines of knobs."""
    blank = _COMMENT_OR_TEXT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return tuple(end + len(brace) for _, _, end, brace in _definitions(blank, entry))


def words_used(source: str, entry: str) -> set[str]:
    """Return the words in the body of a function, and in all functions and macros that it uses."""
    text = _plain(source, ())
    parts: dict[str, list[str]] = {}
    for found in _DEFINE.finditer(text):
        parts.setdefault(found[1], []).append(found[3])
    for name, _, end, brace in _definitions(text):
        if name not in _BLOCKS:
            body = text[end : _find_closing(text, end + len(brace), "{}")]
            parts.setdefault(name, []).append(body)
    known: set[str] = set()
    waiting = {entry}
    while waiting:
        name = waiting.pop()
        known.add(name)
        for part in parts.get(name, ()):
            waiting.update(set(_NAMES.findall(part)) - known)
    return known


def _plain(source: str, flags: Sequence[str]) -> str:
    """Return a source without comments and texts, and with the macros of the flags."""
    defined = "".join(
        f"#define {flag[2:].replace('=', ' ', 1)}\n" for flag in flags if flag.startswith("-D")
    )
    return defined + _COMMENT_OR_TEXT.sub(
        lambda found: " " if found[0][0] == "/" else '""', source
    )


def _meanings(text: str) -> dict[str, str]:
    """Return the meanings of macros and other names, without those that have two."""
    pairs = [(m[1], m[3]) for m in _DEFINE.finditer(text) if not m[2]]
    pairs += [(m[2], m[1]) for m in _TYPEDEF.finditer(text)]
    pairs += [(m[1], m[2]) for m in _USING.finditer(text)]
    unclear = {m[1] for m in _UNDEFINE.finditer(text)}
    unclear |= {m[1] for m in _DEFINE.finditer(text) if m[2]}
    names: dict[str, str] = {}
    for name, meaning in pairs:
        if names.setdefault(name, meaning.strip()) != meaning.strip():
            unclear.add(name)
    return {name: meaning for name, meaning in names.items() if name not in unclear}


def _definitions(text: str, entry: str | None = None) -> Iterator[tuple[str, str, int, str]]:
    """Yield of each definition its name, its parameters, the place behind them, and its brace.

    A definition is what has a body; with the brace comes the space before it. Without an ``entry``
    those of all names are meant, and statements such as ``if`` look like them.
    """
    name = r"\b[A-Za-z_]\w*" if entry is None else re.escape(entry)
    # What may not stand before a name is looked at last: a search for letters is a fast one.
    for found in re.finditer(rf"({name})\s*\(", text):
        if _BEFORE_USE.match(text, max(found.start() - 1, 0), found.start()):
            continue
        end = _find_closing(text, found.end())
        brace = re.compile(r"\s*\{").match(text, end) if end else None
        if brace:
            yield found[1], text[found.end() : end - 1], end, brace[0]


def _find_closing(text: str, start: int, pair: str = "()") -> int:
    """Return the place behind the parenthesis that closes one opened before ``start``, or 0."""
    depth = 1
    for found in re.compile(f"[{pair}]").finditer(text, start):
        depth += 1 if found[0] == pair[0] else -1
        if not depth:
            return found.end()
    return 0


def _parameters(text: str, names: Mapping[str, str], own: frozenset[str]) -> Iterator[Parameter]:
    if text.strip() in ("", "void"):
        return
    depth, start = 0, 0
    for i, letter in enumerate(f"{text},"):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and depth == 0:
            yield _parameter(text[start:i], names, own)
            start = i + 1


def _parameter(text: str, names: Mapping[str, str], own: frozenset[str]) -> Parameter:
    shown = " ".join(text.split())
    head, *extents = text.split("=", 1)[0].split("[", 1)
    words = _WORDS.findall(head)
    *kind, name = words or [""]
    if not name.isidentifier() or name in _TYPES or not set(kind) - _QUALIFIERS:
        kind, name = words, ""
    kind = _expand(kind, names)
    rest = [word for word in kind if word not in _QUALIFIERS]
    sure = all(word in _KNOWN or word in own for word in rest)
    found = ADDRESS if extents else _kind(rest)
    pointee = _pointee(rest, bool(extents)) if found == ADDRESS else ""
    return Parameter(name, found, shown, sure, pointee)


def _pointee(words: list[str], is_array: bool) -> str:
    """Return the dtype of what an address leads to; empty where that is another address."""
    stars = words.count("*")
    return _kind([word for word in words if word != "*"]) if stars + is_array == 1 else ""


def _expand(words: list[str], names: Mapping[str, str]) -> list[str]:
    for _ in range(8):
        longer = [w for word in words for w in _WORDS.findall(names.get(word, word))]
        if longer == words:
            break
        words = longer
    return words


def _kind(words: list[str]) -> str:
    if "*" in words and not set("(<&,") & set(words):
        return ADDRESS
    rest = words[2:] if words[:2] == ["std", "::"] else words
    return _TYPES.get(" ".join(sorted(rest)), "")
