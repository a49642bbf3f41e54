"""The ``autotune`` command. Each subcommand's module is imported when it is called."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from importlib import import_module

import click

from autotune.cli.groups import FullHelpGroup
from autotune.errors import AutotuneError
from autotune.utils.escaping import visible
from autotune.version import __version__

# Subcommand -> (where it lives, what it does); the text is here so that help imports nothing.
COMMANDS = {
    "demo": (
        "autotune.cli.demo_command:demo",
        "Tune a real convolution, replay it from its log, verify it.",
    ),
    "devices": ("autotune.cli.devices:devices", "List the devices kernels can be tuned for."),
    "export": (
        "autotune.cli.exchange:export",
        "Write the trials of a log for other tuners, or its kernels for C, C++ and Python.",
    ),
    "fleet": ("autotune.cli.fleet:fleet", "Show the workers of a fleet."),
    "hub": ("autotune.cli.hub:hub", "List, fetch and make packs of tuned records."),
    "import": (
        "autotune.cli.exchange:import_",
        "Make a log of what Kernel Tuner, Triton or a T4 file measured.",
    ),
    "lock": (
        "autotune.cli.lock:lock",
        "Pin the best kernels of logs, and check that they still hold.",
    ),
    "log": ("autotune.cli.log:log", "Show and rewrite logs of trials."),
    "model": (
        "autotune.cli.model:model",
        "Show a model in ONNX; tune it, and write it to a file that runs alone.",
    ),
    "report": (
        "autotune.cli.report:report",
        "Write logs as one HTML file; compare two of them.",
    ),
    "serve": (
        "autotune.cli.serve:serve",
        "Show logs on a page in the browser, live while they grow.",
    ),
    "verify": (
        "autotune.cli.verify:verify",
        "Build, check and time the best records of a log again.",
    ),
    "worker": (
        "autotune.cli.fleet:worker",
        "Compile and measure on this host for a fleet.",
    ),
}

# No space left on the device.
_FULL = (errno.ENOSPC, errno.EDQUOT)


class LazyGroup(FullHelpGroup):
    """A group that imports a subcommand when it is called, and prints our errors plainly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one subcommand."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return what a subcommand does, without importing it."""
        return COMMANDS[name][1]

    def invoke(self, ctx: click.Context) -> object:
        """Run a subcommand; a mistake of the user becomes one message."""
        try:
            return super().invoke(ctx)
        except AutotuneError as error:
            raise click.ClickException(visible(str(error), lines=True)) from error
        except OSError as error:
            if error.errno not in _FULL:
                raise
            if not error.filename:
                _forget_what_is_printed()
            what = error.filename or "what is printed"
            raise click.ClickException(f"cannot write {what}: {error.strerror}") from error


def _forget_what_is_printed() -> None:
    """Lead the standard output nowhere: Python would write what it still holds when it ends."""
    with contextlib.suppress(OSError), open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@click.group(cls=LazyGroup)
@click.version_option(__version__, prog_name="autotune")
def main() -> None:
    """Tune kernels, and manage the logs that hold the results."""
