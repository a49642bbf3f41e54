"""Calls on a GPU, as far as they can be followed without one: a driver that only remembers."""

import gc
from collections import deque
from dataclasses import replace

import pytest

from autotune.errors import DeviceError, KernelError
from autotune.kernel import SourceKernel, arg, call, constant, workspace
from autotune.runtime.call import dispatch, native
from autotune.runtime.device import Device
from autotune.runtime.nvidia import callee, launches, libcuda, releases, stream_resources
from autotune.target import Target
from tests.runtime.fake_cuda import FUNCTIONS, FakeCuda, array_at

PAIR = SourceKernel(
    "pair",
    "kernels",
    [arg("x", (8,)), arg("s", (), "float32"), arg("n", (), "int64"), arg("y", (4,), role="out")],
    calls=[
        call("fA", ["x", "w", "n"], (2, 3), (32, 4), shared_bytes=512),
        call("fB", ["w", "s", "y"], 5, 64),
    ],
    workspace=[workspace("w", (16,), zero=True), workspace("v", (9,))],
).kernel("cuda")
WITH_CONSTANT = SourceKernel(
    "scaled",
    "kernels",
    [arg("x", (8,), role="inout"), constant("f", (4,))],
    calls=[call("fA", ["x"], 1, 32)],
).kernel("cuda")
PLAIN = SourceKernel(
    "plain", "kernels", [arg("x", (8,), role="inout")], calls=[call("fA", ["x"], 1, 32)]
).kernel("cuda")
X, Y = array_at(0x7000, (8,)), array_at(0x9000, (4,))


@pytest.fixture(params=["C", "Python"])
def cuda(request, monkeypatch):
    """The driver, called by the launcher in C or by Python."""
    fake = FakeCuda()
    callee.driven_launcher.cache_clear()  # whoever comes next sets its own driver again
    fake.params = {1 + ord("A"): 3, 1 + ord("B"): 3}
    monkeypatch.setattr(libcuda, "library", lambda: fake)
    monkeypatch.setattr(libcuda, "address", lambda name: 1)
    monkeypatch.setattr(libcuda, "primary_context", lambda index: 0xC0DE + index)
    monkeypatch.setattr(Device, "exist", True)
    monkeypatch.setattr(stream_resources, "_waiting", deque())
    monkeypatch.setattr(releases, "_waiting", deque())
    launcher = native.launcher() if request.param == "C" else None
    if request.param == "C" and launcher is None:
        pytest.skip(native.why_not())
    if launcher is not None:
        launcher.set_driver(*map(fake.address, FUNCTIONS))
    monkeypatch.setattr(callee, "driven_launcher", lambda: launcher)
    monkeypatch.setattr(dispatch, "launcher", lambda: launcher)
    yield fake
    gc.collect()  # what this test has made is given back to this driver


def function(cuda, kernel=PAIR):
    cuda.params = {1 + ord("A"): len(kernel.calls[0].args), 1 + ord("B"): 3}
    made = dispatch.CallDispatch(
        kernel, Target("cuda"), Device("cuda"), lambda k: b"cubin", lambda k: None
    )
    return made.call


def test_a_call_clears_copies_and_launches_in_order_on_the_stream(cuda):
    pair = function(cuda)
    for _ in range(3):
        cuda.log.clear()
        pair(X, 1.5, -2, Y, stream=0x50)
        clear, first, second = cuda.log
        space = clear[1]
        assert clear == ("clear", space, 64, 0x50)
        module = next(iter(cuda.modules))
        assert first == (
            "launch", module + 1 + ord("A"), (2, 3, 1), (32, 4, 1),
            (0x7000, space, 2**64 - 2), 0x50,
        )  # fmt: skip
        assert second[1:4] == (module + 1 + ord("B"), (5, 1, 1), (64, 1, 1))
        assert (second[4][0], second[4][1] & 0xFFFFFFFF, second[4][2]) == (
            space, 0x3FC00000, 0x9000,
        )  # fmt: skip
    assert len(cuda.modules) == 1
    assert not cuda.stack


