"""The files of an exported project."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from autotune.errors import KernelError
from autotune.runtime.compile.compilers import run_compiler
from autotune.runtime.compile.toolchain import host_toolchain
from autotune.ship.c_text import unit_text
from autotune.ship.gather import Shipment
from autotune.ship.rows import prefix_of, rows_of
from autotune.version import __version__

_MARK = "manifest.json"
_TIMEOUT_S = 600.0
_MADE_AGAIN = ("build", "__pycache__", ".egg-info")


def write_project(shipment: Shipment, folder: str | os.PathLike[str]) -> Path:
    """Write a project, with its library and package built for this machine.

    The folder appears whole, or what stood there stays. Two exports of the same records with the
    same compilers are equal byte for byte.

    Args:
        shipment: what `gather` returned.
        folder: where to; one that is there must be empty, or an earlier export as it was written,
            which is replaced.

    Raises:
        KernelError: something else is there, or it cannot be written.
        CompileError: there is no C compiler, or it does not take what was generated.
    """
    path = Path(folder)
    _check_free(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".autotune-ship-", dir=path.parent) as temporary:
            whole = Path(temporary, "whole")
            for name, content in project_files(shipment).items():
                file = whole / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            _build(shipment, whole)
            whole.chmod(0o755)
            if path.exists():  # goes when the temporary folder does
                path.replace(Path(temporary, "before"))
            whole.replace(path)
    except OSError as error:
        raise KernelError(f"export: cannot write {path}: {error.strerror}") from error
    return path


def _check_free(path: Path) -> None:
    """Raise if something stands there that is neither an empty folder nor an earlier export."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise KernelError(f"export: {path} is there and no folder; give another name")
    if not path.is_dir() or not any(path.iterdir()):
        return
    try:  # others call a file manifest.json too
        manifest = json.loads((path / _MARK).read_text("utf-8"))
        library, hashes = str(manifest["library"]), dict(manifest["files"])
        known = "functions" in manifest
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        known = False
    if not known:
        raise KernelError(f"export: {path} is there and no earlier export; give another folder")
    package = f"python/{library}"
    kept = {_MARK, f"{package}/{_MARK}", f"{package}/lib{library}.so"}
    own = [name for name in _files_of(path) if name not in kept and _is_own(path, name, hashes)]
    if own:
        raise KernelError(
            f"export: {path} is an earlier export in which files were changed or added since: "
            f"{', '.join(own[:3])}{', ...' if own[3:] else ''}; move them, or give another folder"
        )


def _files_of(path: Path) -> list[str]:
    """Return the files of a project, but for those that CMake, pip and Python make again."""
    found = []
    for folder, inside, files in os.walk(path):
        inside[:] = [each for each in inside if not each.endswith(_MADE_AGAIN)]
        found += [Path(folder, file).relative_to(path).as_posix() for file in files]
    return sorted(found)


def _is_own(path: Path, name: str, hashes: Mapping[str, object]) -> bool:
    """Return whether a file is not as it was written."""
    file = path / name
    if name not in hashes or not file.is_file():
        return True
    return hashes[name] != hashlib.sha256(file.read_bytes()).hexdigest()


def project_files(shipment: Shipment) -> dict[str, bytes]:
    """Return all files of a project but the library, by their names in it."""
    rows = rows_of(shipment)
    name = shipment.name
    facts = {**rows, "name": name, "on_gpu": shipment.on_gpu, "version": __version__}
    files = {
        "CMakeLists.txt": _made("CMakeLists.txt", facts),
        "README.md": _made("README.md", facts),
        f"include/{name}.h": _made("header.h", facts),
        f"src/{name}.c": _made("source.c", facts),
        "src/tables.h": _text("tables.h"),
        "example/main.c": _made("example.c", facts),
        "python/pyproject.toml": _made("pyproject.toml", facts),
        f"python/{name}/__init__.py": _made("package.py", facts),
    }
    images = [image for f in shipment.functions for w in f.workloads for image in w.images]
    for image, row in zip(images, rows["images"], strict=True):
        text = image.content
        if image.kind == "text":
            text = unit_text(image.kernel, image.content, prefix_of(name, row["id"])).encode()
        files[row["file"]] = text
    runtime = "runtime_cuda.h" if shipment.on_gpu else "runtime_cpu.h"
    files[f"src/{runtime}"] = _text(runtime)
    if shipment.on_gpu:
        files["src/images.S"] = _made("images.S", facts)
    hashes = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    manifest = {**rows["manifest"], "files": dict(sorted(hashes.items()))}
    files[_MARK] = (json.dumps(manifest, indent=1) + "\n").encode()
    files[f"python/{name}/{_MARK}"] = files[_MARK]
    return files


def _build(shipment: Shipment, folder: Path) -> None:
    """Compile the library into the Python package."""
    name = shipment.name
    rows = rows_of(shipment)
    compiler = host_toolchain()
    objects = []
    for number, unit in enumerate(
        [{"file": f"src/{name}.c", "flags": ["-O2"]}, *rows["units"], *rows["assembly"]]
    ):
        out = f"unit{number}.o"
        argv = [*compiler.command, "-fPIC", "-std=gnu11", "-Iinclude", "-Isrc", "-I.",
                *unit["flags"], "-c", unit["file"], "-o", out]  # fmt: skip
        run_compiler(name, argv, folder, _TIMEOUT_S)
        objects.append(out)
    library = f"python/{name}/lib{name}.so"
    links = [*rows["link_flags"], *(["-ldl", "-lpthread"] if shipment.on_gpu else ["-lm"])]
    argv = [*compiler.command, "-shared", "-o", library, *objects, *links]
    run_compiler(name, argv, folder, _TIMEOUT_S)
    for each in objects:
        (folder / each).unlink()


def _made(name: str, facts: Mapping[str, object]) -> bytes:
    return _templates().get_template(f"{name}.jinja").render(facts).encode()


def _text(name: str) -> bytes:
    source, _, _ = _templates().loader.get_source(_templates(), name)  # type: ignore[union-attr]
    return source.encode()


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("autotune.ship", "files"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["comment"] = _in_comment
    return environment


def _in_comment(text: str) -> str:
    """Return a text that ends no comment of C that it stands in."""
    return text.replace("*/", "* /")
