"""Built functions in files: an archive of the machine code and of what it takes to launch it."""

from __future__ import annotations

import errno
import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from autotune.errors import AutotuneError, KernelError
from autotune.kernel.kernel import (
    Argument,
    Constant,
    Kernel,
    KernelCall,
    Launch,
    Role,
    Scalar,
    Workspace,
)
from autotune.kernel.scalar import ScalarValue
from autotune.kernel.sizes import Size, Sizes
from autotune.target import Language, Target
from autotune.utils.check import Check
from autotune.utils.files import publish
from autotune.utils.plain_data import count, flag, listed, mapping, text

_HEAD = "kernel.json"
_ARTIFACT = "artifact"
_VERSION = 2
_LANGUAGES: Mapping[str, Language] = {one: one for one in get_args(Language)}
_ROLES: Mapping[str, Role] = {one: one for one in get_args(Role)}


def pack(
    path: Path,
    kernel: Kernel,
    target: Target,
    artifact: bytes,
    suffix: str,
    resources: dict[str, int],
) -> None:
    """Write a built function to ``path``; if that fails, an existing file is unchanged.

    Raises:
        OSError: the file cannot be written.
    """
    args = [{"kind": type(a).__name__, **asdict(a)} for a in kernel.args]
    head = {
        "version": _VERSION,
        "kernel": {**asdict(kernel), "args": args},
        "target": str(target),
        "suffix": suffix,
        "resources": resources,
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_HEAD, json.dumps(head))
        archive.writestr(_ARTIFACT, artifact)
    place = Path(path)
    if not place.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    publish(place, content.getvalue())


def unpack(path: str | os.PathLike[str]) -> tuple[Kernel, Target, bytes, str, dict[str, int]]:
    """Read what `pack` wrote.

    Raises:
        KernelError: the file is missing or is not one of ours.
    """
    Check(KernelError, "load_module").path("path", path)
    try:
        with zipfile.ZipFile(path) as archive:
            head = mapping(json.loads(archive.read(_HEAD)))
            artifact = archive.read(_ARTIFACT)
        if head["version"] != _VERSION:
            raise KernelError(f"{path}: written by another version of autotune; build it again")
        suffix = text(head["suffix"])
        if suffix not in (".cubin", ".so"):  # it ends the name of a file
            raise ValueError(f"its machine code cannot end in {suffix!r}")
        resources = {name: count(value) for name, value in mapping(head["resources"]).items()}
        target = Target(text(head["target"]))
        return _kernel(mapping(head["kernel"])), target, artifact, suffix, resources
    except AutotuneError:
        raise
    except OSError as error:
        raise KernelError(
            "load_module: path must be a file that can be read, "
            f"got {path}: {error.strerror or error}"
        ) from error
    except Exception as error:  # whatever damaged bytes make of the archive and of what is in it
        raise KernelError(
            f"load_module: path must be what export_library wrote, got {path}: not a file of "
            f"export_library: {error}"
        ) from error


def _kernel(facts: Mapping[str, object]) -> Kernel:
    sizes = facts.get("sizes")
    return Kernel(
        name=text(facts["name"]),
        language=_LANGUAGES[text(facts["language"])],
        source=text(facts["source"]),
        args=tuple([_argument(mapping(one)) for one in listed(facts["args"])]),
        calls=tuple([_call(mapping(one)) for one in listed(facts["calls"])]),
        workspace=tuple([_workspace(mapping(one)) for one in listed(facts["workspace"])]),
        flags=_texts(facts["flags"]),
        kernel_hash=text(facts["kernel_hash"]),
        sizes=None if sizes is None else _sizes(mapping(sizes)),
    )


def _sizes(facts: Mapping[str, object]) -> Sizes:
    grids = [tuple(map(_size, listed(one))) for one in listed(facts["grids"])]
    return Sizes(
        names=_texts(facts["names"]),
        hidden=_texts(facts["hidden"]),
        args=_shapes(facts["args"]),
        workspace=_shapes(facts["workspace"]),
        grids=tuple([(x, y, z) for x, y, z in grids]),
    )


def _shapes(given: object) -> tuple[tuple[Size, ...], ...]:
    return tuple([tuple(map(_size, listed(one))) for one in listed(given)])


def _size(given: object) -> Size:
    if isinstance(given, list):
        sign, a, b = given
        return text(sign), _size(a), _size(b)
    return given if isinstance(given, str) else count(given)


def _argument(facts: Mapping[str, object]) -> Argument:
    name, dtype, shape = text(facts["name"]), text(facts["dtype"]), _extents(facts["shape"])
    match facts["kind"]:
        case "Argument":
            return Argument(name, shape, dtype, _ROLES[text(facts["role"])])
        case "Scalar":
            return Scalar(name, dtype, _number(facts["value"]))
        case "Constant":
            return Constant(name, shape, dtype)
        case other:
            raise ValueError(f"an argument of kind {other!r}")


def _number(given: object) -> ScalarValue | None:
    if given is not None and not isinstance(given, (bool, int, float)):
        raise TypeError(f"expected a number, got {given!r:.100}")
    return given


def _workspace(facts: Mapping[str, object]) -> Workspace:
    shape, zero = _extents(facts["shape"]), flag(facts["zero"])
    return Workspace(text(facts["name"]), shape, text(facts["dtype"]), zero)


def _call(facts: Mapping[str, object]) -> KernelCall:
    launch = mapping(facts["launch"])
    (x, y, z), (threads_x, threads_y, threads_z) = (
        _extents(launch[name]) for name in ("grid", "block")
    )
    shared_bytes = count(launch["shared_bytes"])
    early = flag(launch.get("early", False))  # older files have none
    shape = Launch((x, y, z), (threads_x, threads_y, threads_z), shared_bytes, early)
    return KernelCall(text(facts["entry"]), _texts(facts["args"]), shape)


def _extents(given: object) -> tuple[int, ...]:
    return tuple(map(count, listed(given)))


def _texts(given: object) -> tuple[str, ...]:
    return tuple(map(text, listed(given)))