@pytest.mark.parametrize("capability", [8, 9])
def test_a_kernel_that_may_begin_early_does_where_the_device_can(cuda, capability):
    launches._begins_early.cache_clear()
    cuda.capability = capability
    first, second = PAIR.calls
    early = replace(second, launch=replace(second.launch, early=True))
    pair = function(cuda, replace(PAIR, calls=(first, early)))
    for _ in range(2):
        cuda.log.clear()
        pair(X, 1.5, -2, Y, stream=0x50)
        _, one, other = cuda.log
        module = next(iter(cuda.modules))
        assert (one[0], other[0]) == ("launch", "early" if capability == 9 else "launch")
        assert other[1:4] == (module + 1 + ord("B"), (5, 1, 1), (64, 1, 1))
        assert (other[4][1] & 0xFFFFFFFF, other[4][2], other[5]) == (0x3FC00000, 0x9000, 0x50)
    launches._begins_early.cache_clear()


@pytest.mark.parametrize(
    ("shared_bytes", "early", "alike"),
    [(2**17, True, True), (2**17, False, False), (0, True, False)],
)
def test_a_kernel_leaves_shared_memory_to_a_large_one_that_begins_early(
    cuda, shared_bytes, early, alike
):
    first, second = PAIR.calls
    launch = replace(second.launch, shared_bytes=shared_bytes, early=early)
    function(cuda, replace(PAIR, calls=(first, replace(second, launch=launch))))(X, 1.5, -2, Y)
    carveout = 9
    split = {value for (_, attribute), value in cuda.attributes.items() if attribute == carveout}
    assert split == ({100} if alike else set())
    assert sum(attribute == carveout for _, attribute in cuda.attributes) == 2 * alike


def test_later_calls_make_nothing(cuda):
    pair = function(cuda)
    pair(X, 1.0, 1, Y, stream=0x50)
    modules, memory = dict(cuda.modules), dict(cuda.memory)
    for number in range(50):
        pair(array_at(0x8000 + 16 * number, (8,)), 1.0, 1, Y, stream=0x50)
    assert (modules, memory) == (cuda.modules, cuda.memory)


def test_any_number_of_parameters_arrives(cuda):
    names = [f"s{i}" for i in range(150)]
    args = [*(arg(name, (), "int64") for name in names), arg("y", (4,), role="out")]
    many = SourceKernel("many", "kernels", args, calls=[call("fA", [*names, "y"], 1, 32)])
    many_of = function(cuda, many.kernel("cuda"))
    for shift in (0, 1):
        cuda.log.clear()
        many_of(*range(shift, 150 + shift), Y, stream=0x50)
        (launch,) = cuda.log
        assert launch[4] == (*range(shift, 150 + shift), 0x9000)


def spaces(log):
    return {entry[1] for entry in log if entry[0] == "clear"}


def test_each_stream_has_workspaces_of_its_own(cuda):
    pair = function(cuda)
    for _ in range(2):
        for stream in (0, 0x50, 0x60):
            pair(X, 1.0, 1, Y, stream=stream)
    assert len(spaces(cuda.log)) == 3
    assert len(cuda.modules) == 1


def test_memory_is_kept_for_a_bounded_number_of_streams(cuda):
    pair = function(cuda)
    for stream in range(0x100, 0x100 + 300):
        pair(X, 1.0, 1, Y, stream=stream)
    assert len(cuda.memory) <= 2 * 33
    pair(X, 1.0, 1, Y, stream=0x100)
    assert cuda.log[-3][1] in cuda.memory


def test_each_stream_has_constants_of_its_own(cuda):
    scaled = function(cuda, WITH_CONSTANT)
    for _ in range(2):
        for stream in (0x50, 0x60):
            cuda.log.clear()
            scaled(X, array_at(0xF000, (4,)), stream=stream)
            copy, launch = cuda.log
            assert copy == ("copy", launch[1] - 1 - ord("A") + 0x80, 0xF000, 16, stream)
    assert len(cuda.modules) == 2


