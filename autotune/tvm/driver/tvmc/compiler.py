"""From a model of tvmc to a package."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from autotune.errors import GraphError
from autotune.lowering.pass_context import PassContext
from autotune.network import ApplyHistoryBest
from autotune.record import apply_history_best
from autotune.target import Target
from autotune.tvm.driver.tvmc.model import TVMCModel, TVMCPackage
from autotune.tvm.relay.library import build
from autotune.utils.check import Check

_SEARCHED = {"relay.backend.use_auto_scheduler": True}


def compile_model(
    tvmc_model: TVMCModel,
    target: str | Target,
    opt_level: int = 3,
    executor: object = None,
    runtime: object = None,
    tuning_records: str | os.PathLike[str] | None = None,
    package_path: str | os.PathLike[str] | None = None,
    cross: object = None,
    cross_options: object = None,
    output_format: str = "so",
    dump_code: str | Sequence[str] | None = None,
    target_host: object = None,
    desired_layout: object = None,
    disabled_pass: object = None,
    pass_context_configs: object = None,
    additional_target_options: object = None,
    use_vm: bool = False,
    mod_name: str = "default",
    workspace_pools: object = None,
    instruments: object = None,
    desired_layout_ops: object = None,
) -> TVMCPackage:
    """Compile a model and write it to a file: ``tvmc.compile``.

    Args:
        tvmc_model: the model.
        target: what for.
        opt_level: level up to which networks are simplified.
        executor: accepted for TVM's scripts, as are all that are not listed here.
        runtime: accepted.
        tuning_records: a log of `tune`, of AutoTVM or of the auto-scheduler; one that is not there
            is passed over, as in TVM.
        package_path: where to; by default a file that ends with the model.
        cross: a compiler for other hosts, which there is none for.
        cross_options: accepted.
        output_format: "so" or "tar"; both are the same file.
        dump_code: what to write as text beside the package: "relay", "c" or "cuda".
        target_host: accepted.
        desired_layout: accepted: layouts are chosen by what is fast.
        disabled_pass: accepted.
        pass_context_configs: accepted.
        additional_target_options: accepted.
        use_vm: accepted.
        mod_name: name of the network in the library.
        workspace_pools: accepted.
        instruments: accepted.
        desired_layout_ops: accepted.

    Raises:
        GraphError: the network cannot be compiled.
    """
    check = Check(GraphError, "tvmc.compile")
    check.kind("tvmc_model", tvmc_model, TVMCModel, "what tvmc.load returns")
    check.one_of("output_format", output_format, ("so", "tar"))
    forms = [dump_code] if isinstance(dump_code, str) else list(dump_code or ())
    for form in forms:
        check.one_of("dump_code", form, ("relay", "c", "cuda"))
    if cross:
        check.refuse("cross", "None: kernels are compiled for this host", cross)
    records = os.fspath(tuning_records) if tuning_records else ""
    with _replayed(records, opt_level):
        lib = build(tvmc_model.mod, target, params=tvmc_model.params, mod_name=mod_name)
    place = Path(tvmc_model.default_package_path() if package_path is None else package_path)
    lib.export_library(place)
    for form in forms:
        text = str(tvmc_model.mod) if form == "relay" else lib.get_source(form)
        Path(f"{place}.{form}").write_text(text)
    return TVMCPackage(place)


@contextmanager
def _replayed(records: str, opt_level: int) -> Iterator[None]:
    """Let networks be compiled by the records of a log, which are of either kind."""
    if not records or not Path(records).is_file():
        with PassContext(opt_level):
            yield
    elif _is_searched(records):
        with ApplyHistoryBest(records), PassContext(opt_level, config=_SEARCHED):
            yield
    else:
        with apply_history_best(records), PassContext(opt_level):
            yield


def _is_searched(records: str) -> bool:
    """Return whether a log is one of the auto-scheduler: its rows have inputs by the name "i"."""
    with open(records) as file:
        rows = (line for line in file if line.strip() and not line.startswith("#"))
        first = next(rows, "{}")
    try:
        found = json.loads(first)
    except ValueError:
        return False  # format 0.1 of AutoTVM is not JSON
    return isinstance(found, dict) and "i" in found and "input" not in found
