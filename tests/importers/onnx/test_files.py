"""Files of models: what is read, and what is refused with which words."""

import numpy as np
import pytest

from autotune.errors import AutotuneError, GraphError
from autotune.importers import from_onnx
from autotune.network import compile_network

onnx = pytest.importorskip("onnx")
helper = onnx.helper

from tests.importers.onnx.models import FLOAT, model_of  # noqa: E402

WEIGHT = np.arange(6, dtype="float32").reshape(2, 3)


def small(shape=("batch", 2)):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"], "product"),
        helper.make_node("Relu", ["t"], ["y"], "positive"),
    ]
    return model_of(nodes, {"x": shape}, weights={"w": WEIGHT})


def test_paths_bytes_and_protobufs_give_the_same_graph(tmp_path):
    (tmp_path / "small.onnx").write_bytes(small().SerializeToString())
    x = np.array([[1, -1]], "float32")
    for model in (tmp_path / "small.onnx", str(tmp_path / "small.onnx"), small(),
                  small().SerializeToString()):  # fmt: skip
        network = from_onnx(model, {"batch": 1})
        assert [(each.name, each.shape) for each in network.graph.inputs] == [("x", (1, 2))]
        assert network.output_names == ("y",)
        np.testing.assert_array_equal(network.graph.run(x)[0], np.maximum(x @ WEIGHT, 0))


def test_weights_are_inputs_where_they_are_not_to_be_frozen():
    network = from_onnx(small(), {"x": (4, 2)}, freeze=False)
    assert [each.name for each in network.graph.inputs] == ["x", "w"]
    np.testing.assert_array_equal(network.params["w"], WEIGHT)
    x = np.ones((4, 2), "float32")
    (bound,) = network.bound.run(x)
    np.testing.assert_array_equal(bound, network.graph.run(x, WEIGHT)[0])


@pytest.mark.parametrize(("given", "said"), [
    ("missing.onnx", "'missing.onnx' cannot be read: .*No such file"),
    (b"no model at all", "must be an ONNX model; it is none, or is cut off"),
    (b"", "must be an ONNX model; it has no graph or no opset"),
    (3, "model must be a path, the bytes of a file or an onnx.ModelProto, got 3"),
])  # fmt: skip
def test_what_is_no_model_is_refused(given, said):
    with pytest.raises(GraphError, match=said):
        from_onnx(given)


def test_a_model_that_is_cut_off_is_refused(tmp_path):
    whole = small().SerializeToString()
    path = tmp_path / "cut.onnx"
    for size in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:size])
        with pytest.raises(GraphError):
            from_onnx(path, {"batch": 1})


@pytest.mark.parametrize(("options", "said"), [
    ({}, r"these are open:\n  x: \[batch, 2\]\ngive them, as in shapes=\{'x': \(1, 2\)\}"),
    ({"shapes": {"y": (1, 2)}}, r"shapes must name inputs of the model \(x, batch\), got 'y'"),
    ({"shapes": {"x": (1, 2, 3)}}, "must have 2 extents, as in the model, got"),
    ({"shapes": {"x": (-1, 2)}}, "must be whole numbers of at least 0, got"),
    ({"shapes": {"batch": "one"}}, "'batch' must be a whole number of at least 0, got 'one'"),
    ({"outputs": ["u"], "shapes": {"batch": 1}}, r"values that the model computes, got \['u'\]"),
    ({"outputs": "t", "shapes": {"batch": 1}}, "outputs must be a list of names .*got 't'"),
    ({"outputs": [["t"]], "shapes": {"batch": 1}}, r"list of names .*\[\['t'\]\]"),
    ({"outputs": [], "shapes": {"batch": 1}}, "outputs must be at least one name, got none"),
    ({"shapes": {"batch": 0}}, "the output 'y' has no elements"),
    ({"shapes": 3}, "shapes must be a dict by names of inputs, got 3"),
    ({"shapes": {"batch": 1}, "dtypes": {"x": "float3"}}, "'x': dtype 'float3' is unknown"),
    ({"values": {"z": 1}}, r"values must name inputs of the model \(x\), got 'z'"),
    ({"values": {"x": np.ones((1, 3))}}, r"must have shape \['batch', 2\], got \[1, 3\]"),
    ({"shapes": {"x": (1, 5)}}, "MatMul 'product': expected matrices that can be multiplied"),
])  # fmt: skip
def test_wrong_arguments_are_refused_with_what_is_expected(options, said):
    with pytest.raises(GraphError, match=said):
        from_onnx(small(), **options)


def test_one_error_lists_all_operators_that_are_missing_with_counts_and_names():
    nodes = [
        *[helper.make_node("Unique", ["x"], [f"u{i}"], f"unique{i}") for i in range(5)],
        helper.make_node("Strange", [f"u{i}" for i in range(5)], ["y"], "odd", domain="my.own"),
    ]
    with pytest.raises(GraphError) as error:
        from_onnx(model_of(nodes, {"x": (3,)}))
    said = str(error.value)
    assert "small: the model has 2 operators that are not supported" in said
    assert "Unique, 5 times (unique0, unique1, unique2, ...): the shape of its result" in said
    assert "my.own.Strange, 1 time (odd)" in said


