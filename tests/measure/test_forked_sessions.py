"""A process that is forked while a session is open: it has none of the session's threads."""

import os
import subprocess
import sys
import textwrap

import autotune.task as at
from autotune.measure import LocalBuilder, LocalRunner, Session
from tests.measure import kernels  # noqa: F401 - registers the templates


def in_fork(work):
    """Returns what `work` returns in a fork of this process, or the message of what it raises."""
    read, write = os.pipe()
    if not (pid := os.fork()):
        try:
            os.write(write, str(work()).encode())
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        said = told.read()
    os.waitpid(pid, 0)
    return said


def test_a_forked_process_is_told_that_a_session_is_its_parents():
    task = at.create("measure_test.scale", (64, 64), target="c")
    with Session(LocalBuilder(n_parallel=1), LocalRunner(number=1, repeat=1)) as session:
        assert session.measure(task, [task.config_space.get(0)])[0].ok
        message = in_fork(lambda: session.measure(task, [task.config_space.get(1)]))
        assert message.startswith(
            "MeasureError: measure_test.scale: the session is that of process"
        )
        assert message.endswith(f" {os.getpid()}, from which this one was forked; open one here")

        def own():
            with Session(LocalBuilder(n_parallel=1), LocalRunner(number=1, repeat=1)) as mine:
                return mine.measure(task, [task.config_space.get(1)])[0].ok

        assert in_fork(own) == "True"


LEAVES = """
    import os, sys, autotune
    from autotune.measure import LocalBuilder, LocalRunner, Session
    from tests.measure import kernels
    task = autotune.create("measure_test.scale", (64, 64), target="c")
    with Session(LocalBuilder(n_parallel=1), LocalRunner(number=1, repeat=1)) as session:
        first = session.measure(task, [task.config_space.get(0)])[0].ok
        before = [*session.builder.pids, *session.runner.pids]
        if not (pid := os.fork()):
            sys.exit(0)  # leaves the session, and runs what interpreters run at their end
        os.waitpid(pid, 0)
        second = session.measure(task, [task.config_space.get(1)])[0].ok
        after = [*session.builder.pids, *session.runner.pids]
    print(first, second, len(before), before == after)
"""


def test_a_forked_process_that_exits_leaves_the_processes_of_its_parent_alone():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LEAVES)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split() == ["True", "True", "2", "True"], done.stderr
