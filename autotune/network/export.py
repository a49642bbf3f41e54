"""Compiled networks in files: kernels, plan and weights in one archive."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from autotune.errors import AutotuneError, GraphError
from autotune.graph import Constant, TensorType
from autotune.network.compiled import CompiledNetwork
from autotune.network.memory import MemoryPlan
from autotune.network.param_file import load_param_dict, save_param_dict
from autotune.network.plan import ExecutionPlan, Home, Place, Step
from autotune.runtime.module import load_module
from autotune.target import Target

_HEAD, _WEIGHTS, _VERSION = "network.json", "weights.params", 1


def export_network(network: CompiledNetwork, path: str | os.PathLike[str]) -> None:
    """Write a network to one file, from which `load_network` makes it again without a compiler.

    Raises:
        GraphError: no file can be written there.
    """
    plan = network.plan
    head = {
        "version": _VERSION,
        "target": str(network.target),
        "steps": [[step.kernel, [_row(p) for p in step.places]] for step in plan.steps],
        "inputs": [_row(place) for place in plan.inputs],
        "input_names": plan.input_names,
        "outputs": [_row(place) for place in plan.outputs],
        "copies": [[_row(a), _row(b)] for a, b in plan.copies],
        "constants": [[each.name, list(each.shape), each.dtype] for each in plan.constants],
        "memory": [plan.memory.bytes, plan.memory.least],
        "modules": len(network.modules),
    }
    weights = {f"p{i}": each.array for i, each in enumerate(plan.constants)}
    try:
        with (
            tempfile.TemporaryDirectory(prefix="autotune-export-") as folder,
            zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive,
        ):
            archive.writestr(_HEAD, json.dumps(head))
            archive.writestr(_WEIGHTS, save_param_dict(weights))
            for number, module in enumerate(network.modules):
                part = Path(folder, f"{number}")
                module.export_library(part)
                archive.write(part, f"kernels/{number}")
    except OSError as error:
        raise GraphError(
            f"export_library: cannot write {os.fspath(path)}: {error.strerror}"
        ) from error


def is_network(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file is what `export_network` wrote."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _HEAD in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def load_network(path: str | os.PathLike[str]) -> CompiledNetwork:
    """Read what `export_network` wrote.

    Raises:
        GraphError: the file is missing, or is something else.
    """
    try:
        with (
            zipfile.ZipFile(path) as archive,
            tempfile.TemporaryDirectory(prefix="autotune-load-") as folder,
        ):
            head = json.loads(archive.read(_HEAD))
            if head["version"] != _VERSION:
                raise GraphError(f"{path}: written by another version of autotune; build it again")
            modules = []
            for number in range(head["modules"]):
                part = Path(folder, str(number))
                part.write_bytes(archive.read(f"kernels/{number}"))
                modules.append(load_module(part))
            weights = load_param_dict(archive.read(_WEIGHTS))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        if isinstance(error, AutotuneError):
            raise
        raise GraphError(
            f"load_module: path must be what export_library wrote, got {path}: {error}"
        ) from error
    numbers = {name: each.numpy() for name, each in weights.items()}
    return CompiledNetwork(_plan(head, numbers), tuple(modules), Target(head["target"]))


def _plan(head: dict[str, Any], weights: dict[str, Any]) -> ExecutionPlan:
    constants = tuple(
        Constant.of(weights[f"p{i}"].reshape(TensorType(tuple(shape), dtype).shape), name, dtype)
        for i, (name, shape, dtype) in enumerate(head["constants"])
    )
    total, least = head["memory"]
    return ExecutionPlan(
        kernels=(),
        steps=tuple(Step(kernel, tuple(map(_place, places))) for kernel, places in head["steps"]),
        inputs=tuple(map(_place, head["inputs"])),
        input_names=tuple(head["input_names"]),
        outputs=tuple(map(_place, head["outputs"])),
        copies=tuple((_place(a), _place(b)) for a, b in head["copies"]),
        constants=constants,
        memory=MemoryPlan({}, total, least, {}),
    )


def _row(place: Place) -> list[Any]:
    return [place.home.value, place.at, list(place.shape), place.dtype]


def _place(row: list[Any]) -> Place:
    home, at, shape, dtype = row
    return Place(Home(home), at, tuple(shape), dtype)
