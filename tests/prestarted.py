"""Processes of builders and runners that are forked from one that has imported what they need.

To start an interpreter and import that takes most of the time of a test that builds or runs one
kernel. Such a process still is a child of the process of the tests (``CLONE_PARENT``), leads its
own group, and has its own pipes, environment and folder. Where this cannot be done, processes are
started as ever; so are those of tests whose claim is how they start, see `started_anew`. Those of
programs that are forked themselves are forked from a copy of these, see `forks_of_this_process`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.runtime.compile import compilers
from autotune.utils import child, children

WORKERS = ("autotune.measure.build.worker", "autotune.measure.run.worker")
# What an interpreter and libraries read of the environment when they are loaded.
_READ_AT_START = ("PYTHON", "LD_", "OPENBLAS", "MKL", "OMP", "GOMP", "MALLOC", "GLIBC")
_MOST_BYTES = 1 << 17
_SYS_CLONE = 56  # on x86-64, where its arguments are in the order used here
_CLONE_PARENT, _CLONE_CHILD_SETTID, _CLONE_CHILD_CLEARTID = 0x8000, 0x01000000, 0x00200000


class _Template:
    """A process that has imported a module, and forks others on request.

    Args:
        spec: of the child it stands for: path, root of the package, empty packages, module.
        environment: with which it is started.
    """

    def __init__(self, spec, environment):
        _, _, bare, module, *_ = spec
        self._process = children.Child(__name__, environment, bare[1:])
        with tempfile.TemporaryDirectory() as folder, _socket() as listening:
            path = str(Path(folder, "link"))
            listening.bind(path)
            listening.listen(1)
            listening.settimeout(60)
            self._process.send({"module": module, "link": path})
            self.works = self._process.receive(60)["works"]
            self._link = listening.accept()[0] if self.works else None

    def fork(self, order, descriptors):
        """Returns the id of a new process."""
        text = json.dumps(order).encode()
        if len(text) > _MOST_BYTES:
            return None
        socket.send_fds(self._link, [text], descriptors)
        return int(self._link.recv(64)) or None

    def close(self):
        if self._link is not None:
            self._link.close()
        self._process.close()


def _socket():
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class _Copy(_Template):
    """A template that is a copy of this process, which has imported what its children need."""

    def __init__(self):
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.works = len(os.listdir("/proc/self/task")) == 1
        self._pid = os.fork() if self.works else 0
        if self.works and self._pid == 0:
            try:
                self._link.close()
                os.setpgid(0, 0)  # what ends or stops the group of a program is nothing to this
                gc.freeze()
                _fork_what_is_asked_for(theirs, _place_of_thread_id(), [])
            finally:
                os._exit(0)
        theirs.close()

    def close(self):
        self._link.close()
        if self.works:
            with contextlib.suppress(ChildProcessError):  # closed before: it is of all modules
                os.waitpid(self._pid, 0)


class _Templates:
    """The templates of this process, each made when it is first used.

    Args:
        copy: what is used for all modules instead, if it works.
    """

    def __init__(self, copy=None):
        self._all = {}
        self._copy = copy if copy and copy.works else None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._limits = _limits()
        self.anew = platform.machine() != "x86_64" or sys.platform != "linux"

    def fork(self, argv, pipes, environment, output):
        """Returns the id of a process for a child's command line; None if it is to be started."""
        spec = json.loads(argv[-1])
        if self.anew or spec[3] not in WORKERS or argv[0] != sys.executable:
            return None
        if os.getpid() != self._process or _limits() != self._limits:
            return None
        read = {k: v for k, v in sorted(environment.items()) if k.startswith(_READ_AT_START)}
        key = json.dumps([*spec[1:4], read])
        with self._lock:
            if key not in self._all:
                self._all[key] = self._copy or _Template(spec, environment)
            template = self._all[key]
            if not template.works:
                return None
            order = {"path": spec[0], "environment": environment, "folder": os.getcwd()}
            order |= {"module": spec[3], "level": compilers._LEVEL}
            try:
                return template.fork(order, [*pipes, output])
            except (OSError, ValueError):  # a test has ended all children
                self._all.pop(key).close()
                self._copy = None
                return None

    def close(self):
        for template in set(self._all.values()):
            template.close()


