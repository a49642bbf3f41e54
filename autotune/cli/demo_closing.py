"""How the demonstration ends: what was won, and how to use it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from autotune.cli import demo
from autotune.target import Target
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
    python = "" if command == "autotune" else f" that {Path(command).with_name('python')} runs"
    return f"""\
The best configuration is in {log}. Use it in a program{python}:

    import autotune, autotune.templates
    with autotune.apply_history_best({str(log)!r}), autotune.Target({str(target)!r}):
        conv = autotune.build(autotune.templates.source.conv2d_nchw_{kind}{demo.LAYER})
    conv(data, weight, bias, out)  # numpy or torch

    {command} log best {log}    # its source text
    {command} serve {log}       # all trials, in the browser

To tune a kernel of yours: docs/start.md"""


def program() -> str:
    """Return how this program is called: by its name if the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which("autotune")
    if called.name != "autotune" or (found and Path(found).resolve() == called.resolve()):
        return "autotune"
    return str(called)
