"""Compile one kernel to an artifact, or find it already compiled."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from autotune.errors import (
    CompileError,
    CompilerCrashed,
    CompilerMissing,
    CompileTimeout,
    KernelError,
)
from autotune.kernel.comments import without_comments
from autotune.kernel.entry import identifier, plain_name
from autotune.kernel.kernel import Kernel
from autotune.kernel.signature import signature_mismatch
from autotune.runtime.compile.build_cache import BuildCache, CacheEntry
from autotune.runtime.compile.compilers import Recipe
from autotune.runtime.compile.cubin import check_cubin
from autotune.runtime.compile.elf import code_bytes, code_hash
from autotune.runtime.compile.resources import parse_ptxas, summary
from autotune.runtime.compile.user_headers import anchor_paths, user_headers
from autotune.target import Target
from autotune.target.backends import Compiler, of_language, part
from autotune.utils import environment
from autotune.utils.check import Check
from autotune.utils.scratch import temporary_folder

# A header or library that is missing now may be there tomorrow: no verdict to remember.
_NOT_FOUND = re.compile(r"No such file|(cannot|could not) open source file|cannot find -l")
# Launches, and CUDA's functions and types for the host.
_OF_HOST = re.compile(
    r"<<<|\bcuda(?:Error_t|Success|Malloc|Memcpy|Memset|Free|Get|Set|Stream|Event|Device|Func)\w*"
)
_numbers = itertools.count()


@dataclass(frozen=True)
class BuildOutput:
    """The output of one compilation.

    Attributes:
        artifact: path of the cubin or shared object.
        resources: largest need of a launch: registers, shared_bytes (static and dynamic),
            spill_bytes, spill_store_bytes, spill_load_bytes, stack_bytes, code_bytes. A shared
            object has code_bytes only.
        log: what the compiler printed; from the cache as well.
        entries: the needs of each entry point.
        code_hash: equal for kernels whose machine code, launches and arguments are equal.
        cached: whether no compiler was run.
        seconds: how long this call took.
    """

    artifact: str
    resources: dict[str, int]
    log: str
    entries: dict[str, dict[str, int]] = field(default_factory=dict)
    code_hash: str = ""
    cached: bool = False
    seconds: float = 0.0


def compile_kernel(
    kernel: Kernel,
    target: Target,
    *,
    timeout_s: float = 60.0,
    compiler: Compiler = "nvcc",
    out_dir: str | os.PathLike[str],
    cache: BuildCache | None = None,
    use_cache: bool = True,
) -> BuildOutput:
    """Compile ``kernel`` for ``target`` into ``out_dir``.

    Args:
        kernel: the kernel.
        target: the target, with the architecture.
        timeout_s: seconds after which the compiler and its children are killed, not counting those
            in which they wait for a processor; may be infinite.
        compiler: the compiler of CUDA kernels; C is always compiled by the host compiler.
        out_dir: folder for the artifact, which gets a new name; created if missing.
        cache: the cache of compiled kernels; by default that of this user.
        use_cache: whether the cache is read and written.

    Raises:
        KernelError: an argument is invalid.
        CompileError: the compiler refused the source, which the cache remembers; or the arguments
            do not match the parameters of the entries.
        CompilerMissing: there is no compiler.
        CompilerCrashed: the compiler was killed, or memory or disk were full.
        CompileTimeout: the compiler was killed after ``timeout_s``.
    """
    started = time.perf_counter()
    _check(kernel, target, timeout_s, compiler, out_dir)
    kernel = replace(kernel, flags=anchor_paths(kernel.flags)) if kernel.flags else kernel
    if wrong := signature_mismatch(kernel):
        raise CompileError(f"kernel {kernel.name!r}: {wrong}")
    recipe = _recipe(kernel, target, compiler)
    store = (cache or _users_cache(environment.cache_dir())) if use_cache else None
    key = _key(recipe)
    entry = store.get(key) if store else None
    cached = entry is not None
    if entry is None:
        entry = _compile(kernel, recipe, timeout_s)
        if store:
            store.put(key, entry)
    if entry.error:
        raise CompileError(_advised(kernel, target, entry.error) + _unnamed(kernel))
    names = check_cubin(kernel, entry.artifact) if recipe.suffix == ".cubin" else {}
    return BuildOutput(
        artifact=_place(entry.artifact, Path(out_dir), identifier(kernel.name), recipe.suffix),
        resources=summary(entry.entries, kernel, names) | {"code_bytes": entry.code_bytes},
        log=entry.log,
        entries=entry.entries,
        code_hash=_launched(entry.code_hash, kernel),
        cached=cached,
        seconds=time.perf_counter() - started,
    )


def _advised(kernel: Kernel, target: Target, error: str) -> str:
    """Say in the first line, which summaries show, what a compiler was given that it cannot read.

    CUDA text for one of C, or code of the host for the emulator.
    """
    advice = ""
    if not of_language(kernel.language).on_gpu:
        if re.search(r"\b__global__\b", kernel.source):
            advice = (
                "the source is CUDA text: its target is 'cuda', or 'cuda -emulate' for this CPU"
            )
    elif not target.emulate or "AUTOTUNE_EMULATE" in kernel.source:
        pass  # code of the host may be left out there already
    elif found := _OF_HOST.search(without_comments(kernel.source)):
        advice = (
            f"the emulator runs kernels only, and the source has {found[0]!r}: leave code of the "
            f"host and launches by kernels out under #ifndef AUTOTUNE_EMULATE"
        )
    if not advice:
        return error
    first, end, rest = error.partition("\n")
    return f"{first}; {advice}{end}{rest}"


def _unnamed(kernel: Kernel) -> str:
    """Say which entry points the source does not even name; what the compiler says is obscure."""
    entries = dict.fromkeys(plain_name(one.entry) for one in kernel.calls)
    missing = [e for e in entries if not re.search(rf"\b{re.escape(e)}\b", kernel.source)]
    return f"\n[the source has no function {', '.join(missing)}]" if missing else ""


def _recipe(kernel: Kernel, target: Target, compiler: str) -> Recipe:
    home = target.backend.recipes.get(compiler)
    if home is None or kernel.language != target.language:
        raise KernelError(
            f"kernel {kernel.name!r}: nothing compiles language {kernel.language!r} with "
            f"{compiler!r} for target {target}"
        )
    make: Callable[[Kernel, Target], Recipe] = part(home)
    return make(kernel, target)


def _check(
    kernel: Kernel,
    target: Target,
    timeout_s: float,
    compiler: str,
    out_dir: str | os.PathLike[str],
) -> None:
    check = Check(KernelError, "compile_kernel")
    check.kind("kernel", kernel, Kernel, "a Kernel")
    check.kind("target", target, Target, "a Target")
    check.seconds("timeout_s", timeout_s, endless=True)
    check.one_of("compiler", compiler, get_args(Compiler))
    check.path("out_dir", out_dir)


@functools.cache
def _users_cache(folder: Path) -> BuildCache:
    """Return one cache object for each folder: it remembers how much space is left."""
    return BuildCache(folder / "build")


def _compile(kernel: Kernel, recipe: Recipe, timeout_s: float) -> CacheEntry:
    """Run the recipe; a refusal of the source is a result as well."""
    try:
        with temporary_folder("build") as folder:
            log = recipe.compile(Path(folder), timeout_s)
            artifact = _artifact(kernel, Path(folder, "out" + recipe.suffix), log)
    except (CompilerMissing, CompilerCrashed, CompileTimeout):
        raise
    except CompileError as error:
        if _NOT_FOUND.search(str(error)):
            raise
        return CacheEntry(b"", error=str(error))
    except OSError as error:
        raise CompilerCrashed(
            f"kernel {kernel.name!r}: cannot compile in {tempfile.gettempdir()}: {error}; "
            "free space there or set TMPDIR"
        ) from error
    return CacheEntry(
        artifact,
        log=log,
        entries=parse_ptxas(log),
        code_hash=code_hash(artifact),
        code_bytes=code_bytes(artifact),
    )


def _artifact(kernel: Kernel, path: Path, log: str) -> bytes:
    """Return the bytes that the compiler wrote.

    Raises:
        CompilerCrashed: nothing, though it reports success; no verdict on the source.
    """
    artifact = path.read_bytes() if path.exists() else b""
    if not artifact:
        raise CompilerCrashed(
            f"kernel {kernel.name!r}: the compiler reports success but wrote no {path.suffix}; "
            f"is it the compiler, and do its flags ask for another output? "
            f"It says: {log.strip() or 'nothing'}"
        )
    return artifact


def _launched(machine_code: str, kernel: Kernel) -> str:
    """Digest the machine code together with all that decides how it is run."""
    facts = (machine_code, kernel.calls, kernel.args, kernel.workspace)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _place(artifact: bytes, folder: Path, name: str, suffix: str) -> str:
    """Write the artifact under a name that no other process or call uses."""
    path = folder / f"{name}-{os.getpid()}-{next(_numbers)}{suffix}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(artifact)
    except OSError as error:
        raise CompilerCrashed(
            f"kernel {name!r}: cannot write {path}: {error}; free space or choose another folder"
        ) from error
    return str(path)


def _key(recipe: Recipe) -> str:
    """Digest everything that decides what the compiler makes of the kernel."""
    kernel = recipe.kernel
    variables = sorted(environment.compiler_variables().items())
    facts = [recipe.identity, variables, user_headers(kernel.source, kernel.flags)]
    digest = hashlib.sha256(json.dumps(facts).encode())
    digest.update(kernel.source.encode())
    return digest.hexdigest()
