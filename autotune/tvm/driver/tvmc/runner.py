"""Run a package of tvmc."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from zipfile import BadZipFile

import numpy as np

from autotune.errors import GraphError
from autotune.runtime.arrays.array import numpy_dtype
from autotune.runtime.device import Device
from autotune.runtime.device import device as find_device
from autotune.tvm.contrib.graph_executor import GraphModule
from autotune.tvm.driver.tvmc.model import TVMCPackage, TVMCResult
from autotune.utils.check import Check

# Whole numbers that are drawn are below it, as in TVM.
_BELOW = 128


def run_module(
    tvmc_package: TVMCPackage,
    device: str | Device,
    hostname: str | None = None,
    port: int | str = 9090,
    rpc_key: str | None = None,
    inputs: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    fill_mode: str = "random",
    benchmark: bool = False,
    repeat: int = 10,
    number: int = 10,
    profile: bool = False,
    end_to_end: bool = False,
    options: object = None,
) -> TVMCResult:
    """Run a network and time it: ``tvmc.run``.

    Args:
        tvmc_package: what `compile` returns.
        device: "cpu", "cuda", or a device.
        hostname: another host, which there is no way to.
        port: accepted for TVM's scripts.
        rpc_key: as ``hostname``.
        inputs: arrays by name, or a file of numpy (.npz) with them.
        fill_mode: what inputs are that are not given: "random", "zeros" or "ones".
        benchmark: accepted: runs are timed in any case.
        repeat: how many measurements.
        number: runs in each.
        profile: not supported; ``contrib.debugger.debug_executor`` times each kernel.
        end_to_end: whether copies of inputs and outputs are timed too.
        options: accepted.

    Raises:
        GraphError: inputs do not fit the network.
    """
    check = Check(GraphError, "tvmc.run")
    check.kind("tvmc_package", tvmc_package, TVMCPackage, "what tvmc.compile returns")
    check.one_of("fill_mode", fill_mode, ("random", "zeros", "ones"))
    if hostname or rpc_key:
        check.refuse(
            "hostname and rpc_key", "None: packages run on this host", (hostname, rpc_key)
        )
    if profile:
        check.refuse("profile", "False; debug_executor prints the time of each kernel", profile)
    chosen = find_device(device) if isinstance(device, str) else device
    lib = tvmc_package.lib
    module = GraphModule(lib[lib.libmod_name](chosen))
    given = _given(inputs)
    shapes, dtypes = module.get_input_info()
    for name in given:
        if name not in shapes:
            check.refuse("inputs", f"arrays of {', '.join(shapes)}", name)
    draws = np.random.default_rng(0)
    for name, shape in shapes.items():
        value = given[name] if name in given else _filled(draws, shape, dtypes[name], fill_mode)
        module.set_input(name, value)
    module.run()
    count = range(module.get_num_outputs())
    outputs = {f"output_{i}": module.get_output(i).numpy().copy() for i in count}
    times = module.benchmark(chosen, repeat=repeat, number=number, end_to_end=end_to_end)
    return TVMCResult(outputs, times)


def _given(inputs: Mapping[str, Any] | str | os.PathLike[str] | None) -> dict[str, Any]:
    if inputs is None or isinstance(inputs, Mapping):
        return dict(inputs or {})
    if not isinstance(inputs, (str, os.PathLike)):
        Check(GraphError, "tvmc.run").refuse("inputs", "arrays by name, or a file of them", inputs)
    try:
        arrays = np.load(inputs)
    except (OSError, ValueError, BadZipFile) as error:
        raise GraphError(f"tvmc.run: cannot read inputs of {inputs}: {error}") from error
    if not isinstance(arrays, np.lib.npyio.NpzFile):
        Check(GraphError, "tvmc.run").refuse("inputs", "a file of named arrays (.npz)", inputs)
    with arrays:
        return dict(arrays)


def _filled(
    draws: np.random.Generator, shape: tuple[int, ...], dtype: str, mode: str
) -> np.ndarray[Any, Any]:
    kind = numpy_dtype(dtype)
    if mode != "random":
        return np.full(shape, mode == "ones", kind)
    if kind.kind in "iu":
        return draws.integers(0, _BELOW, shape).astype(kind)
    return draws.uniform(-1, 1, shape).astype(kind)
