"""A group of subcommands, whose help says of each in full what it does."""

from __future__ import annotations

import inspect

import click

from autotune.utils.names import did_you_mean


class FullHelpGroup(click.Group):
    """A group that lists the first paragraph of each subcommand; click would cut it short."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a subcommand; one that is unknown may be a slip of another."""
        name = args[0]  # of what begins like an option, click empties the list
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = did_you_mean(name, self.list_commands(ctx))
            raise click.UsageError(f"{error.message.rstrip('.')}{hint}", ctx) from error

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
