"""C identifiers for the functions, sizes and files of an exported project."""

from __future__ import annotations

import keyword
import re
import sys
import zlib
from collections.abc import Collection, Sequence

from autotune.errors import KernelError

_LONGEST = 80
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_C_WORDS = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if
    inline int long main register restrict return short signed sizeof static struct switch
    typedef union unsigned void volatile while values shapes stream function status
    """.split()  # noqa: SIM905
)


# What a C++ program that includes the header cannot have as a name.
_CPP_WORDS = frozenset(
    """
    alignas alignof and asm bool catch char16_t char32_t char8_t class concept constexpr
    const_cast decltype delete dynamic_cast explicit export false friend mutable namespace new
    noexcept not nullptr operator or private protected public reinterpret_cast requires
    static_assert static_cast template this thread_local throw true try typeid typename using
    virtual wchar_t xor
    """.split()  # noqa: SIM905
)
# Packages that a package of the same name would hide from programs that use it.
_PACKAGES = frozenset({"autotune", "cupy", "numpy", "torch"}) | sys.stdlib_module_names
_TAKEN = _C_WORDS | _CPP_WORDS | frozenset(keyword.kwlist) | _PACKAGES


def library_name(name: str) -> str:
    """Return the name of a library.

    Raises:
        KernelError: it is none that files, functions of C and modules of Python can have.
    """
    if not _NAME.fullmatch(name) or name in _TAKEN or len(name) > _LONGEST:
        raise KernelError(
            "export: name: expected letters, digits and underscores, no word of C, C++ or Python "
            f"and no module's name that others rely on, got {name!r}; give another by --name"
        )
    return name


def c_name(parts: Sequence[object]) -> str:
    """Return a name made of words and numbers, which may be nested."""
    words = [word for part in parts for word in _words(part)]
    return re.sub(r"_+", "_", "_".join(words)).strip("_")


def unique_names(
    prefix: str,
    wanted: Sequence[Sequence[object]],
    identities: Sequence[str],
    taken: Collection[str] = (),
) -> list[str]:
    """Return a name for each, made of its parts; those that would be equal or long get a hash.

    Args:
        prefix: what all names begin with; may be empty.
        wanted: the parts of each name.
        identities: what tells each from all others; the hash is made of it.
        taken: names that others have.
    """
    plain = [c_name([prefix, *parts] if prefix else parts) for parts in wanted]
    names = []
    for name, identity in zip(plain, identities, strict=True):
        if plain.count(name) > 1 or len(name) > _LONGEST or name in taken:
            name = f"{name[:_LONGEST]}_{zlib.crc32(identity.encode()):08x}"
        names.append(name)
    return names


def argument_names(names: Sequence[str]) -> list[str]:
    """Return names of parameters; what C does not take is changed."""
    made: list[str] = []
    for name in names:
        word = re.sub(r"\W", "_", name)
        word = f"{word}_" if word in _C_WORDS | _CPP_WORDS or not _NAME.fullmatch(word) else word
        while word in made:
            word += "_"
        made.append(word if not word.startswith("_") else f"a{word}")
    return made


def _words(part: object) -> list[str]:
    if isinstance(part, (tuple, list)):
        return [word for each in part for word in _words(each)]
    if isinstance(part, float):
        return [re.sub(r"\W", "_", repr(part))]
    return [re.sub(r"[^A-Za-z0-9_]", "_", str(part))]
