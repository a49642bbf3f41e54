"""Names of TVM around building: pass contexts, conversions, decorators of tests."""

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import LoweringError
from autotune.tvm import te


def scaled(n=8):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    return te.create_schedule(b.op), a, b


# Pass contexts.


def test_a_context_unrolls_loops_that_say_nothing_themselves():
    s, a, b = scaled()
    options = {"tir.UnrollLoop": {"auto_max_step": 16, "explicit_unroll": True}}
    assert "for i" in str(tvm.lower(s, [a, b]))
    with tvm.transform.PassContext(opt_level=3, config=options):
        assert "for i" not in str(tvm.lower(s, [a, b]))
        s[b].pragma(b.op.axis[0], "auto_unroll_max_step", 4)
        assert "for i" in str(tvm.lower(s, [a, b]))
    s, a, b = scaled()
    assert "for i" in str(tvm.lower(s, [a, b]))


def test_a_context_may_leave_unrolling_to_the_compiler():
    s, a, b = scaled()
    options = {"tir.UnrollLoop": {"auto_max_step": 16, "explicit_unroll": False}}
    with tvm.transform.PassContext(config=options):
        assert "# unrolled" in str(tvm.lower(s, [a, b]))


def test_a_context_without_vectors_makes_plain_loops():
    s, a, b = scaled()
    s[b].vectorize(b.op.axis[0])
    assert "# vectorized" in str(tvm.lower(s, [a, b]))
    with tvm.transform.PassContext(config={"tir.disable_vectorize": True}):
        assert "# vectorized" not in str(tvm.lower(s, [a, b]))
        function = tvm.build(s, [a, b])
    x, out = np.arange(8, dtype="float32"), np.empty(8, "float32")
    function(x, out)
    np.testing.assert_array_equal(out, 2 * x)


def test_contexts_nest_and_unknown_options_are_ignored():
    s, a, b = scaled()
    plain = str(tvm.lower(s, [a, b]))
    outer = tvm.transform.PassContext(opt_level=1, config={"relay.backend.use_auto_scheduler": 1})
    inner = tvm.transform.PassContext(disabled_pass=["AlterOpLayout"])
    assert tvm.transform.PassContext.current().opt_level == 2
    with outer:
        with inner, outer:
            assert tvm.transform.PassContext.current() is outer
        assert tvm.transform.PassContext.current() is outer
        assert str(tvm.lower(s, [a, b])) == plain
    assert tvm.transform.PassContext.current().config == {}


@pytest.mark.parametrize(
    "config", [{"tir.UnrollLoop": 16}, {"tir.UnrollLoop": {"auto_max_step": "all"}}, [1]]
)
def test_options_of_the_wrong_kind_are_refused(config):
    with pytest.raises(LoweringError, match=r"PassContext: .* must be a dict"):
        tvm.transform.PassContext(config=config)


# Conversions.


def test_numbers_are_converted_to_constants():
    n = te.var("n")
    made = tvm.runtime.convert([n, 3, 2.5, True, "text", None])
    assert made[0] is n
    assert [each.dtype for each in made[1:4]] == ["int32", "float32", "bool"]
    assert made[4:] == ["text", None]
    assert tvm.convert({"a": (1, 2)})["a"][1].value == 2
    tensor = te.placeholder((3,))
    assert tvm.runtime.convert(tensor) is tensor


# Decorators.


def marks(test):
    return [mark.name for mark in getattr(test, "pytestmark", [])]


@pytest.mark.parametrize("name", ["requires_cuda", "requires_gpu", "requires_llvm"])
def test_a_test_may_need_a_device(name):
    decorate = getattr(tvm.testing, name)

    @decorate
    def plain():
        pass

    @decorate()
    def called():
        pass

    for test in (plain, called):
        (mark,) = test.pytestmark
        assert mark.name == "skipif"
        needs_gpu = name != "requires_llvm"
        assert mark.args[0] == (needs_gpu and not tvm.cuda().exist)


def test_a_test_may_use_a_gpu():
    @tvm.testing.uses_gpu
    def plain():
        pass

    assert marks(plain) == ["gpu"]


def test_a_test_runs_for_several_targets():
    @tvm.testing.parametrize_targets("llvm", "cuda")
    def some(target, dev):
        pass

    @tvm.testing.parametrize_targets
    def every(target, dev):
        pass

    (mark,) = some.pytestmark
    assert [case.values[0] for case in mark.args[1]] == ["llvm", "cuda"]
    (mark,) = every.pytestmark
    assert mark.args[1][0].values == ("llvm", tvm.cpu())


@tvm.testing.parametrize_targets("llvm", "opencl")
def test_a_parametrized_test_is_run_where_it_can_be(target, dev):
    assert (target, dev) == ("llvm", tvm.cpu())
    s, a, b = scaled()
    x, out = tvm.nd.array(np.arange(8, dtype="float32"), dev), tvm.nd.empty((8,), device=dev)
    tvm.build(s, [a, b], target)(x, out)
    tvm.testing.assert_allclose(out.numpy(), 2 * x.numpy())


def test_usable_targets_may_be_named_by_the_environment(monkeypatch):
    monkeypatch.delenv("TVM_TEST_TARGETS", raising=False)
    assert ("llvm", tvm.cpu()) in tvm.testing.enabled_targets()
    monkeypatch.setenv("TVM_TEST_TARGETS", "c;opencl;cuda -emulate")
    assert [name for name, _ in tvm.testing.enabled_targets()] == ["c", "cuda -emulate"]
    assert tvm.testing.device_enabled("llvm")
    assert not tvm.testing.device_enabled("vulkan")
