"""``autotune model``: what is in a model of ONNX, and tuning it to a file that runs alone."""

from __future__ import annotations

import os
from pathlib import Path

import click

from autotune.cli.groups import FullHelpGroup
from autotune.cli.tables import Table, say
from autotune.errors import GraphError
from autotune.importers import ImportedNetwork, from_onnx
from autotune.network import export_network, report, tune_network
from autotune.utils.quantities import counted

_FILE = click.Path(dir_okay=False, path_type=Path)
_MODEL = click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_SHAPE = click.option(
    "--shape", "-s", "shapes", multiple=True, metavar="NAME=1,3,224,224",
    help="Extents of an input, or of a dimension by its name (batch=1); several times.",
)  # fmt: skip
_VALUE = click.option(
    "--value", "-v", "values", multiple=True, metavar="NAME=NUMBER",
    help="The number of an input without dimensions that is always the same; several times.",
)  # fmt: skip

_OUTPUT = click.option(
    "--output", "outputs", multiple=True, metavar="NAME",
    help="A value in the model that is a result, in place of the model's own; several times.",
)  # fmt: skip


@click.group(cls=FullHelpGroup)
def model() -> None:
    """Show models in ONNX, and tune them to files that run without a compiler."""


@model.command()
@_MODEL
@_SHAPE
@_VALUE
@_OUTPUT
def show(
    model: Path, shapes: tuple[str, ...], values: tuple[str, ...], outputs: tuple[str, ...]
) -> None:
    """List inputs, outputs and operators of MODEL, after shape arithmetic is computed."""
    read = _read(model, shapes, values, outputs)
    graph, rows = read.graph, []
    rows += [("input", each.name, str(each.type)) for each in graph.inputs]
    results = zip(read.output_names, graph.outputs, strict=True)
    rows += [("output", name, str(each.type)) for name, each in results]
    say(Table(("", "name", "type"), rows))
    counts: dict[str, int] = {}
    for node in graph.nodes:
        counts[node.op.name] = counts.get(node.op.name, 0) + 1
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    say(Table(("operator", "times"), [(name, str(n)) for name, n in ordered], right=(1,)))
    weights = sum(each.type.bytes for each in graph.constants)
    say(f"{graph.flop / 1e6:.1f} million operations, {weights / 1e6:.1f} MB of weights")


@model.command()
@_MODEL
@_SHAPE
@_VALUE
@_OUTPUT
@click.option("--target", "-t", default="cuda", show_default=True, help="What to tune for.")
@click.option("--budget", "-b", type=float, required=True, help="Seconds in all.")
@click.option(
    "--log",
    type=_FILE,
    help="Log of the trials; the same call again continues. [default: MODEL's name, .log]",
)
@click.option(
    "--out",
    "-o",
    type=_FILE,
    help="File for `autotune.network.load_network`. [default: MODEL's name, .network]",
)
def tune(
    model: Path,
    shapes: tuple[str, ...],
    values: tuple[str, ...],
    outputs: tuple[str, ...],
    target: str,
    budget: float,
    log: Path | None,
    out: Path | None,
) -> None:
    """Tune MODEL within a budget of seconds, and write it to a file."""
    log, out = log or Path(f"{model.stem}.log"), out or Path(f"{model.stem}.network")
    if len({path.resolve() for path in (model, log, out)}) < 3:
        raise GraphError(f"MODEL, --log and --out must be three files, got {model}, {log}, {out}")
    if not os.access(out.resolve().parent, os.W_OK):  # said before the budget is spent
        raise GraphError(f"--out must be in a folder that can be written to, got {out}")
    graph = _read(model, shapes, values, outputs).graph
    network = tune_network(graph, {}, target, budget_s=budget, log=log)
    export_network(network, out)
    say(str(report(network.instance())))
    say(f"{counted(len(network.modules), 'kernel')} in {out}")


def _read(
    path: Path, shapes: tuple[str, ...], values: tuple[str, ...], outputs: tuple[str, ...]
) -> ImportedNetwork:
    """Read a model with the options of a command."""
    given: dict[str, tuple[int, ...] | int] = {}
    for name, text in _pairs("--shape", shapes):
        try:
            extents = tuple([int(n) for n in text.replace("x", ",").split(",")])
        except ValueError:
            raise GraphError(f"--shape {name}: expected 1,3,224,224, got {text!r}") from None
        given[name] = extents
    fixed: dict[str, float] = {}
    for name, text in _pairs("--value", values):
        try:
            fixed[name] = float(text)
        except ValueError:
            raise GraphError(f"--value {name}: expected a number, got {text!r}") from None
    return from_onnx(path, given, values=fixed, outputs=outputs or None)


def _pairs(option: str, given: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return names and texts."""
    pairs = []
    for each in given:
        name, sign, text = each.rpartition("=")
        if not sign or not name:
            raise GraphError(f"{option}: expected NAME=..., got {each!r}")
        pairs.append((name, text))
    return pairs
