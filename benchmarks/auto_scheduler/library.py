"""Winners of the auto-scheduler beside what PyTorch calls for the same, on a GPU, in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from autotune.auto_scheduler import SearchTask
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.driver import kernel_of
from autotune.kernel import Kernel
from autotune.measure import exclusive
from benchmarks.auto_scheduler.cases import CASES
from benchmarks.cubin import Loaded, Replays, build, race
from benchmarks.templates_gpu import captured_rivals


def compiled(
    name: str, task: SearchTask, best: RecordedState, folder: str | Path
) -> tuple[Kernel, Path]:
    """Compile a winner by nvcc; return the kernel and the cubin, which is in a folder."""
    kernel = kernel_of(task.realise(best).what, task.target)
    cubin, log = build(kernel, str(folder), str(task.target.arch))
    if cubin is None:
        raise RuntimeError(f"{name}: nvcc does not build what was measured: {log}")
    return kernel, cubin


def beside_library(name: str, kernel: Kernel, cubin: Path) -> dict[str, Any]:
    """Time a winner in turns with what PyTorch calls for the same; both times in us."""
    import torch

    rng = np.random.default_rng(0)
    arrays = {}
    for each in kernel.args:
        values = torch.from_numpy(rng.standard_normal(each.shape, "float32"))
        arrays[each.name] = values.to("cuda", getattr(torch, each.dtype))
    extra = {each.name: torch.empty(each.shape, device="cuda") for each in kernel.workspace}
    # cuDNN chooses by times of its own: it has the device alone for that as well.
    with exclusive("cuda"):
        library = captured_rivals(CASES[name].library(list(arrays.values())))
        ours = Replays(Loaded(kernel, cubin, arrays | extra).run)
        theirs, mine = race([library, {"autotune": ours}], rounds=20)
    return {"library": theirs.name, "library_us": theirs.median, "beside_us": mine.median}
