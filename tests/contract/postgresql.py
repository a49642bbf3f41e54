"""A server of PostgreSQL of the tests' own, where its programs are installed."""

import os
import shlex
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

# Where Debian puts programs that are not in PATH.
_HOMES = "/usr/lib/postgresql/*/bin"


def programs():
    """Returns the folder of the server's programs, or None."""
    found = shutil.which("initdb")
    homes = sorted(Path("/").glob(_HOMES.lstrip("/")))
    return Path(found).parent if found else (homes[-1] if homes else None)


def why_not():
    """Returns why there can be no server here; empty where there can."""
    if programs() is None:
        return "PostgreSQL is not installed: apt-get install postgresql"
    if os.getuid() == 0 and (shutil.which("setpriv") is None or not _user_exists("postgres")):
        return "PostgreSQL does not run as root, and there is no user postgres"
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        return f"PostgreSQL's driver is not installed: {error}"
    return ""


@contextmanager
def server():
    """Gives the URL of a database on a server that is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="autotune-pg-") as text:
        folder = Path(text)
        if os.getuid() == 0:
            folder.chmod(0o755)
            (folder / "data").mkdir()
            shutil.chown(folder / "data", "postgres")
        data = str(folder / "data")
        _run("initdb", "--no-sync", "-E", "UTF8", "--locale=C", "-U", "tuner", "-A", "trust", data)
        options = f"-k {shlex.quote(data)} -c listen_addresses= -c fsync=off"
        _run("pg_ctl", "-D", data, "-l", f"{data}/log", "-w", "-t", "80", "-o", options, "start")
        try:
            yield f"postgresql://tuner@/postgres?host={quote(data)}"
        finally:
            _run("pg_ctl", "-D", data, "-m", "immediate", "stop")


def _user_exists(name):
    import pwd

    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


def _run(program, *words):
    command = [str(programs() / program), *words]
    if os.getuid() == 0:
        become = ["--reuid=postgres", "--regid=postgres", "--clear-groups"]
        command = ["setpriv", *become, *command]
    done = subprocess.run(
        command, cwd="/", text=True, timeout=90, stdin=subprocess.DEVNULL, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
