"""``autotune serve``: the live page of logs."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from autotune.cli.modules import import_templates, module_option, with_logs
from autotune.cli.tables import say

LOG = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("paths", metavar="[FILE.py]... LOG...", nargs=-1, required=True, type=LOG)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port; 0 for any free one. [default: 8765, or any if that is in use]",
)
@click.option("--token", is_flag=True, help="Require a token on this machine too.")
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    help="Another host name of the page, such as that of a proxy.",
)
@module_option
@click.option("--open", "browse", is_flag=True, help="Open the page in the browser.")
def serve(
    paths: tuple[Path, ...],
    host: str,
    port: int | None,
    token: bool,
    names: tuple[str, ...],
    modules: tuple[str, ...],
    browse: bool,
) -> None:
    """Show logs on a page in the browser: live while they grow, also after the end.

    A log need not exist yet. FILE.py contains the templates of the logs; it is imported to show
    the source of the winner. Only this machine can open the page, unless --host is given; then the
    printed link contains a token, which is required.
    """
    from autotune.dashboard import Guard, Model, is_local, new_token, run
    from autotune.record.paths import log_path

    files, given = with_logs(paths)
    logs = list(map(log_path, given))
    import_templates(modules, files)
    secret = new_token() if token or not is_local(host) else None
    guard = Guard(host, secret, frozenset(name.lower() for name in names))

    def ready(link: str) -> None:
        say(f"{', '.join(map(str, logs))}: {link}")
        if missing := [str(path) for path in logs if not path.exists()]:
            say(f"Not there yet, and shown as soon as it is: {', '.join(missing)}")
        if secret:
            say("Anyone who has this link can read these logs; it is not shown again.")
        say("Ctrl-C ends it.")
        if browse:
            webbrowser.open(link)

    try:
        run(Model(logs), guard, port, ready)
    except KeyboardInterrupt:
        say("")
