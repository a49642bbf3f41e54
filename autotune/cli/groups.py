"""A group of subcommands, whose help says of each in full what it does."""

from __future__ import annotations

import inspect

import click


class FullHelpGroup(click.Group):
    """A group that lists the first paragraph of each subcommand; click would cut it short."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands."""
        rows = [(name, self.summary(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return what a subcommand does: the first paragraph of its help."""
        command = self.get_command(ctx, name)
        text = inspect.cleandoc((command and command.help) or "")
        return " ".join(text.partition("\n\n")[0].split())
