"""Built functions in files: an archive of the machine code and of what it takes to launch it."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autotune.errors import AutotuneError, KernelError
from autotune.kernel import (
    Argument,
    Constant,
    Kernel,
    KernelCall,
    Launch,
    Scalar,
    Sizes,
    Workspace,
)
from autotune.target import Target
from autotune.utils.check import Check

_HEAD = "kernel.json"
_ARTIFACT = "artifact"
_VERSION = 2


def pack(
    path: Path,
    kernel: Kernel,
    target: Target,
    artifact: bytes,
    suffix: str,
    resources: dict[str, int],
) -> None:
    """Write a built function to ``path``."""
    args = [{"kind": type(a).__name__, **asdict(a)} for a in kernel.args]
    head = {
        "version": _VERSION,
        "kernel": {**asdict(kernel), "args": args},
        "target": str(target),
        "suffix": suffix,
        "resources": resources,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_HEAD, json.dumps(head))
        archive.writestr(_ARTIFACT, artifact)


def unpack(path: str | os.PathLike[str]) -> tuple[Kernel, Target, bytes, str, dict[str, int]]:
    """Read what `pack` wrote.

    Raises:
        KernelError: the file is missing or is not one of ours.
    """
    Check(KernelError, "load_module").path("path", path)
    try:
        with zipfile.ZipFile(path) as archive:
            head = json.loads(archive.read(_HEAD))
            artifact = archive.read(_ARTIFACT)
        if head["version"] != _VERSION:
            raise KernelError(f"{path}: written by another version of autotune; build it again")
        if head["suffix"] not in (".cubin", ".so"):  # it ends the name of a file
            raise ValueError(f"its machine code cannot end in {head['suffix']!r}")
        return (
            _kernel(head["kernel"]),
            Target(head["target"]),
            artifact,
            head["suffix"],
            head["resources"],
        )
    except AutotuneError:
        raise
    except Exception as error:  # whatever damaged bytes make of the archive and of what is in it
        raise KernelError(
            f"load_module: path must be what export_library wrote, got {path}: not a file of "
            f"export_library: {error}"
        ) from error


def _kernel(facts: dict[str, Any]) -> Kernel:
    facts["args"] = tuple(map(_argument, facts["args"]))
    facts["workspace"] = tuple(_workspace(w) for w in facts["workspace"])
    facts["flags"] = tuple(facts["flags"])
    facts["calls"] = tuple(_call(c) for c in facts["calls"])
    facts["sizes"] = _sizes(facts["sizes"]) if facts.get("sizes") else None
    return Kernel(**facts)


def _sizes(facts: dict[str, object]) -> Sizes:
    return Sizes(**{name: _tuples(value) for name, value in facts.items()})


def _tuples(value: object) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _argument(facts: dict[str, Any]) -> Argument:
    name, dtype, shape = facts["name"], facts["dtype"], tuple(facts["shape"])
    match facts["kind"]:
        case "Argument":
            return Argument(name, shape, dtype, facts["role"])
        case "Scalar":
            return Scalar(name, dtype, facts["value"])
        case "Constant":
            return Constant(name, shape, dtype)
        case other:
            raise ValueError(f"an argument of kind {other!r}")


def _workspace(facts: dict[str, Any]) -> Workspace:
    return Workspace(**{**facts, "shape": tuple(facts["shape"])})


def _call(facts: dict[str, Any]) -> KernelCall:
    launch = facts["launch"]
    grid, block = tuple(launch["grid"]), tuple(launch["block"])
    return KernelCall(
        facts["entry"], tuple(facts["args"]), Launch(grid, block, launch["shared_bytes"])
    )
