"""``autotune worker`` and ``autotune fleet``: the hosts of a fleet."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Mapping, Sequence

import click

from autotune.cli.groups import FullHelpGroup
from autotune.cli.tables import Table, as_json, say
from autotune.errors import FleetError

SCHEDULER = click.option(
    "--scheduler",
    required=True,
    envvar="AUTOTUNE_SCHEDULER",
    help="Address of Dask's scheduler, such as tls://host:8786. [env: AUTOTUNE_SCHEDULER]",
)
_TLS = (
    click.option("--tls-ca-file", "ca", help="Certificate of the authority (PEM)."),
    click.option("--tls-cert", "cert", help="Certificate of this process (PEM)."),
    click.option("--tls-key", "key", help="Key of this process (PEM)."),
)
_HEADS = (
    "worker", "host", "place", "device", "arch", "driver", "toolkit", "queue", "done", "failed"
)  # fmt: skip


def tls(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command the options of TLS."""
    for option in reversed(_TLS):
        command = option(command)
    return command


@click.command()
@SCHEDULER
@click.option("--name", help="Name of the worker. [default: host and process]")
@click.option(
    "--device",
    "devices",
    multiple=True,
    help="A device it measures on: cuda:0, cpu; none for a worker that only compiles. May be "
    "given again. [default: all GPUs, or without any the CPU]",
)
@click.option(
    "--builders", type=click.IntRange(0), help="Concurrent compilations. [default: one per core]"
)
@click.option("--host", help="Name or address of this host for the other hosts.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on. [default: any]"
)
@tls
@click.option(
    "--insecure", is_flag=True, help="Join a scheduler on another host even without TLS."
)
def worker(
    scheduler: str,
    name: str | None,
    devices: tuple[str, ...],
    builders: int | None,
    host: str | None,
    port: int,
    ca: str | None,
    cert: str | None,
    key: str | None,
    insecure: bool,
) -> None:
    """Compile and measure on this host for the clients of the scheduler.

    Each device is owned by one process; builders run in others. A worker runs native code that it
    is sent, as the user who started it: give access only to people who may have a shell of that
    user. Between hosts it requires TLS. It runs until SIGTERM, Ctrl-C or the end of its terminal
    (unless nohup started it), and reconnects when the scheduler is restarted.
    """
    from autotune.fleet.agent import Agent
    from autotune.fleet.link import distributed

    distributed()
    from autotune.fleet.serve import security_of, serve

    scheduler = _encrypted(scheduler, ca)
    alone = not insecure and not scheduler.startswith("tls://")
    if alone:
        # By default Dask's workers listen to all the network.
        host = host or _loopback(scheduler)
        _require_loopback(scheduler, host, port)
    security = security_of(ca, cert, key)
    chosen = None if not devices else [] if devices == ("none",) else list(devices)
    agent = Agent(name or f"{socket.gethostname()}-{os.getpid()}", chosen, builders)
    facts = agent.facts
    shown = ", ".join(f"{one.key} {one.name}" for one in facts.devices) or "no device"
    say(f"{facts.name}: {shown}; {facts.builders} builders")
    serve(
        scheduler,
        agent,
        security=security,
        host=host,
        port=port,
        ready=lambda address: say(f"{facts.name}: joined {scheduler} as {address}"),
        allows=_is_closed if alone else lambda address: True,
    )


def _encrypted(scheduler: str, ca: str | None) -> str:
    """Return an address with what Dask needs in front of it where certificates are given."""
    return f"tls://{scheduler}" if ca and "://" not in scheduler else scheduler


def _require_loopback(scheduler: str, host: str, port: int) -> None:
    """Refuses a scheduler, or a worker's own address, that others reach without TLS."""
    if not is_loopback(scheduler):
        raise FleetError(
            f"{scheduler} is on another host and not encrypted: anyone who can reach it could run "
            "code here. Use TLS (tls://..., --tls-ca-file, --tls-cert, --tls-key), or say "
            "--insecure where the network itself keeps others out"
        )
    if not is_loopback(f"{host}:{port}"):
        raise FleetError(
            f"--host {host}: others could reach this worker there without TLS, and run code "
            "here. Use TLS, leave --host out, or say --insecure where the network itself "
            "keeps others out"
        )


def _loopback(address: str) -> str:
    """Return the address of this host by which only it is reached: of version 6 as another is."""
    return "::1" if "[" in address else "127.0.0.1"


def _is_closed(address: str) -> bool:
    """Return whether a scheduler at an address keeps strangers out."""
    return address.startswith("tls://") or is_loopback(address)


def is_loopback(address: str) -> bool:
    """Return whether an address is of this host and reached by nobody else."""
    host = address.rpartition("://")[2].rpartition(":")[0].strip("[]")
    if host == "localhost" or address.startswith("inproc://"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@click.group(cls=FullHelpGroup)
def fleet() -> None:
    """Inspect a fleet of workers."""


@fleet.command()
@SCHEDULER
@tls
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
def status(scheduler: str, ca: str | None, cert: str | None, key: str | None, json_: bool) -> None:
    """Show the workers: devices, builders, queues and results; exit 1 if none can be used."""
    from autotune.fleet import Fleet
    from autotune.fleet.link import distributed

    distributed()
    from autotune.fleet.serve import security_of

    scheduler = _encrypted(scheduler, ca)
    with Fleet(scheduler, security=security_of(ca, cert, key), install=False) as here:
        rows = here.status()
    if json_:
        click.echo(as_json(rows))
    elif not rows:
        say(f"no worker at {scheduler}; start one: autotune worker --scheduler {scheduler}")
    else:
        _print_status(rows)
    if all(row["aside"] for row in rows):
        raise SystemExit(1)


def _print_status(rows: Sequence[Mapping[str, object]]) -> None:
    used = [row for row in rows if row["place"]]
    cells = [[str(row[head]) for head in _HEADS] + [f"{row['rate']:.2f}"] for row in used]
    if cells:
        say(Table([*_HEADS, "per second"], cells, right=(7, 8, 9, 10)))
    for row in rows:
        if row["aside"]:
            say(f"{row['worker']} {row['place']}".rstrip() + f" is not used: {row['aside']}")