def _limits():
    """Returns what a process inherits, and a test may have changed."""
    names = ("RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_CPU", "RLIMIT_CORE")
    mask = os.umask(0o022)
    os.umask(mask)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [*(resource.getrlimit(getattr(resource, n)) for n in names), mask, cores]


@contextlib.contextmanager
def forks_of_this_process():
    """Has children of this process forked from what it is now, as long as it lasts.

    It is one that was forked from a server which has imported `WORKERS`, and has no threads yet.
    """
    with pytest.MonkeyPatch.context() as patch, forked_workers(patch, _Copy()):
        yield


@contextlib.contextmanager
def forked_workers(patch, copy=None):
    """Has children of this process forked from templates, as long as it lasts."""
    global _templates
    _templates = _Templates(copy)
    shim = SimpleNamespace(**{**vars(subprocess), "Popen": _Popen})
    patch.setattr(children, "subprocess", shim)
    yield
    _templates.close()


_templates = None


@contextlib.contextmanager
def started_anew():
    """Has children started as users do, for tests whose claim depends on it."""
    before, _templates.anew = _templates.anew, True
    yield
    _templates.anew = before


class _Popen(subprocess.Popen):
    """A process that is forked from a template if there is one for it."""

    def _execute_child(self, args, executable, *rest):
        _, _, pass_fds, _, environment, *_ = rest
        pipes = rest[8:14]
        pid = None
        if children.is_child(args) and _templates is not None:
            pid = _templates.fork(args, pass_fds, environment, pipes[3])
        if pid is None:
            super()._execute_child(args, executable, *rest)
            return
        self.pid = pid
        self._child_created = True
        self._close_pipe_fds(*pipes)


def main(port):
    """Be a template: import the module, and fork what is asked for until nobody can ask."""
    hello = port.receive()
    importlib.import_module(hello["module"])
    importlib.import_module("numpy.ma")  # as the first median does
    place = _place_of_thread_id()
    single = len(os.listdir("/proc/self/task")) == 1
    port.send({"works": single and place is not None})
    if not single or place is None:
        return
    link = _socket()
    link.connect(hello["link"])
    gc.collect()
    gc.freeze()
    _fork_what_is_asked_for(link, place, [port.requests.fd, port._replies])


def _fork_what_is_asked_for(link, place, own):
    """Does so until nobody can ask; ``own`` are descriptors that no fork keeps."""
    while place is not None:
        text, descriptors, *_ = socket.recv_fds(link, _MOST_BYTES + 1, 8)
        if not text:
            os._exit(0)
        pid = _forked(place)
        if pid == 0:
            link.close()
            for each in own:
                os.close(each)
            _become(json.loads(text), *descriptors)
        for each in descriptors:
            os.close(each)
        link.send(str(max(pid, 0)).encode())  # 0: the system has no room for one now


def _place_of_thread_id():
    """Returns where the C library keeps the id of this thread, which a fork changes; or None."""
    library = ctypes.PyDLL(None)
    library.pthread_self.restype = ctypes.c_void_p
    begin = library.pthread_self()
    words = (ctypes.c_int * 256).from_address(begin)
    found = [i for i, word in enumerate(words) if word == threading.get_native_id()]
    return begin + 4 * found[0] if len(found) == 1 else None


def _forked(place):
    """Does as `os.fork`, but the new process is a child of our parent."""
    library = ctypes.PyDLL(None)
    library.syscall.restype = ctypes.c_long
    flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID | signal.SIGCHLD
    zero = ctypes.c_long(0)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = library.syscall(
        ctypes.c_long(_SYS_CLONE), ctypes.c_long(flags), zero, zero, ctypes.c_void_p(place), zero
    )
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return pid


def _become(order, requests, replies, armed, output):
    """Be the child, to its end."""
    status = 1
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDONLY)
        for fd, target in ((nowhere, 0), (output, 1), (output, 2)):
            os.dup2(fd, target)
        os.close(nowhere)
        os.close(output)
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.path[:] = order["path"]
        compilers._LEVEL = order["level"]
        child.run(order["module"], requests, replies, armed)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
