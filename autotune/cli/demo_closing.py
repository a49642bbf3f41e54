"""How the demonstration ends: what was won, and how to use it."""

from __future__ import annotations

import importlib
import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from autotune.cli import demo
from autotune.kernel import SourceKernel
from autotune.target import Target
from autotune.task import ApplyConfig, FallbackConfigEntity
from autotune.utils.quantities import microseconds


def won(comparison: demo.Comparison) -> str:
    """Return one sentence: the tuned time, and its ratio to each of the others."""
    tuned = comparison.timings[demo.TUNED].median
    others = [
        f"{timing.median / tuned:.2f}x as fast as {name}"
        for name, timing in comparison.timings.items()
        if name != demo.TUNED
    ]
    return f"Tuned, the layer takes {microseconds(tuned)}: {', '.join(others)}."


def next_steps(target: Target, log: Path) -> str:
    """Return what can be done with the log: call the kernel, read it, see the trials."""
    kind, command = demo.template_suffix(target), program()
    python = "" if command == "autotune" else f" (run it with {Path(command).with_name('python')})"
    return f"""\
The best configuration is in {log}. This program uses it{python}:

{textwrap.indent(example(kind, target, log), "    ")}
    {command} log best {log}    # its source text
    {command} serve {log}       # all trials, in the browser

To tune a kernel of yours: docs/start.md"""


def example(kind: str, target: Target, log: Path) -> str:
    """Return a complete program that calls the tuned kernel: it runs as it is printed."""
    template: Callable[..., SourceKernel] = getattr(
        importlib.import_module("autotune.templates.source"), f"conv2d_nchw_{kind}"
    )
    with ApplyConfig(FallbackConfigEntity()), target:
        *inputs, out = template(*demo.LAYER).args
    drawn = "\n".join(f"{a.name} = random.standard_normal({a.shape}, {a.dtype!r})" for a in inputs)
    names = ", ".join(a.name for a in inputs)
    return f"""\
import numpy
import autotune, autotune.templates

with autotune.apply_history_best({str(log)!r}), autotune.Target({str(target)!r}):
    conv = autotune.build(autotune.templates.source.conv2d_nchw_{kind}{demo.LAYER})
random = numpy.random.default_rng(0)
{drawn}
{out.name} = numpy.empty({out.shape}, {out.dtype!r})
conv({names}, {out.name})  # also torch tensors, and all with __dlpack__
print({out.name}.shape, {out.name}.mean())
"""


def program() -> str:
    """Return how this program is called: by its name if the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which("autotune")
    if called.name != "autotune" or (found and Path(found).resolve() == called.resolve()):
        return "autotune"
    return str(called)
