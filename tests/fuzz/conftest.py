import pytest

from tests.fuzz.states import STATES

# Random calls of one test: they take up to some seconds each, where all cores are busy.
CALLS = 40


def pytest_addoption(parser):
    parser.addoption("--schedules", type=int, help="how many random schedules to draw")
    parser.addoption("--cases", type=int, help="how many random states to draw")
    parser.addoption("--products", type=int, help="how many states on tensor cores to draw")
    parser.addoption("--calls", type=int, help="how many random calls to draw for each target")
    parser.addoption("--networks", type=int, help="how many random networks to draw of each kind")
    parser.addoption("--first-seed", type=int, help="seed of the first of them")


def drawn(config, option, usual):
    """Return the first seed, and how many are drawn: half as many as usual but of all cases."""
    # The options exist only where this folder is named on the command line.
    first = config.getoption("--first-seed", None) or 0
    usual = usual if config.getoption("--all-cases") else usual // 2
    return first, config.getoption(option, None) or usual


@pytest.fixture(scope="session")
def seeds(request):
    first, count = drawn(request.config, "--schedules", 100)
    return range(first, first + count)


@pytest.fixture(scope="session")
def state_seeds(request):
    """The seeds of random states; each draws `STATES` of them."""
    first, cases = drawn(request.config, "--cases", 48)
    return range(first, first + -(-cases // STATES))


@pytest.fixture(scope="session")
def product_seeds(request):
    """The seeds of random states on tensor cores; each draws up to `STATES` of them."""
    first, cases = drawn(request.config, "--products", 16)
    return range(first, first + -(-cases // STATES))


@pytest.fixture(scope="session")
def network_seeds(request):
    first, count = drawn(request.config, "--networks", 2)
    return range(first, first + count)


def pytest_generate_tests(metafunc):
    """Give the seeds of random calls, each of one call, in parts that end within a test's time."""
    if "call_seeds" not in metafunc.fixturenames:
        return
    first, count = drawn(metafunc.config, "--calls", 10)
    end = first + count
    parts = [range(n, min(n + CALLS, end)) for n in range(first, end, CALLS)]
    metafunc.parametrize("call_seeds", parts, ids=[f"{p.start}-{p.stop - 1}" for p in parts])
