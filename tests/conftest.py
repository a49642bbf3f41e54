"""What all tests need."""

import contextlib
import fcntl
import gc
import os
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.sampling import sampled

# What is drawn says nothing of how fast this machine is now: others use it too.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# A BLAS that numpy has loaded spins on as many threads as there are cores after each product, and
# other processes of tests want these. It reads this when numpy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# So do the threads of OpenMP, in which kernels run on a CPU, torch, and models of costs.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A shell starts background jobs with Ctrl-C ignored, and children inherit that; tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--kills", type=int, default=8, help="processes that the kill campaign kills (8)"
    )
    parser.addoption(
        "--events", type=int, help="random events in the life of a fleet (60; of all cases, 200)"
    )
    parser.addoption(
        "--all-cases", action="store_true", help="all cases of the tests that have many"
    )
    parser.addoption(
        "--few-cases", action="store_true", help="few cases of every test that has several"
    )


def pytest_collection_modifyitems(config, items):
    """Leave out most cases of tests whose cases take long together, but where tests are named.

    By their ids or a part of them (-k), or as those that failed (--last-failed): what is left out
    before pytest looks for these would be missed.
    """
    named = config.getoption("keyword") or config.getoption("lf", default=False)
    if named or config.getoption("--all-cases") or any("::" in each for each in config.args):
        return
    many, every = defaultdict(list), config.getoption("--few-cases")
    for item in items:
        if every or item.get_closest_marker("many_cases"):
            many[item.nodeid.partition("[")[0]].append(item)
    left_out = {each for cases in many.values() for each in cases}
    left_out.difference_update(each for cases in many.values() for each in sampled(cases))
    if left_out:
        config.hook.pytest_deselected(items=[each for each in items if each in left_out])
        items[:] = [each for each in items if each not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the garbage collector from going through all modules and tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Let one process rewrite the assertions of a module; the others read what it has written.

    All start at once, and that takes longer than all else they do before the first test.
    """
    with _first_of_all(collector) if isinstance(collector, pytest.Module) else nullcontext():
        return (yield)


@contextlib.contextmanager
def _first_of_all(module):
    """Waits for other processes that import a module of tests, unless its bytecode is there."""
    compiled = module.path.parent.glob(f"__pycache__/{module.path.stem}.*-pytest-*.pyc")
    if "PYTEST_XDIST_WORKER" not in os.environ or sys.dont_write_bytecode or any(compiled):
        yield
        return
    with module.path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_stays_in_temporary_folders(tmp_path_factory):
    """Keep what autotune and tests leave there out of everyone's folder."""
    from tests.temporary_files import own_temporary_files

    tmp_path_factory.getbasetemp()  # whose files stay, for who wants to know why a test failed
    with own_temporary_files():
        yield


@pytest.fixture(scope="session", autouse=True)
def own_cache(nothing_stays_in_temporary_folders, tmp_path_factory):
    """Keep the cache of whoever runs the tests out of them, and theirs out of it."""
    from tests.caches import make_cache

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # one for all processes
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        kept = os.environ.get("AUTOTUNE_TESTS_COMPILED")
        patch.setenv("AUTOTUNE_CACHE_DIR", make_cache(folder / "autotune-cache", kept))
        # Tests compile so much for the emulator that its header is worth precompiling at once.
        patch.setattr("autotune.emulator.precompiled._WITHOUT", 0)
        yield


@pytest.fixture(scope="session", autouse=True)
def own_devices(tmp_path_factory):
    """Keep whatever else runs on this host from making tests wait for a device."""
    with pytest.MonkeyPatch.context() as patch:
        if "AUTOTUNE_DEVICE_LOCKS" not in os.environ:
            folder = tmp_path_factory.mktemp("devices")
            patch.setenv("AUTOTUNE_DEVICE_LOCKS", str(folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_starts(own_cache):
    """Fork processes that build and run from one that has imported what they need."""
    from tests.prestarted import forked_workers

    with pytest.MonkeyPatch.context() as patch, forked_workers(patch):
        yield


@pytest.fixture(scope="module", autouse=True)
def short_races():
    """Race in two processes on a CPU, not in up to twelve, but where races are the claim."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.measure.final.race._HEATS", 2)
        yield


@pytest.fixture(scope="module", autouse=True)
def short_searches():
    """Breed few schedules between trials, not thousands, but where searches are the claim."""
    from autotune.auto_scheduler import SketchPolicy
    from tests.auto_scheduler.quick import QUICK

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SketchPolicy, "DEFAULT_PARAMS", {**SketchPolicy.DEFAULT_PARAMS, **QUICK})
        yield


# Folders whose tests compile hundreds of small kernels, of templates, networks and trials. Random
# programs and lowered schedules are compiled as users have them, in theirs; so is what is killed
# or timed.
_QUICK = (
    *("torch", "importers", "network", "compat", "graph", "templates", "te"),
    *("auto_scheduler", "tuner", "contract", "cli", "workload"),
)
# Modules of templates of which all or some of what is compiled is as users have it: it is in
# vectors, or rounds as the reference does. `templates/on_cpu.py` optimizes their rest quickly.
_AS_USERS = (
    *("test_optimized_on_cpu", "test_cpu_tiles", "test_attention_cpu"),
    *("test_winograd_cpu", "test_quantised"),
)


@pytest.fixture(scope="module", autouse=True)
def quick_kernels(request):
    """Optimize C in a third of the time, here and in builders, but where all cases run."""
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    as_users = folder == "templates" and request.path.stem in _AS_USERS
    quick = folder in _QUICK and not as_users
    with pytest.MonkeyPatch.context() as patch:
        if quick and not request.config.getoption("--all-cases"):
            patch.setattr("autotune.runtime.compile.compilers._LEVEL", "-Og")
        yield


# Descriptors that one module may leave behind: what processes and sessions of all tests keep.
_MOST_LEFT = 40


@pytest.fixture(scope="module", autouse=True)
def no_descriptors_stay(request):
    """Keep modules from leaving files, pipes and sockets open, of which a process has 1,024.

    What fails then are others, far away; so the module that leaves them fails.
    """
    before = open_descriptors()
    yield
    if len(open_descriptors()) - len(before) > _MOST_LEFT:
        gc.collect()
        left = Counter(open_descriptors().values()) - Counter(before.values())
        assert left.total() <= _MOST_LEFT, (
            f"{request.node.name} leaves open: {left.most_common(8)}"
        )


def open_descriptors():
    """Returns what the descriptors of this process are of; none where the system does not say."""
    found, folder = {}, Path("/proc/self/fd")
    for path in folder.iterdir() if folder.exists() else ():
        with contextlib.suppress(OSError):  # closed meanwhile
            found[path.name] = os.readlink(path).partition(":[")[0]
    return found


# Event loops of Dask and of fleets.
_LOOPS = ("IO loop", "autotune-fleet")


@pytest.fixture(scope="module", autouse=True)
def no_event_loop_stays():
    """Keep what one module leaves behind from drawing random numbers in the middle of others."""
    yield
    deadline = time.monotonic() + 10
    while left := [t.name for t in threading.enumerate() if t.name.startswith(_LOOPS)]:
        assert time.monotonic() < deadline, f"threads are left: {left}"
        time.sleep(0.01)
