"""Networks whose kernels are pinned: what frozen programs get, and what still holds."""

import contextlib
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.auto_scheduler import RecordedState, SketchPolicy
from autotune.cli.main import main
from autotune.errors import AutotuneError, FrozenError, LockError
from autotune.graph import Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import partition
from autotune.graph.passes import OWN
from autotune.lock import read_functions, read_lock, write_lock
from autotune.network import (
    check_functions,
    compile_network,
    fallback_kernel,
    lock_network,
    tune_network,
)
from autotune.network.choice import RULE, BySearch, by_rule
from autotune.network.choice_json import search_task
from autotune.network.function_json import function_from_json, function_to_json
from autotune.target import Target
from autotune.tvm import relay
from tests.graph.networks import SMALL, drawn
from tests.network.test_tune import CPU, is_right, keys, small

tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
tomli_w = pytest.importorskip("tomli_w")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "autotune.lock"


@pytest.fixture
def freeze(path, monkeypatch):
    def froze():
        monkeypatch.setenv("AUTOTUNE_LOCK", str(path))
        monkeypatch.setenv("AUTOTUNE_FROZEN", "1")

    return froze


@pytest.fixture(scope="module")
def compiled():
    return compile_network(small(), CPU)


def rows_of(path):
    return tomllib.loads(path.read_text())


def put(path, content):
    path.write_text(tomli_w.dumps(content))


def test_kernels_that_may_begin_early_are_locked_as_they_are(path):
    network = compile_network(small(), "cuda -emulate")
    assert lock_network(network, path, time=False) == len(network.plan.kernels)


def test_a_frozen_network_gets_the_locked_kernels_and_right_answers(path, freeze, compiled):
    assert lock_network(compiled, path, time=False) == 2
    freeze()
    graph = small()
    for chooser in (None, by_rule):
        again = compile_network(graph, CPU, choose=chooser)
        assert keys(again) == keys(compiled)
    assert is_right(again, graph)


def test_what_is_not_locked_is_named_with_what_is_near_and_why_it_does_not_count(
    path, freeze, compiled
):
    lock_network(compiled, path, time=False)
    freeze()
    data = Variable(TensorType((2, 512)), "data")
    other = apply(
        ops.Add(), apply(ops.Dense(), data, small().constants[-2]), small().constants[-1]
    )
    wider = Graph.of(apply(ops.Softmax(), other))
    with pytest.raises(FrozenError) as e:
        compile_network(wider, CPU)
    said = str(e.value)
    assert f"2 of 2 functions of the network are not in {path} for cpu" in said
    assert "fused_nn_dense_add of float32[2, 512]" in said
    assert "near it is that of float32[1, 512]" in said
    assert re.search(r"fused_nn_softmax of float32\[2, 5\], nothing is near it", said)
    with pytest.raises(FrozenError, match=r"is locked for cpu \S+ \w+ \(.*\) only"):
        compile_network(small(), "cuda -arch=sm_80")


def test_without_a_lock_no_network_is_compiled(freeze):
    freeze()
    with pytest.raises(LockError, match="cannot read the lock"):
        compile_network(small(), CPU)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("text_sha256", r"its kernel has another text now \(\w+\) than .* locked \(000000000000"),
        ("code_sha256", r"machine code \w+ was built of the locked text .* has 000000000000"),
    ],
)
def test_another_text_and_other_machine_code_are_refused(path, freeze, compiled, key, message):
    lock_network(compiled, path, time=False)
    content = rows_of(path)
    content["function"][0][key] = ["0" * 64 for _ in content["function"][0][key]]
    put(path, content)
    freeze()
    with pytest.raises(FrozenError, match=message):
        compile_network(small(), CPU)


def test_a_state_of_the_auto_scheduler_is_locked_as_any_other_kernel(path, freeze):
    def choose(function, target):
        if not function.has_reduction:
            return RULE
        task = search_task(function, target)
        state = SketchPolicy(task, seed=0, verbose=0).sample_initial_population()[0]
        return BySearch(task, RecordedState(state.transform_steps))

    network = compile_network(small(), CPU, choose=choose)
    lock_network(network, path, time=False)
    assert {each.way.split()[0] for each in read_functions(path)} == {"auto-scheduler"}
    freeze()
    again = compile_network(small(), CPU)
    assert keys(again) == keys(network)
    assert is_right(again, small())
    assert all(each.good for each in check_functions(read_functions(path), None))


def test_kernels_that_do_not_follow_from_a_choice_are_not_locked(path):
    def other(function, target):
        kernel = fallback_kernel(function, target)
        return replace(kernel, source=kernel.source + "\n/* mine */\n")

    network = compile_network(small(), CPU, kernel_for=other)
    with pytest.raises(
        LockError, match=r"its kernel is not that of by rule.*History\(log\).choose"
    ):
        lock_network(network, path, time=False)
    assert not path.exists()


def test_templates_and_networks_stand_in_one_lock_and_keep_each_other(path, compiled, tmp_path):
    lock_network(compiled, path, time=False)
    functions = read_functions(path)
    write_lock(path, [], functions)
    assert (read_lock(path), read_functions(path)) == ([], functions)
    lock_network(compiled, path, time=False)
    assert read_functions(path) == functions
    log = tmp_path / "empty.log"
    log.write_text("")
    result = CliRunner().invoke(main, ["lock", "write", str(log), "-o", str(path)])
    assert result.exit_code == 1, "there is nothing to lock"
    assert read_functions(path) == functions


