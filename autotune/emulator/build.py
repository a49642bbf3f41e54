"""Translates a CUDA kernel to C++ for the CPU, and compiles it to a shared library."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from autotune.codegen.packed import constants_filler, packed_name
from autotune.emulator.check_flags import CHECK_FLAGS
from autotune.emulator.inline_ptx import with_ptx
from autotune.emulator.precompiled import INCLUDE, header_digest, precompiled
from autotune.errors import CompileError, KernelError
from autotune.kernel.comments import FIRST_LINE, without_comments
from autotune.kernel.entry import c_text, declaration_advice, identifier, is_expression
from autotune.kernel.kernel import Kernel, KernelCall, Scalar, item_bytes
from autotune.kernel.signature import describe_argument
from autotune.utils.compiler_flags import parse_flags

# nvcc's flags that the host's compiler is given -> how it spells them.
_KEPT = {
    "-D": "-D", "--define-macro": "-D", "-U": "-U", "--undefine-macro": "-U",
    "-I": "-I", "--include-path": "-I", "-isystem": "-isystem", "--system-include": "-isystem",
}  # fmt: skip

# `extern __shared__ float tile[];`, in any order of its words and with or without an alignment.
_DYNAMIC_SHARED = re.compile(
    r"\bextern\s+(?P<before>[^;{}]*?)\b__shared__\s+(?P<type>[^;{}\[\]]*?)"
    r"\b(?P<name>\w+)\s*\[\s*\]\s*;"
)
# Of the words between `__global__` and a kernel's name those that say nothing of clusters.
_NOT_CLUSTERS = re.compile(r"\b(?:void|static|inline|extern)\b|\"C\"|__attribute__\s*\(\(.*?\)\)")
# Before that word, where other macros may stand for anything.
_CLUSTERS = re.compile(r"\b__cluster_dims__\s*\((?:[^()]|\([^()]*\))*\)")
_HEADERS = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(<[^>\n]+>)", re.M)
_DIRECTIVE = re.compile(r"^\s*#.*$", re.MULTILINE)
# In knobs what may belong to the text behind them: comments, operands of its asm statements.
_BEYOND_KNOBS = re.compile(r'/\*|"')
_ALIGNMENT = re.compile(r"\b(?:__align__|alignas)\s*\(\s*\w+\s*\)")


def emulated(kernel: Kernel, arch: str = "sm_80") -> Kernel:
    """Return the C++17 kernel for the CPU that does what a CUDA kernel does.

    It has the same arguments and workspace; grid, block and shared memory of each call are part
    of its text, so its entries are plain functions of their arguments' addresses, see
    `autotune.codegen.packed`. The library made of it also has

    - ``const char* autotune_fault(void)``: what went wrong since it was last asked (a race, a
      divergent barrier, an access out of bounds, a trap), or NULL;
    - ``void autotune_emulation(int order, int checked)``: in which order threads take turns (0
      first to last, 1 last to first, else the seed of a random order), and whether memory is
      watched. Results must not depend on either;
    - ``void autotune_emulation_limit(double seconds)``: after how many seconds of processor time
      in which no thread exits a launch is ended, with a report; 60, and never for 0;
    - ``void autotune_emulation_stop(const volatile char* flag)``: a byte, perhaps of memory that
      another process shares (`autotune.emulator.stop`), that ends a launch while it is not 0.

    Args:
        kernel: a CUDA kernel, generated or hand-written.
        arch: what ``__CUDA_ARCH__`` says.

    Raises:
        KernelError: it is not a CUDA kernel, or not to be found where clusters are declared.
    """
    return emulated_together([kernel], arch)[0]


def emulated_together(
    kernels: Sequence[Kernel],
    arch: str = "sm_80",
    checked: bool = True,
    device_text: bool = False,
) -> list[Kernel]:
    """Return kernels that share one text, which is compiled once for all of them.

    For many small generated kernels. Hand-written ones may clash, as each sees the macros of those
    before it. Entry names must differ.

    Args:
        kernels: as for `emulated`, which has one.
        arch: what ``__CUDA_ARCH__`` says.
        checked: watch every memory access; about three times slower to run.
        device_text: leave ``AUTOTUNE_EMULATE`` undefined, so that what runs is the text that runs
            on a device, inline PTX and all, and none of what stands in for it in the emulator.

    Raises:
        KernelError: an entry name is used twice, or a kernel is not CUDA.
    """
    seen: set[str] = set()
    for kernel in kernels:
        if kernel.language != "cuda":
            raise KernelError(
                f"kernel {kernel.name!r}: only CUDA text is emulated, this is {kernel.language!r}"
            )
        entries = {one.entry for one in kernel.calls}
        if seen & entries:
            raise KernelError(
                f"emulated together: two kernels have an entry {min(seen & entries)!r}"
            )
        seen |= entries
    digits = re.sub(r"\D", "", arch) or "80"
    flags = [*common_flags(checked), f"-D__CUDA_ARCH__={digits}0"]
    # The user's folders are behind the emulator's, whose headers stand for the toolkit's.
    flags += dict.fromkeys(flag for kernel in kernels for flag in _kept(kernel.flags))
    source = "".join(_unit(kernels, device_text))
    return [
        replace(
            kernel, language="c", source=source, flags=tuple(flags), calls=tuple(_calls(kernel))
        )
        for kernel in kernels
    ]


def _kept(flags: Sequence[str]) -> Iterator[str]:
    """Yield nvcc's flags that say something of the text, each one word in the host's spelling."""
    for flag in parse_flags(flags, _KEPT):
        if flag.name in _KEPT:
            yield f"{_KEPT[flag.name]}{flag.value}"


def common_flags(checked: bool = True) -> tuple[str, ...]:
    """Return the flags that all emulated kernels have, whatever macros come with them.

    The architecture is such a macro: the header, precompiled with these flags, knows none.
    """
    checks = CHECK_FLAGS if checked else ()
    return ("-pthread", "-w", "-g1", "-fno-strict-aliasing", f"-I{INCLUDE}", *checks)


def _unit(kernels: Sequence[Kernel], device_text: bool) -> Iterator[str]:
    """Yield the parts of the text of some kernels."""
    yield f'// emulator {header_digest()}\n#include "autotune_emulator.h"\n'
    if device_text:
        yield "#undef AUTOTUNE_EMULATE\n"
    if len(kernels) > 1:  # else the namespace of the first would have what a header declares
        headers = dict.fromkeys(h for kernel in kernels for h in _HEADERS.findall(kernel.source))
        yield from (f"#if __has_include({h})\n#include {h}\n#endif\n" for h in headers)
    for i, kernel in enumerate(kernels):
        entries = list(dict.fromkeys(one.entry for one in kernel.calls))
        if len(kernels) > 1:
            yield f"namespace emulated_{i} {{\n"
        plain = [entry for entry in entries if not is_expression(entry)]
        yield from (f"#define {entry} {entry}__device\n" for entry in plain)
        yield f'#line 1 "{identifier(kernel.name)}.cu"\n{_on_host(kernel.source)}\n'
        yield from (f"#undef {entry}\n" for entry in plain)
        yield from map(_declaration, entries)
        for one in kernel.calls:
            yield from _signature(kernel, one)
        yield '#line 1 "emulation"\n'
        yield from _entries(kernel)
        if kernel.constants:
            yield f'extern "C" {{\n{constants_filler(kernel, "static_assert")}}}\n'
        if len(kernels) > 1:
            yield "}\n"


def _device(entry: str) -> str:
    """Return the C++ expression of the kernel that is launched as ``entry``."""
    return entry if is_expression(entry) else f"{entry}__device"


def _declaration(entry: str) -> str:
    """Return a declaration that only fits a kernel that can be launched by that name.

    What to write instead stands where the compiler names the file or the failed condition.
    """
    advice = f"the source has no kernel {entry!r}; {declaration_advice(entry)}"
    if is_expression(entry):  # of an instance no compiler tells whether it is a kernel
        condition = f"sizeof(decltype(&{entry})) > 0"
        return f'#line 1 {c_text(f"autotune: {advice}")}\nstatic_assert({condition}, "");\n'
    device = _device(entry)
    return (
        f'#line 1 {c_text(f"autotune: {advice}")}\nextern "C" decltype({device}) {device};\n'
        f"static_assert(EMULATOR_IS_KERNEL({device}), {c_text(advice)});\n"
    )


# The kinds of signature.h; those of other dtypes are "integer".
_KINDS = {
    "float32": "real", "float64": "real", "float16": "half", "bfloat16": "bfloat16",
    "bool": "truth",
}  # fmt: skip


def _signature(kernel: Kernel, one: KernelCall) -> Iterator[str]:
    """Yield conditions that only hold if the kernel takes what the call passes."""
    passed = kernel.parameters(one)
    taken = f"emulator::Signature<decltype(&{_device(one.entry)})>"
    names = ", ".join(map(describe_argument, passed)) or "none"
    message = c_text(f"expected {len(passed)} parameters ({names})")
    yield f"#line 1 {c_text(f'autotune: entry {one.entry!r}')}\n"
    yield f"static_assert({taken}::count == {len(passed)}, {message});\n"
    for i, argument in enumerate(passed):
        kind = "address"
        if isinstance(argument, Scalar):
            kind = _KINDS.get(argument.dtype, "integer")
        size = item_bytes(argument.dtype)
        message = c_text(f"parameter {i + 1}: expected {describe_argument(argument)}")
        fits = f"{taken}::takes({i}, emulator::Kind::{kind}, {size})"
        yield f"static_assert({fits}, {message});\n"


def _calls(kernel: Kernel) -> Iterator[KernelCall]:
    """Yield the calls with an entry name of its own each, as each bakes in its launch."""
    seen: dict[str, int] = {}
    for one in kernel.calls:
        again = seen[one.entry] = seen.get(one.entry, -1) + 1
        name = identifier(one.entry)
        yield replace(one, entry=f"{name}__{again}" if again else name)


def _entries(kernel: Kernel) -> Iterator[str]:
    """Yield the C function of each call; there `__cluster_dims__` is a call, no attribute."""
    name = "__cluster_dims__"
    clusters = name in kernel.source
    if clusters:
        yield f'#pragma push_macro("{name}")\n#undef {name}\n#define {name} .of\n'
    for one, before in zip(_calls(kernel), kernel.calls, strict=True):
        yield _entry(kernel, one, before.entry)
    if clusters:
        yield f'#pragma pop_macro("{name}")\n'


def _entry(kernel: Kernel, one: KernelCall, before: str) -> str:
    """Return the C function that runs one call: it knows the launch and the arguments."""
    written = {a.name: a.role != "in" for a in kernel.args}
    about = ", ".join(
        f"{{{c_text(a.name)}, {item_bytes(a.dtype) if isinstance(a, Scalar) else a.bytes}, "
        f"{item_bytes(a.dtype)}, "
        f"{str(written.get(a.name, True)).lower()}}}"
        for a in kernel.parameters(one)
    )
    grid, block = (", ".join(map(str, e)) for e in (one.launch.grid, one.launch.block))
    # A constant: what a host thread computes here, another's launch would take for its own.
    device, cluster = _device(before), _cluster(kernel, before)
    return (
        f'extern "C" EMULATOR_RAW void {packed_name(one.entry)}(void** args) {{\n'
        f"  static const emulator::Argument about[] = {{{about}}};\n"
        f"  static constexpr emulator::Cluster cluster = {cluster};\n"
        f"  emulator::launch({{args, about, {len(one.args)}, {{{grid}}}, {{{block}}}, "
        f"{one.launch.shared_bytes}, cluster}},\n"
        f"                   [] {{ emulator::call_kernel({device}); }});\n}}\n"
    )


def _cluster(kernel: Kernel, entry: str) -> str:
    """Return the shape of a kernel's clusters, as it is declared.

    An attribute with a value cannot be asked for that, so what stands before the kernel's name is
    put where `__cluster_dims__`, in whatever macro, is a call that takes it; see `_entries`.
    """
    shape = "emulator::Cluster()\n"
    if "__cluster_dims__" not in kernel.source:
        return shape
    source = _DIRECTIVE.sub(";", without_comments(kernel.source))
    name = entry.partition("<")[0].strip()
    found = [*re.finditer(rf"\b__global__\b([^;{{}}]*?)\b{re.escape(name)}\s*\(", source)]
    if not found:
        raise KernelError(
            f"kernel {kernel.name!r}: the emulator finds no `__global__ ... {name}(` in the "
            "source, and so not whether it has __cluster_dims__; declare it without a macro"
        )
    for one in found:
        begin = max(source.rfind(end, 0, one.start()) for end in ";{}")
        words = _CLUSTERS.findall(source, begin + 1, one.start())
        words.append(_NOT_CLUSTERS.sub(" ", one[1]).strip())
        shape += "".join(f"{each}\n" for each in words)
    return shape


def _on_host(source: str) -> str:
    """Rewrite what no macro can: asm statements, and declarations of shared memory.

    Knobs differ by trial, the long text behind them does not, and is rewritten once.
    """
    knobs, mark, body = source.partition(FIRST_LINE)
    if not mark or _BEYOND_KNOBS.search(knobs):
        return _rewritten(source)
    return f"{_rewritten(knobs)}{mark}{_rewritten(body)}"


@lru_cache(maxsize=32)
def _rewritten(source: str) -> str:
    """Return the text for the host, line by line as before."""

    def reference(found: re.Match[str]) -> str:
        words = f"{found['before']} {found['type']}".replace("static", " ")
        element = " ".join(_ALIGNMENT.sub(" ", words).split())
        name, lines = found["name"], found[0].count("\n")
        return (
            f"static {element} (&{name})[] = "
            f"*reinterpret_cast<{element} (*)[]>(emulator::dynamic_shared);" + "\n" * lines
        )

    source = _DYNAMIC_SHARED.sub(reference, with_ptx(source))
    # The macro has its own `static`, and no standard attribute may follow that.
    source = re.sub(r"\bstatic\s+__shared__", "__shared__", source)
    return re.sub(r"\b__shared__\s+(alignas\s*\([^()]*\))", r"\1 __shared__", source)


def cxx_compiler() -> str:
    """Return the path of the C++ compiler: ``c++``, ``g++`` or ``clang++``, as kernels' own.

    Raises:
        CompileError: there is none.
    """
    paths = (shutil.which(name) for name in ("c++", "g++", "clang++"))
    path = next(filter(None, paths), None)
    if path is None:
        raise CompileError("emulation needs a C++ compiler with the flags of GCC: install g++")
    return path


def compile_emulated(
    kernels: Kernel | Sequence[Kernel],
    out: Path,
    *,
    arch: str = "sm_80",
    timeout_s: float | None = 120.0,
    checked: bool = True,
    optimized: bool = False,
    device_text: bool = False,
) -> Path:
    """Compile CUDA kernels into one shared library that runs them on the CPU; return its path.

    For use without the runtime, as tests do; see `emulated` and `emulated_together`. ``optimized``
    code takes twice as long to compile, and runs two to four times faster: it pays for kernels
    of more than some three million operations.

    Raises:
        CompileError: there is no compiler, or it refused the text, or took too long.
    """
    several = [kernels] if isinstance(kernels, Kernel) else list(kernels)
    unit = emulated_together(several, arch, checked, device_text)[0]
    text = out.with_suffix(".cpp")
    text.write_text(unit.source, "utf-8")
    names = ", ".join(k.name for k in several[:3]) + (", ..." if len(several) > 3 else "")
    level = "-O1" if optimized else "-O0"
    command = [cxx_compiler(), "-std=c++17", level, "-shared", "-fPIC"]
    common = [*command[1:], *common_flags(checked)]
    header = precompiled(command[:1], common, timeout_s or 120.0)
    for first in [header, []] if header else [[]]:
        libraries = [flag for flag in first if flag.startswith("-l")]  # once more, after the text
        argv = [*command, *first, *unit.flags, str(text), "-o", str(out), *libraries]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise CompileError(
                f"emulation of {names}: {command[0]} did not finish in {timeout_s} s"
            ) from error
        if done.returncode == 0:
            return out
    raise CompileError(f"emulation of {names}: {command[0]} refused it:\n{done.stderr}")