def test_operators_in_blocks_of_one_cpu_are_refused_with_what_to_do():
    node = helper.make_node("Conv", ["x", "x"], ["y"], domain="com.microsoft.nchwc")
    with pytest.raises(GraphError, match=r"Conv, 1 time .*save the model with ORT_ENABLE_EXT"):
        from_onnx(model_of([node], {"x": (1, 8, 2, 2)}))


def test_dimensions_of_one_name_have_one_extent():
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    model = model_of(nodes, {"a": ("n", 2), "b": ("n", 2)})
    assert [v.shape for v in from_onnx(model, {"a": (3, 2)}).graph.inputs] == [(3, 2), (3, 2)]
    with pytest.raises(GraphError, match="dimension 'n' is 3 elsewhere, and 4"):
        from_onnx(model, {"a": (3, 2), "b": (4, 2)})


def with_external(location, offset=0, length=24):
    """Return a small model whose weight is in a file."""
    model = small((1, 2))
    (tensor,) = model.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return model


def test_weights_in_a_file_beside_the_model_are_read(tmp_path):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(b"\0" * 8 + WEIGHT.tobytes())
    model = tmp_path / "m.onnx"
    model.write_bytes(with_external("weights/w.bin", 8).SerializeToString())
    x = np.ones((1, 2), "float32")
    np.testing.assert_array_equal(from_onnx(model).graph.run(x)[0], x @ WEIGHT)


@pytest.mark.parametrize("location", [
    "../secret.bin", "/etc/passwd", "inner/../../secret.bin", "link.bin", "linked/secret.bin", "",
    ".", "..", "w\0.bin",
])  # fmt: skip
def test_a_model_reads_no_file_outside_of_its_folder(tmp_path, location):
    (tmp_path / "secret.bin").write_bytes(WEIGHT.tobytes())
    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "linked").symlink_to(tmp_path)
    path = folder / "m.onnx"
    path.write_bytes(with_external(location).SerializeToString())
    with pytest.raises(
        GraphError, match="external data must be a file in the folder of the model"
    ):
        from_onnx(path)


@pytest.mark.parametrize(("offset", "length", "said"), [
    (0, 8, "expected 24 bytes from 0 or more on"), (-8, 24, "expected 24 bytes from 0"),
    ("x", 24, "must be whole numbers"), (100, 24, "expected 24 bytes for float32.*got 0"),
])  # fmt: skip
def test_external_data_of_another_size_is_refused(tmp_path, offset, length, said):
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(with_external("w.bin", offset, length).SerializeToString())
    with pytest.raises(GraphError, match=said):
        from_onnx(path)


def test_external_data_that_is_missing_or_no_file_is_refused(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(with_external("w.bin").SerializeToString())
    with pytest.raises(GraphError, match=r"cannot be read: .*No such file"):
        from_onnx(path)
    (tmp_path / "w.bin").mkdir()
    with pytest.raises(GraphError, match="must be a plain file"):
        from_onnx(path)
    with pytest.raises(GraphError, match="pass the path of the model"):
        from_onnx(with_external("w.bin"))


def test_numbers_that_are_too_few_are_refused():
    model = small((1, 2))
    model.graph.initializer[0].raw_data = b"\0" * 20
    with pytest.raises(GraphError, match=r"tensor 'w': expected 24 bytes .*got 20"):
        from_onnx(model)


def test_bytes_that_were_changed_give_a_graph_or_an_error_of_ours():
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1]),
        helper.make_node("Squeeze", ["c", "axes"], ["s"]),
        helper.make_node("LayerNormalization", ["s", "v"], ["y"], axis=-1),
    ]
    weights = {"w": WEIGHT[None], "axes": np.array([0]), "v": np.ones(4, "float32")}
    whole = model_of(nodes, {"x": (1, 2, 4)}, weights=weights).SerializeToString()
    for _ in range(3000):
        changed = bytearray(whole)
        for at in rng.integers(0, len(whole), rng.integers(1, 4)):
            changed[at] = rng.integers(256)
        try:
            from_onnx(bytes(changed))
        except AutotuneError:
            continue


def test_functions_of_the_model_are_inlined_with_their_attributes():
    inner = [helper.make_node("LeakyRelu", ["a"], ["b"])]
    inner[0].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    own = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "Slope", ["a"], ["b"], inner, own, ["slope"])
    nodes = [helper.make_node("Slope", ["x"], ["y"], domain="own", slope=0.5)]
    more = {"functions": [function], "opsets": [helper.make_opsetid("own", 1)]}
    network = from_onnx(model_of(nodes, {"x": (2,)}, **more))
    np.testing.assert_array_equal(network.graph.run(np.array([-2.0, 2.0]))[0], [-1, 2])


