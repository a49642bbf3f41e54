"""The text of a kernel without comments and layout, by which kernels are compared.

Texts that differ in more must stay different, so everything is kept that might not be a comment. A
text with a construct that compilers interpret differently, or whose meaning depends on its layout,
is left unchanged.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import groupby, repeat

_LETTER = r"\w$\x80-\U0010ffff"
_DIGITS = rf"(?:[eEpP][+-]|[{_LETTER}.])*"
# Where a number begins, behind its first character; it goes on behind a ' between digits (C++14).
_NUMBER = rf"(?:(?<=\.)[0-9]|(?<=[0-9])(?<![{_LETTER}].)){_DIGITS}"
_MORE = rf"(?:'[0-9A-Za-z_]{_DIGITS})"
_BLANKS = re.compile(r"  +")
_UNSURE = re.compile(
    r'R"'  # raw strings, in which nothing is a comment
    r"|\?\?"  # trigraphs, which may be a backslash or a part of an operator
    r"|[\r\v\f\0]"  # blanks or ends of lines, as compilers see fit
    r"|\\[ \t]+\n"  # joins lines for some
    r"|__LINE__|__builtin_LINE|source_location"
    # Names of headers with quotes, comments or backslashes in them.
    r"|(?:\#|%:)[^\n]*(?:include|import|embed)[^\n]*?(?:<[^\n>]*(?://|/\*|[\"'])|\\)"
)
# Between the knobs of a `SourceKernel`, which differ by trial, and its text, which does not.
FIRST_LINE = "\n#line 1\n"


@cache
def _part() -> re.Pattern[str]:
    # On first use: a builder's process needs none, and to compile it takes a tenth of its start.
    # One class of characters comes first, which makes the search fast. Nothing follows a comment
    # that could make it match more or less than to its end.
    return re.compile(
        r"""["'/\\.0-9](?:"""
        r"(?P<comment>(?<=/)(?:/[^\n]*|\*[^*]*\*+(?:[^*/][^*]*\*+)*/))"
        r"""|(?<=")(?:[^"\\\n]|\\[^\n])*"|(?<=')(?:[^'\\\n]|\\[^\n])*'"""
        # A comment or a quote that does not end, or behind a number; a backslash that joins no
        # lines.
        rf"""|(?P<unsure>(?<=/)\*|(?<=["'\\])|{_NUMBER}{_MORE}*'(?![0-9A-Za-z_]))"""
        rf"|{_NUMBER}{_MORE}+)",
        re.DOTALL,
    )


def without_comments(text: str) -> str:
    """Return a text in C, C++ or CUDA C++ without comments, and with one blank for any layout.

    Lines stay apart where one of them is a preprocessor directive. Blanks between tokens are
    never added nor taken away altogether, so that macros make the same texts of their arguments.
    """
    knobs, mark, body = text.partition(FIRST_LINE)
    lines = knobs.split("\n") if mark else [""]
    front = [None if line.rstrip().endswith("\\") else _line(line) for line in lines]
    if not mark or None in front:
        front, mark, body = [], "", text
    rest = _body(body)
    return "\n".join(filter(None, front)) + mark + (body if rest is None else rest)


def _stripped(text: str) -> str | None:
    """Return what is left of a text; None where that is not sure."""
    # Lines are joined before comments and literals are looked for, as compilers do.
    joined = text.replace("\r\n", "\n").replace("\\\n", "")
    if _UNSURE.search(joined):
        return None
    parts: list[str] = []
    code: list[str] = []
    end = 0
    for found in _part().finditer(joined):
        kind = found.lastgroup
        if kind == "unsure":
            return None
        code.append(joined[end : found.start()])
        end = found.end()
        if kind == "comment":
            code.append(" ")
        else:
            parts += _one_blank("".join(code)), found[0]
            code = []
    rest = _one_blank("".join([*code, joined[end:]]))
    rows = [row for row in map(str.strip, "".join([*parts, rest]).split("\n"), repeat(" ")) if row]
    groups = groupby(rows, lambda row: row.startswith(("#", "%:")))
    return "\n".join(["\n".join(some) if apart else " ".join(some) for apart, some in groups])


# The trials of a template have most of their text in common, and many of the lines before it.
_body = lru_cache(maxsize=64)(_stripped)
_line = lru_cache(maxsize=4096)(_stripped)


def _one_blank(code: str) -> str:
    return _BLANKS.sub(" ", code.replace("\t", " "))