@pytest.mark.parametrize("warm", [True, False])
def test_a_capture_has_workspaces_of_its_own_until_its_graph_is_gone(cuda, warm):
    pair = function(cuda)
    if warm:
        pair(X, 1.0, 1, Y, stream=0x50)
    eager = spaces(cuda.log)
    cuda.captures[0x50] = 0xAA00
    for _ in range(3):
        pair(X, 1.0, 1, Y, stream=0x50)
    first = spaces(cuda.log) - eager
    assert len(first) == 1
    cuda.captures[0x50] = 0xBB00
    pair(X, 1.0, 1, Y, stream=0x50)
    second = spaces(cuda.log) - eager - first
    assert len(second) == 1
    cuda.captures.clear()
    pair(X, 1.0, 1, Y, stream=0x50)
    assert spaces(cuda.log[-3:]).isdisjoint(first | second)
    cuda.end_graph(0xAA01)
    cuda.captures[0x50] = 0xDD00
    pair(X, 1.0, 1, Y, stream=0x50)
    assert spaces(cuda.log[-3:]) == first
    assert not cuda.relaxed
    assert not cuda.stack


def test_a_function_that_is_gone_frees_all_but_what_graphs_hold(cuda):
    pair, plain = function(cuda), function(cuda, PLAIN)
    cuda.params = {1 + ord("A"): 3, 1 + ord("B"): 3}
    pair(X, 1.0, 1, Y, stream=0x50)
    cuda.captures[0x50] = 0xAA00
    pair(X, 1.0, 1, Y, stream=0x50)
    held = spaces(cuda.log[-3:])
    cuda.captures.clear()
    del pair
    gc.collect()
    assert held < set(cuda.memory)
    assert len(cuda.memory) == 2
    assert len(cuda.modules) == 1
    cuda.end_graph(0xAA01)
    cuda.params = {1 + ord("A"): 1}
    plain(X, stream=0)
    del plain
    gc.collect()
    assert not cuda.memory
    assert not cuda.modules


def test_a_function_without_workspaces_is_held_by_graphs_too(cuda):
    plain = function(cuda, PLAIN)
    cuda.captures[0x50] = 0xAA00
    plain(X, stream=0x50)
    cuda.captures.clear()
    del plain
    gc.collect()
    assert len(cuda.modules) == 1


def test_what_must_be_copied_is_refused_while_a_graph_is_captured(cuda):
    plain = function(cuda, PLAIN)
    plain(X, stream=0x50)
    cuda.captures[0x50] = 0xAA00
    with pytest.raises(KernelError, match=r"'x': it would have to be copied.* multiple of 16"):
        plain(array_at(0x7004, (8,)), stream=0x50)


def test_each_device_has_a_module_of_its_own(cuda):
    plain = function(cuda, PLAIN)
    for _ in range(2):
        plain(X, stream=0)
        plain(array_at(0x7000, (8,), index=1), stream=0)
    assert len(cuda.modules) == 2
    pair = function(cuda)
    with pytest.raises(KernelError, match="runs on cuda:0, the array is on cuda:1"):
        pair(X, 1.0, 1, array_at(0x7000, (4,), index=1), stream=0)


def test_what_the_driver_says_is_raised(cuda):
    plain = function(cuda, PLAIN)
    plain(X, stream=0)
    cuda.broken = 700
    with pytest.raises(DeviceError, match="cuLaunchKernel failed: error 700"):
        plain(X, stream=0)
    assert not cuda.stack


@pytest.mark.parametrize("wrong", ["main", 1.5, -1, True])
def test_a_stream_that_is_none_is_refused(cuda, wrong):
    plain = function(cuda, PLAIN)
    plain(X, stream=0)
    for _ in range(2):
        with pytest.raises(KernelError, match="stream must be a stream of torch"):
            plain(X, stream=wrong)


def test_streams_of_other_libraries_are_known_by_their_handles(cuda):
    class OfCupy:
        ptr = 0x77

    class OfTorch:
        cuda_stream = 0x78

    class Standard:
        def __cuda_stream__(self):
            return 0, 0x79

    plain = function(cuda, PLAIN)
    for given in (OfCupy(), OfTorch(), Standard(), 0x7A):
        plain(X, stream=given)
    assert [entry[-1] for entry in cuda.log] == [0x77, 0x78, 0x79, 0x7A]
