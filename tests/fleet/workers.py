"""Schedulers and workers in processes of their own, to be killed, stopped, cut off and replaced.

The process of the tests runs no part of Dask but its client: what a scheduler has (threads, random
numbers, ports that others have, too) is no company for other tests.
"""

import contextlib
import os
import signal

from tests.forked import Script

# What forked workers need not import again.
IMPORTED = ["distributed", "autotune.fleet.serve", "tests.fleet.doubles"]

SCHEDULER = """
    import asyncio, sys
    from autotune.fleet.serve import security_of
    from distributed import Scheduler

    async def main():
        port, *tls = sys.argv[1:]
        where = {"host": "127.0.0.1", "port": int(port), "protocol": "tls" if tls else "tcp"}
        security = security_of(*tls) if tls else None
        async with Scheduler(
            **where, security=security, dashboard=False, dashboard_address="127.0.0.1:0"
        ) as made:
            print(made.address, flush=True)
            await made.finished()

    asyncio.run(main())
"""

# SIGUSR1 closes all its connections, as a network does that breaks.
SCRIPT = """
    import os, signal, socket, sys
    import dask
    from autotune.fleet.agent import Agent
    from autotune.fleet.serve import serve

    scheduler, name, kind = sys.argv[1:4]
    dask.config.set({"distributed.worker.daemon": False})
    if kind != "real":
        from tests.fleet.doubles import stand_in
        stand_in(kind)

    def cut(*_):
        for fd in os.listdir("/proc/self/fd"):
            try:
                if not os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                    continue
                with socket.socket(fileno=os.dup(int(fd))) as one:
                    if one.family in (socket.AF_INET, socket.AF_INET6):
                        one.getpeername()
                        one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    signal.signal(signal.SIGUSR1, cut)
    agent = Agent(name, ["cpu"], 1)
    serve(scheduler, agent, ready=lambda address: print(address, flush=True))
"""


@contextlib.contextmanager
def started_scheduler(port=0, tls=()):
    """Gives the address of a scheduler, which is killed at the end.

    Args:
        port: where it listens; 0 for any.
        tls: files of the authority, of its certificate and of its key.
    """
    script = Script(SCHEDULER, port, *tls)
    try:
        address = script.stdout.readline().strip()
        assert address, "no scheduler was started"
        yield address
    finally:
        script.kill()
        script.wait(10)
        script.stdout.close()


class Worker:
    """One worker.

    Args:
        scheduler: its address.
        name: of the worker.
        kind: "quick" stands in for compilers and devices, "liar" says that all fails, "full" has
            no room on its disk, "mute" never answers a trial, "slow" takes its time,
            "meets 4 folder" runs trials when four do, "real" uses the host's.
    """

    def __init__(self, scheduler, name, kind="quick"):
        self.name = name
        self.stopped = False
        self.script = Script(SCRIPT, scheduler, name, kind)

    @property
    def lives(self):
        return self.script.poll() is None

    def signal(self, number):
        if self.lives:
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.kill(self.script._process.pid, number)

    def kill(self):
        """End it as a power cut does."""
        self.signal(signal.SIGKILL)
        self.script.wait(10)

    def leave(self):
        """End it as a batch system does."""
        self.resume()
        self.signal(signal.SIGTERM)

    def stop(self):
        """Let it hang."""
        self.stopped = True
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.stopped = False
        self.signal(signal.SIGCONT)

    def cut(self):
        """Break all its connections."""
        self.signal(signal.SIGUSR1)

    def end(self):
        """End it as its user does, with all that it has started."""
        self.leave()
        self.script.wait(10)
        self.close()

    def close(self):
        self.kill()
        self.script.stdout.close()
