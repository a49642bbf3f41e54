"""``autotune demo``."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.cli.demo import default_target, run, table
from autotune.cli.demo_closing import next_steps, won
from autotune.target import Target

_TRIALS = {"cuda": 300, "c": 64}


@click.command()
@click.option("--target", help="Target to tune for. [default: a CUDA device if there is one]")
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    help="Configurations to measure. [default: 300 on a GPU, else 64]",
)
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("tuning/demo.log"),
    show_default=True,
    help="Log of the trials; those that it contains are not repeated.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the tuner.")
def demo(target: str | None, trials: int | None, log: Path, seed: int) -> None:
    """Tune a real convolution, replay it from its log, verify it."""
    chosen = Target(target) if target else default_target()
    try:
        found = run(chosen, trials or _TRIALS[chosen.language], log, seed)
    except KeyboardInterrupt:
        click.echo(f"\nThe same command continues from {log}.")
        raise
    click.echo(f"\nlargest error of the replayed kernel: {found.error:.1e} (relative)")
    click.echo(f"\n{table(found)}\n\n{won(found)}\n")
    for note in filter(None, (found.drift, found.note)):
        click.echo(f"{note}\n")
    click.echo(next_steps(chosen, log))