def test_a_function_that_calls_itself_is_refused():
    inner = [helper.make_node("Again", ["a"], ["b"], domain="own")]
    own = [helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "Again", ["a"], ["b"], inner, own)
    nodes = [helper.make_node("Again", ["x"], ["y"], domain="own")]
    with pytest.raises(GraphError, match="functions call each other 32 deep"):
        from_onnx(model_of(nodes, {"x": (2,)}, functions=[function], opsets=own))


def test_branches_follow_values_that_are_given():
    def branch(kind):
        out = [helper.make_tensor_value_info(kind, FLOAT, None)]
        return helper.make_graph([helper.make_node(kind, ["x"], [kind])], kind, [], out)

    nodes = [
        helper.make_node("Greater", ["rate", "limit"], ["high"]),
        helper.make_node(
            "If", ["high"], ["y"], then_branch=branch("Exp"), else_branch=branch("Neg")
        ),
    ]
    weights = {"limit": np.asarray(8000.0, "float32")}
    model = model_of(nodes, {"x": (2,), "rate": ()}, weights=weights)
    x = np.ones(2)
    (result,) = from_onnx(model, values={"rate": 16000}).graph.run(x)
    np.testing.assert_allclose(result, np.exp(x))
    (result,) = from_onnx(model, values={"rate": 8000}).graph.run(x)
    np.testing.assert_array_equal(result, -x)


@pytest.mark.parametrize("opset", [7, 9, 10, 11, 12, 13, 17])
def test_old_and_new_opsets_mean_what_they_say(opset):
    """Softmax is over all axes from one on before opset 13; limits and axes move to inputs."""
    nodes, weights = [], {}
    if opset < 11:
        nodes.append(helper.make_node("Clip", ["x"], ["c"], min=-0.5, max=0.5))
    else:
        nodes.append(helper.make_node("Clip", ["x", "low", "high"], ["c"]))
        weights = {"low": np.float32(-0.5), "high": np.float32(0.5)}
    nodes.append(helper.make_node("Softmax", ["c"], ["y"], axis=1))
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(2, 3, 2)
    (result,) = from_onnx(model_of(nodes, {"x": x.shape}, weights=weights, opset=opset)).graph.run(
        x
    )
    powers = np.exp(np.clip(x, -0.5, 0.5))
    axes = (1, 2) if opset < 13 else 1
    np.testing.assert_allclose(result, powers / powers.sum(axes, keepdims=True), rtol=1e-6)


def test_limits_that_cross_give_the_upper_one():
    nodes = [helper.make_node("Clip", ["x", "low", "high"], ["y"])]
    weights = {"low": np.float32(2), "high": np.float32(-1)}
    x = np.float32([-3, 0, 5])
    graph = from_onnx(model_of(nodes, {"x": x.shape}, weights=weights)).graph
    (compiled,) = compile_network(graph, "llvm").instance()(x)
    np.testing.assert_array_equal(compiled.numpy(), [-1, -1, -1])


def test_names_that_several_things_have_are_refused():
    nodes = [helper.make_node("Relu", ["x"], ["w"]), helper.make_node("Relu", ["w"], ["y"])]
    with pytest.raises(GraphError, match="'w' is the result of a node, and an input or init"):
        from_onnx(model_of(nodes, {"x": (2,)}, weights={"w": WEIGHT}))
    model = model_of(nodes[1:], {"w": (2,)})
    model.graph.input.append(model.graph.input[0])
    with pytest.raises(GraphError, match="several inputs 'w'"):
        from_onnx(model)


@pytest.mark.parametrize("opset", [-3, 0, 9999])
def test_an_opset_that_the_package_does_not_know_is_refused(opset):
    with pytest.raises(GraphError, match=r"its opset must be 1 to .* got"):
        from_onnx(model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (2,)}, opset=opset))


def test_what_is_computed_twice_or_by_itself_is_refused():
    twice = [helper.make_node(kind, ["x"], ["y"]) for kind in ("Relu", "Exp")]
    with pytest.raises(GraphError, match="its output 'y' is one of a node before it"):
        from_onnx(model_of(twice, {"x": (2,)}))
    around = [helper.make_node("Relu", [a], [b]) for a, b in ("ab", "ba", "ay")]
    with pytest.raises(GraphError, match="its input 'a' is computed by no node before it"):
        from_onnx(model_of(around, {"x": (2,)}))


def test_parts_of_split_are_as_many_as_outputs():
    nodes = [helper.make_node("Split", ["x"], ["y", "z"], num_outputs=1 << 40)]
    with pytest.raises(GraphError, match="num_outputs must be 2"):
        from_onnx(model_of(nodes, {"x": (2,)}, opset=18))
