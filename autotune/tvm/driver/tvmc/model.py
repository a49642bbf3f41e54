"""What passes from one step of tvmc to the next: a model, a package, a result."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TextIO

import numpy as np

from autotune.errors import GraphError
from autotune.network import load_param_dict, save_param_dict
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.evaluator import BenchmarkResult
from autotune.tvm.contrib.utils import TempDirectory
from autotune.tvm.relay.function import IRModule
from autotune.tvm.relay.json_form import load_json, save_json
from autotune.tvm.relay.library import GraphExecutorFactoryModule
from autotune.tvm.runtime.module import load_module
from autotune.utils.check import Check


class TVMCModel:
    """A network of relay and the numbers of its parameters.

    Attributes:
        mod: the network.
        params: numbers by name.

    Raises:
        GraphError: ``model_path`` is no file that `save` wrote.
    """

    def __init__(
        self,
        mod: object = None,
        params: Mapping[str, Any] | None = None,
        model_path: str | os.PathLike[str] | None = None,
    ) -> None:
        check = Check(GraphError, "TVMCModel")
        if (mod is None) == (model_path is None):
            check.refuse("mod", "a module of relay, or model_path a file that save wrote", mod)
        if model_path is not None:
            mod, params = _loaded(model_path)
        self.mod = IRModule.from_expr(mod)
        self.params: dict[str, Any] = dict(params or {})

    @cached_property
    def _folder(self) -> TempDirectory:
        return TempDirectory()

    def default_tuning_records_path(self) -> str:
        """Return where `tune` writes records unless it is told; it ends with the model."""
        return self._folder.relpath("tuning_records.json")

    def default_package_path(self) -> str:
        """Return where `compile` writes a package unless it is told; it ends with the model."""
        return self._folder.relpath("model_package.tar")

    def summary(self, file: TextIO | None = None) -> None:
        """Print the network."""
        print(self.mod, file=file)

    def save(self, model_path: str | os.PathLike[str]) -> None:
        """Write the network and its parameters to a file for ``TVMCModel(model_path=...)``.

        The file is an archive (tar), as in TVM, but what is in it is autotune's own.

        Raises:
            GraphError: the file cannot be written.
        """
        parts = (save_json(self.mod).encode(), bytes(save_param_dict(self.params)))
        try:
            with tarfile.open(os.fspath(model_path), "w") as archive:
                for name, data in zip(_PARTS, parts, strict=True):
                    entry = tarfile.TarInfo(name)
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
        except (OSError, TypeError, ValueError) as error:
            raise GraphError(f"cannot write the model to {model_path!r}: {error}") from error


# The network and its parameters in a file of a model.
_PARTS = ("mod.json", "mod.params")


def _loaded(model_path: str | os.PathLike[str]) -> tuple[object, Mapping[str, Any]]:
    """Return the network and the parameters in a file; nothing is unpacked to the disk."""
    try:
        with tarfile.open(os.fspath(model_path), "r:") as archive:
            text, params = (_part(archive, name) for name in _PARTS)
    except (OSError, tarfile.TarError, KeyError, TypeError, ValueError) as error:
        raise GraphError(
            f"TVMCModel: model_path must be a file that TVMCModel.save wrote, got {model_path!r}: "
            f"{error}"
        ) from error
    return load_json(text.decode("utf-8", "replace")), load_param_dict(params)


def _part(archive: tarfile.TarFile, name: str) -> bytes:
    """Return a file in an archive; links, and files with holes, which may be large, are none."""
    entry = archive.getmember(name)
    file = archive.extractfile(entry) if entry.isreg() and not entry.issparse() else None
    if file is None:
        raise tarfile.TarError(f"{name} is no plain file")
    return file.read()


class TVMCPackage:
    """A compiled network in a file, which holds its kernels, its plan and its weights.

    Attributes:
        package_path: the file.
        lib: the library in it, which ``graph_executor.GraphModule(lib["default"](dev))`` runs.
    """

    def __init__(
        self,
        package_path: str | os.PathLike[str],
        project_dir: object = None,
        use_vm: bool = False,
    ) -> None:
        if project_dir is not None:
            Check(GraphError, "TVMCPackage").refuse("project_dir", "None", project_dir)
        del use_vm  # networks are one function each, in whatever way scripts run them
        self.package_path = os.fspath(package_path)
        lib = load_module(package_path)
        if not isinstance(lib, GraphExecutorFactoryModule):
            raise GraphError(
                f"TVMCPackage: expected what tvmc.compile wrote, got {self.package_path!r}"
            )
        self.lib = lib

    @property
    def lib_path(self) -> str:
        """The file of the library: the package itself."""
        return self.package_path

    @property
    def graph(self) -> str:
        """The order of kernels as JSON."""
        return self.lib.get_graph_json()

    @property
    def params(self) -> dict[str, NDArray]:
        """The constants, named p0, p1, ..."""
        return self.lib.params


class TVMCResult:
    """What a run gave.

    Attributes:
        outputs: arrays by name: output_0, output_1, ...
        times: of whole runs, in seconds.
    """

    def __init__(
        self, outputs: Mapping[str, np.ndarray[Any, Any]], times: BenchmarkResult
    ) -> None:
        self.outputs = dict(outputs)
        self.times = times

    def format_times(self) -> str:
        """Return a table of the times."""
        return str(self.times)

    def get_output(self, name: str) -> np.ndarray[Any, Any]:
        """Return an output.

        Raises:
            GraphError: there is none of the name.
        """
        if name not in self.outputs:
            Check(GraphError, "get_output").refuse("name", f"one of {[*self.outputs]}", name)
        return self.outputs[name]

    def save(self, output_path: str | os.PathLike[str]) -> None:
        """Write the outputs to a file of numpy (.npz).

        Raises:
            GraphError: the file cannot be written.
        """
        try:
            np.savez(os.fspath(output_path), **self.outputs)  # type: ignore[arg-type]
        except OSError as error:
            raise GraphError(f"cannot write outputs to {output_path}: {error.strerror}") from error

    def __str__(self) -> str:
        return f"{self.format_times()}\nOutput Names:\n {[*self.outputs]}"
