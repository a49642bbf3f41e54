"""C functions that take all their arguments as one array of addresses.

The runtime calls kernels on the CPU through them: so numbers are handed over as the kernel's own
prototype says, and the compiler checks that prototype against the arguments.
"""

from __future__ import annotations

import re

from autotune.kernel.entry import c_text, identifier
from autotune.kernel.kernel import Argument, Kernel, KernelCall, Scalar, Workspace

# Numbers passed by value, in words of the language that need no header.
C_TYPES = {
    "bool": "_Bool", "int8": "signed char", "int16": "short", "int32": "int",
    "int64": "long long", "uint8": "unsigned char", "uint16": "unsigned short",
    "uint32": "unsigned int", "uint64": "unsigned long long", "float16": "_Float16",
    "bfloat16": "unsigned short", "float32": "float", "float64": "double",
}  # fmt: skip
# What does not arrive as it was passed is an error; that a sign is not looked at is none.
_STRICT = "".join(
    f'\n#pragma GCC diagnostic {verdict} "-W{name}"'
    for verdict, name in (
        ("error", "conversion"),
        ("error", "int-conversion"),
        ("error", "discarded-array-qualifiers"),
        ("error", "discarded-qualifiers"),
        ("ignored", "sign-conversion"),
    )
)


# In C++ an address has no pointer's type until it is told: that of the parameter.
_ADDRESS = """
struct autotune__address {
  void *held;
  template <class T> operator T *() const { return static_cast<T *>(held); }
};
"""


def packed_name(entry: str) -> str:
    """Return the name of the function that calls ``entry``."""
    return f"{identifier(entry)}__packed"


def filler_name(kernel: Kernel) -> str:
    """Return the name of the function that fills the constants of ``kernel``."""
    return f"{identifier(kernel.name)}__constants"


def is_cxx(kernel: Kernel) -> bool:
    """Return whether the text of a kernel for the CPU is C++, as the flag ``-x c++`` says."""
    return "c++" in re.findall(r"(?:^| )-x ?(\S+)", " ".join(kernel.flags))[-1:]


def packed_calls(kernel: Kernel, cxx: bool = False) -> str:
    """Return the text of these functions, to be put behind that of a C kernel, or a C++ one."""
    first = {one.entry: one for one in reversed(kernel.calls)}
    calls = "".join(_pack(kernel, one, cxx) for one in first.values())
    calls = (_ADDRESS if cxx else _STRICT) + calls
    if not kernel.constants:
        return calls
    filler = constants_filler(kernel, "static_assert" if cxx else "_Static_assert")
    return calls + (f'extern "C" {{\n{filler}}}\n' if cxx else filler)


def constants_filler(kernel: Kernel, static_assert: str) -> str:
    """Return the text of the function that copies to the variables of the constants.

    Args:
        kernel: whose constants; it takes their addresses in that order.
        static_assert: the language's word for it.
    """
    checks = "".join(
        f'{static_assert}(sizeof({a.name}) == {a.bytes}, "constant {a.name} has another size than '
        f'{a.dtype}{list(a.shape)}, {a.bytes} bytes");\n'
        for a in kernel.constants
    )
    about = c_text(f"autotune: the constants of {kernel.name}")
    copies = " ".join(
        f"__builtin_memcpy(&{a.name}, packed[{i}], {a.bytes});"
        for i, a in enumerate(kernel.constants)
    )
    return (
        f"\n#line 1 {about}\n"
        f"{checks}void {filler_name(kernel)}(void *const *packed) {{ {copies} }}\n"
    )


def _pack(kernel: Kernel, one: KernelCall, cxx: bool) -> str:
    values = ", ".join(_value(i, a, cxx) for i, a in enumerate(kernel.parameters(one)))
    linkage = 'extern "C" ' if cxx else ""
    return (
        # What the compiler shows as the file of an error says what is wrong.
        f'\n#line 1 "autotune: the source has no function {one.entry}"\n'
        # Not inlined, so that it is compiled as if nothing in this file called it; and hidden, for
        # the linker would prefer a function of another library with the same name (`wait`).
        f'__typeof__({one.entry}) {one.entry} __attribute__((noinline, visibility("hidden")));\n'
        f'#line 1 "autotune: the arguments of {one.entry}"\n'
        f"{linkage}void {packed_name(one.entry)}(void *const *packed) "
        f"{{ {one.entry}({values}); }}\n"
    )


def _value(index: int, argument: Argument | Workspace, cxx: bool) -> str:
    if isinstance(argument, Scalar):
        kind = "bool" if cxx and argument.dtype == "bool" else C_TYPES[argument.dtype]
        return f"*(const {kind} *)packed[{index}]"
    return f"autotune__address{{packed[{index}]}}" if cxx else f"packed[{index}]"
