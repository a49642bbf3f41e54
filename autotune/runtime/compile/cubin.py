"""A reader of CUDA binaries: the symbols and parameters of kernels, and variables.

The parameters of each kernel are in its section ``.nv.info.<kernel>``, a list of attributes as
``cuobjdump -elf`` prints it: two bytes of kind and number, then two bytes that hold a value or the
length of the following data.
"""

from __future__ import annotations

import re
import struct

from autotune.errors import CompileError
from autotune.kernel.entry import c_text, declaration_advice, is_expression, plain_name
from autotune.kernel.kernel import Constant, Kernel, KernelCall, Scalar, item_bytes
from autotune.kernel.prototype import prototype
from autotune.kernel.signature import count_mismatch, describe_argument
from autotune.runtime.compile.elf import MARK, functions, sections, symbol_sizes

_INFO = ".nv.info."
_HAS_LENGTH = 4
# EIATTR_KPARAM_INFO: index, ordinal, offset, and a word with the size in its upper 14 bits.
_PARAMETER, _PARAMETER_LAYOUT = 0x17, struct.Struct("<IHHI")
# EIATTR_KPARAM_INFO_V2, of kernels with more than 4 KB of parameters: the size in 16 bits.
_LARGE_PARAMETER, _LARGE_LAYOUT = 0x45, struct.Struct("<IHHHH")
_ADDRESS_BYTES = 8
_SUBSTITUTION = re.compile(r"S[0-9A-Z]*_")


def marks(kernel: Kernel) -> str:
    """Return the text that has the entries named as C++ names them instantiated and findable."""
    lines = [
        f"template __global__ void {MARK}<{i}, {entry}>();\n"
        for i, entry in enumerate(_expressions(kernel))
    ]
    if not lines:
        return ""
    head = f"template <int, auto> __global__ void {MARK}() {{}}\n"
    about = c_text(f"autotune: the entries of {kernel.name}")
    return f"\n#line 1 {about}\n" + "".join([head, *lines])


def symbols(kernel: Kernel, cubin: bytes) -> dict[str, str]:
    """Return the symbol of each entry of ``kernel``.

    Raises:
        CompileError: an entry is missing, or has an unexpected C++ name.
        ValueError: the file is not an ELF file.
    """
    there = functions(cubin)
    expressions = _expressions(kernel)
    found = {}
    for entry in dict.fromkeys(one.entry for one in kernel.calls):
        match = entry if entry in there else None
        if entry in expressions:
            match = _marked(expressions.index(entry), there)
        if match is None:
            own = [name for name in there if MARK not in name]
            raise CompileError(
                f"kernel {kernel.name!r}: the source has no kernel {entry!r}, it has "
                f"{', '.join(own) or 'none'}; {declaration_advice(entry)}"
            )
        found[entry] = match
    return found


def instance_symbols(kernel: Kernel, cubin: bytes) -> dict[str, str]:
    """Return the symbols of a kernel's entries; empty if each is the name of the entry.

    Raises:
        CompileError: an instance of a C++ template is missing.
    """
    return symbols(kernel, cubin) if _expressions(kernel) else {}


def _expressions(kernel: Kernel) -> list[str]:
    return [e for e in dict.fromkeys(one.entry for one in kernel.calls) if is_expression(e)]


def _marked(number: int, there: list[str]) -> str | None:
    """Return the function whose name a mark holds.

    Names within names refer to their own earlier parts by other numbers (Itanium C++ ABI, 5.1.10).
    """
    prefix = f"_Z{len(MARK)}{MARK}ILi{number}EXadL"
    marked = [_SUBSTITUTION.sub("S_", name) for name in there if name.startswith(prefix)]
    wanted = [name.removeprefix(prefix).removesuffix("EEEvv") for name in marked]
    fitting = [name for name in there if _SUBSTITUTION.sub("S_", name) in wanted]
    return fitting[0] if len(fitting) == 1 else None


def check_cubin(kernel: Kernel, cubin: bytes) -> dict[str, str]:
    """Check, without a device, that ``kernel`` can be launched from a cubin.

    Returns:
        The symbol of each entry.

    Raises:
        CompileError: an entry or a constant is missing or differs from the kernel's description;
            or the file is not a cubin.
    """
    try:
        found = symbols(kernel, cubin)
        sizes = parameter_sizes(cubin)
        variables = symbol_sizes(cubin)
    except ValueError as error:
        raise CompileError(
            f"kernel {kernel.name!r}: the compiler wrote no cubin: {error}; leave out flags that "
            "ask for another output"
        ) from error
    wrong = [_mismatch(kernel, one, sizes.get(found[one.entry])) for one in kernel.calls]
    wrong += [_constant_mismatch(a, variables.get(a.name)) for a in kernel.constants]
    if message := next(filter(None, wrong), None):
        raise CompileError(f"kernel {kernel.name!r}: {message}")
    return found


def parameter_sizes(cubin: bytes) -> dict[str, tuple[int, ...]]:
    """Return the bytes of each parameter of each kernel in a cubin, in order.

    Raises:
        ValueError: the file is not an ELF file.
    """
    return {
        s.name.removeprefix(_INFO): _sizes(s.content)
        for s in sections(cubin)
        if s.name.startswith(_INFO)
    }


def _sizes(info: bytes) -> tuple[int, ...]:
    found: dict[int, int] = {}
    at = 0
    while at + 4 <= len(info):
        form, attribute, length = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != _HAS_LENGTH:
            continue
        if attribute == _PARAMETER:
            _, ordinal, _, word = _PARAMETER_LAYOUT.unpack_from(info, at)
            found[ordinal] = word >> 18
        elif attribute == _LARGE_PARAMETER:
            _, ordinal, _, size, _ = _LARGE_LAYOUT.unpack_from(info, at)
            found[ordinal] = size
        at += length
    return tuple(found[ordinal] for ordinal in sorted(found))


def _mismatch(kernel: Kernel, one: KernelCall, sizes: tuple[int, ...] | None) -> str | None:
    if sizes is None:  # a cubin without this information
        return None
    written = prototype(kernel.source, plain_name(one.entry), kernel.flags) or ()
    known = [f"`{p.text}`" for p in written] if len(written) == len(sizes) else []
    passed = kernel.parameters(one)
    if len(sizes) != len(passed):
        return count_mismatch(kernel, one, known or [f"{size} bytes" for size in sizes])
    for i, (size, argument) in enumerate(zip(sizes, passed, strict=True)):
        scalar = isinstance(argument, Scalar)
        if size != (item_bytes(argument.dtype) if scalar else _ADDRESS_BYTES):
            where = f", {known[i]}" if known else ""
            return (
                f"entry {one.entry!r}: parameter {i + 1}{where}: expected "
                f"{describe_argument(argument)}, the source takes {size} bytes"
            )
    return None


def _constant_mismatch(constant: Constant, size: int | None) -> str | None:
    wanted = f"{constant.dtype}{list(constant.shape)}, {constant.bytes} bytes"
    if size is None:
        return (
            f"constant {constant.name!r}: expected `__constant__` memory of that name ({wanted}), "
            "the source has none outside of all functions and namespaces"
        )
    if size != constant.bytes:
        return f"constant {constant.name!r}: expected {wanted}, the source has {size} bytes"
    return None