def test_in_frozen_mode_nothing_is_tuned(path, freeze, compiled, tmp_path):
    lock_network(compiled, path, time=False)
    freeze()
    log = tmp_path / "net.log"
    network = tune_network(small(), None, CPU, budget_s=60, log=log, on_round=None)
    assert keys(network) == keys(compiled)
    assert not log.exists()


def test_networks_of_relay_are_frozen_too(path, freeze):
    x, weight = relay.var("x", shape=(4, 8)), relay.var("w", shape=(3, 8))
    function = relay.nn.relu(relay.nn.dense(x, weight))
    params = {"w": np.ones((3, 8), "float32")}
    module = relay.Function([x, weight], function)
    library = relay.build(module, target="llvm", params=params)
    lock_network(library.network, path, time=False)
    freeze()
    relay.build(module, target="llvm", params=params)
    wider = relay.Function([x, weight], relay.exp(function))
    with pytest.raises(FrozenError, match="functions of the network are not in"):
        relay.build(wider, target="llvm", params=params)


def test_check_times_and_verifies_what_is_locked_and_the_command_shows_it(path, compiled):
    assert lock_network(compiled, path) == 2
    entries = read_functions(path)
    assert all("answer checked" in each.evidence for each in entries)
    assert all(len(each.microseconds) == len(each.text_sha256) for each in entries)
    shown = CliRunner().invoke(main, ["lock", "show", str(path)])
    assert "fused_nn_conv2d_add_nn_relu: conv2d_nchw.cpu" in shown.output.replace("\n", " ")
    still = CliRunner().invoke(main, ["lock", "check", str(path), "--no-time"])
    assert (still.exit_code, still.output.count("holds ")) == (0, 2), still.output
    content = rows_of(path)
    content["function"][0]["microseconds"] = [1e-3 for _ in content["function"][0]["microseconds"]]
    content["function"][0]["ci95"] = [[0.9e-3, 1.1e-3] for _ in content["function"][0]["ci95"]]
    put(path, content)
    slower = CliRunner().invoke(main, ["lock", "check", str(path), "--fail-above", "50%"])
    assert slower.exit_code == 1
    assert "slower" in slower.output
    assert "answer checked" in slower.output


def test_check_tells_what_cannot_be_made_any_more(path, compiled):
    lock_network(compiled, path, time=False)
    content = rows_of(path)
    first, second = content["function"]
    first["text_sha256"] = ["0" * 64 for _ in first["text_sha256"]]
    choice = json.loads(second["choice"])
    choice["task"] = '["nothing.cpu", [1]]'
    second["choice"] = json.dumps(choice)
    put(path, content)
    found = {each.outcome: each for each in check_functions(read_functions(path), None)}
    assert found["text"].why.endswith("locked is 000000000000")
    assert "no template computes it as" in found["failed"].why


MUTATIONS = st.one_of(
    st.none(), st.integers(), st.text(max_size=8), st.just([]), st.just([1.0]), st.just({}),
    st.just("[" * 2000), st.just("null"), st.just('{"kind": "rule"}'), st.just([["0" * 64]]),
)  # fmt: skip


@pytest.fixture(scope="module")
def one_lock(compiled, tmp_path_factory):
    path = tmp_path_factory.mktemp("lock") / "autotune.lock"
    lock_network(compiled, path, time=False)
    return path


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_lock_that_was_edited_is_read_whole_or_refused_in_words(one_lock, tmp_path, data):
    content = rows_of(one_lock)
    row = content["function"][data.draw(st.integers(0, 1))]
    key = data.draw(st.sampled_from([*sorted(row), "new", "microseconds", "ci95"]))
    value = data.draw(MUTATIONS)
    if value is None:
        row.pop(key, None)
    else:
        row[key] = value
    path = tmp_path / "autotune.lock"
    put(path, content)
    entries = []
    with contextlib.suppress(LockError):
        entries = read_functions(path)
    for each in check_functions(entries, None):
        assert each.why


@pytest.mark.parametrize("name", ["resnet-nchw", "mobilenet-nhwc", "lstm", "squeezenet-1.0"])
def test_functions_are_made_again_from_their_json(name):
    module, params = SMALL[name]()
    graph = OWN(module["main"].graph.bind(drawn(params)), 3)
    for function in partition(graph):
        row = json.dumps(function_to_json(function))
        again = function_from_json(json.loads(row))
        assert again.signature == function.signature
        assert [v.type for v in again.inputs] == [v.type for v in function.inputs]
        assert json.dumps(function_to_json(again)) == row


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"inputs": [], "nodes": [], "outputs": []},
        {"inputs": [[[4], "float32", False]], "nodes": [["nope", {}, [["p", 0]]]], "outputs": []},
        {"inputs": [[[4], "float32", False]], "nodes": [["exp", {}, [["p", 7]]]],
         "outputs": [["n", 0, 0]]},
        {"inputs": [[[4], "float32", False]], "nodes": [["exp", {"x": 1}, [["p", 0]]]],
         "outputs": [["n", 0, 0]]},
        {"inputs": [[[-4], "float32", False]], "nodes": [], "outputs": [["p", 0]]},
    ],
)  # fmt: skip
def test_what_is_no_function_is_refused(row):
    with pytest.raises(AutotuneError):
        function_from_json(row)


def test_a_target_of_another_class_is_elsewhere(one_lock):
    (first, *_) = read_functions(one_lock)
    other = replace(first, device_class="cpu x86_64 0000", device="another")
    (found,) = check_functions([other], None)
    assert (found.outcome, found.good) == ("elsewhere", True)
    assert "locked for cpu x86_64 0000 (another)" in found.why


def test_target_and_lock_agree_on_classes(one_lock):
    assert {each.target for each in read_functions(one_lock)} == {str(Target("llvm"))}
