"""Compilation of kernels: one recipe for each language and compiler.

A recipe is found before anything runs, and names all that decides its result; so the cache can
answer without a compiler being started.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.codegen.packed import is_cxx, packed_calls
from autotune.emulator.build import common_flags, emulated
from autotune.emulator.precompiled import INCLUDE, precompiled
from autotune.errors import CompileError, CompilerCrashed, CompileTimeout
from autotune.kernel.comments import FIRST_LINE
from autotune.kernel.entry import identifier
from autotune.kernel.kernel import Kernel
from autotune.runtime.compile.cpu_flags import cpu_flags
from autotune.runtime.compile.toolchain import Toolchain, crashed, host_cpu, host_toolchain, killed
from autotune.target import Target
from autotune.utils.command import Completed, run

# The same in text of ours around the source, where the "file" says what it is about.
_OUR_ERROR = re.compile(r"^autotune: (.*?)(?::\d+|\(\d+\))+: error: (.*\S)", re.MULTILINE)
_ASSERTION = re.compile(r"static assertion failed(: | with )")
# What a compiler, a linker or NVRTC says first of what is wrong: "kernel.cu(3): error: ...".
_FIRST_ERROR = re.compile(
    r"^(?:.*?\berror\s*:|nvcc fatal\s*:|ptxas fatal\s*:"
    r"|.*?: (?=undefined reference|cannot find))(.*\S)",
    re.MULTILINE | re.IGNORECASE,
)
# What to do about an error of which the compiler does not say it.
_ADVICE = {
    re.compile(r"unsupported gpu architecture|invalid value for --gpu-architecture", re.I): (
        "leave -arch out of the target for that of the device"
    ),
    re.compile(r"uses too much shared data"): (
        "declare what is over 48 KB as extern __shared__, and give its size as shared_bytes="
    ),
}
# Kernels on arrays of so many bytes in all have run before they would be optimized: that takes
# half a second more, and they run in some hundredths of one, three times slower than optimized.
_SMALL_BYTES = 1 << 16
# How far C is optimized.
_LEVEL = "-O3"

# What to do about a compilation that was stopped.
GIVE_TIME = "give LocalBuilder(timeout=), or --timeout of a command, more seconds"


@dataclass(frozen=True)
class Recipe:
    """One way to compile one kernel.

    Attributes:
        kernel: whose text is compiled: the kernel asked for, or what the emulator makes of it.
        identity: everything besides the source that decides the result: compiler, version, flags,
            architecture. Part of the cache key.
        suffix: of the artifact.
        compile: called with an empty folder and the seconds that a compiler has; writes ``out`` +
            suffix into the folder and returns what the compiler printed, or raises `CompileError`.
    """

    kernel: Kernel
    identity: tuple[str, ...]
    suffix: str
    compile: Callable[[Path, float], str]


def c_recipe(kernel: Kernel, target: Target) -> Recipe:
    """Compile C with the host compiler to a shared object, for the CPU that the target names.

    The flag ``-x c++`` says, as it does for compilers, that the text is C++.
    """
    cxx = is_cxx(kernel)
    toolchain = host_toolchain(cxx)
    for_cpu = cpu_flags(toolchain, target)
    flags = ("-x", "c", _LEVEL, *for_cpu, "-shared", "-fPIC", *kernel.flags)
    # Compilers quote the lines of an error from the file that they are said to be in.
    knobs, mark, body = kernel.source.partition(FIRST_LINE)
    quoted = f"{identifier(kernel.name)}.{'cc' if cxx else 'c'}"
    source = knobs + mark.replace("1", f'1 "{quoted}"') + body + packed_calls(kernel, cxx)
    recipe = _host_recipe(replace(kernel, source=source), toolchain, flags, "kernel.c")

    def compile_in(folder: Path, timeout_s: float) -> str:
        (folder / quoted).write_text(body, "utf-8")
        return recipe.compile(folder, timeout_s)

    return replace(recipe, compile=compile_in)


def emulated_recipe(kernel: Kernel, target: Target) -> Recipe:
    """Compile a CUDA kernel for the CPU: the emulator makes C++ of it."""
    toolchain = host_toolchain(cxx=True)
    on_host = emulated(kernel, target.arch)
    arrays = sum(a.bytes for a in kernel.args) + sum(w.bytes for w in kernel.workspace)
    level = "-O1" if arrays > _SMALL_BYTES else "-O0"
    base = ("-std=c++17", level, "-shared", "-fPIC")
    recipe = _host_recipe(on_host, toolchain, ("-x", "c++", *base, *on_host.flags), "kernel.cc")
    # Where the emulator is makes no difference: the text has the digest of its headers.
    place = f"-I{INCLUDE}"
    anywhere = replace(on_host, flags=tuple(flag for flag in on_host.flags if flag != place))
    identity = tuple(fact for fact in recipe.identity if fact != place)

    def compile_in(folder: Path, timeout_s: float) -> str:
        flags = (*base, *common_flags())
        header = precompiled(toolchain.command, flags, timeout_s)
        if header:
            quick = _host_recipe(
                on_host, toolchain, ("-x", "c++", *header, *base, *on_host.flags), "kernel.cc"
            )
            try:
                return quick.compile(folder, timeout_s)
            except (CompilerCrashed, CompileTimeout):
                raise
            except CompileError:
                pass  # it is this compilation's own verdict that counts
        return recipe.compile(folder, timeout_s)

    return Recipe(anywhere, identity, recipe.suffix, compile_in)


def _host_recipe(
    kernel: Kernel, toolchain: Toolchain, flags: tuple[str, ...], name: str
) -> Recipe:
    def compile_in(folder: Path, timeout_s: float) -> str:
        (folder / name).write_text(kernel.source, "utf-8")
        # A linker that drops what nobody asked for yet must see libraries after the source.
        libraries = [flag for flag in flags if flag.startswith("-l")]
        argv = [*toolchain.command, *flags, "-o", "out.so", name, *libraries, "-lm"]
        return run_compiler(kernel.name, argv, folder, timeout_s)

    cpu = host_cpu() if any(flag.endswith("=native") for flag in flags) else ""
    identity = ("host", *toolchain.command, toolchain.version, cpu, *flags)
    return Recipe(kernel, identity, ".so", compile_in)


def run_in(argv: list[str], folder: Path, timeout_s: float) -> Completed:
    """Run a compiler in ``folder``; what it leaves behind when it is killed is there too.

    It speaks English, by which `crashed` understands it.
    """
    return run(argv, timeout_s, folder, {"TMPDIR": str(folder), "LC_ALL": "C"})


def run_compiler(name: str, argv: list[str], folder: Path, timeout_s: float) -> str:
    """Run a compiler for kernel ``name`` in ``folder`` and return what it printed.

    Raises:
        CompileError: it refused the source.
        CompileTimeout, CompilerCrashed: it did not end in time, or not of its own will.
    """
    started = time.monotonic()
    completed = run_in(argv, folder, timeout_s)
    check_compiler(name, argv, completed, time.monotonic() - started)
    return completed.output


def _cause(output: str) -> str:
    """Return ": " and the first error of a compiler, which summaries show alone; else nothing.

    A source without a function may be one that the compiler could not read up to there.
    """
    first, ours = _FIRST_ERROR.search(output), _OUR_ERROR.search(output)
    if ours and not (first and first.start() < ours.start()):
        return f": {ours[1]}: {_ASSERTION.sub('', ours[2])}"
    if first is None:
        return ""
    advice = [f"; {text}" for sign, text in _ADVICE.items() if sign.search(first[1])]
    return f": {_ASSERTION.sub('', first[1].strip())}{''.join(advice)}"


def check_compiler(name: str, argv: list[str], completed: Completed, seconds: float) -> None:
    """Raise the error that fits how a compiler ended; see `run_compiler`."""
    if completed.timed_out:
        raise CompileTimeout(
            f"kernel {name!r}: {Path(argv[0]).name} was killed after {seconds:.1f} s; "
            f"{GIVE_TIME}, or the template a smaller unroll"
        )
    if completed.returncode == 0:
        return
    text = f"kernel {name!r}: {Path(argv[0]).name} failed"
    text += _cause(completed.output)
    text += f"\n{completed.output.strip()}"
    text += f"\n[command: {shlex.join(argv)}]"
    if crashed(completed):
        status = f"[exit status {completed.returncode}]"
        raise CompilerCrashed(f"{text}\n{status}", killed(completed))
    raise CompileError(text)
