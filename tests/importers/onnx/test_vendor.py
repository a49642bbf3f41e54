"""Operators that ONNX Runtime's tools write into models, against numpy."""

import math

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.importers import from_onnx
from autotune.network import compile_network

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
BATCH, ROWS, HEADS, SIZE = 2, 5, 4, 4
COLUMNS = HEADS * SIZE


def floats(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype("float32")


def network_of(kind, inputs, outputs=1, known=(), domain="com.microsoft", **attributes):
    """Return a network of one operator; inputs of the indices in ``known`` are weights."""
    names = ["" if each is None else f"x{i}" for i, each in enumerate(inputs)]
    used = [i for i, each in enumerate(inputs) if each is not None and i not in known]
    given = [
        helper.make_tensor_value_info(
            names[i], helper.np_dtype_to_tensor_dtype(inputs[i].dtype), inputs[i].shape
        )
        for i in used
    ]
    weights = [numpy_helper.from_array(np.asarray(inputs[i]), names[i]) for i in known]
    made = [f"y{i}" for i in range(outputs)]
    values = [helper.make_tensor_value_info(name, 1, None) for name in made]
    node = helper.make_node(kind, names, made, domain=domain, **attributes)
    graph = helper.make_graph([node], "small", given, values, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    network = from_onnx(helper.make_model(graph, opset_imports=opsets))
    return network.graph, [inputs[int(each.name[1:])] for each in network.graph.inputs]


def results(*args, **options):
    graph, arrays = network_of(*args, **options)
    return graph.run(*arrays, dtype=None)


def heads_of(x, heads=HEADS):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attention(q, k, v, bias=0, causal=False):
    """Return attention of (batch, heads, rows, size), heads side by side; -10000 hides a key."""
    k, v = (np.repeat(each, q.shape[1] // each.shape[1], 1) for each in (k, v))
    queries, keys = q.shape[2], k.shape[2]
    scores = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[3]) + bias
    later = np.arange(keys) > np.arange(queries)[:, None] + keys - queries
    scores = np.where(causal & later, -np.inf, scores)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    out = powers / powers.sum(-1, keepdims=True) @ v
    return out.transpose(0, 2, 1, 3).reshape(q.shape[0], queries, -1)


def close(result, expected):
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


WEIGHT, BIAS = floats(COLUMNS, 3 * COLUMNS) / 4, floats(3 * COLUMNS)
SEEN = np.array([[1, 1, 1, 1, 1], [0, 1, 1, 0, 0]], "int32")


@pytest.mark.parametrize(
    ("mask", "seen", "causal"),
    [
        (None, np.ones((BATCH, 1, 1, ROWS)), 0),
        (None, np.ones((BATCH, 1, 1, ROWS)), 1),
        (SEEN, SEEN[:, None, None], 0),
        (np.tril(np.ones((BATCH, ROWS, ROWS), "int32")), np.tril(np.ones((ROWS, ROWS))), 0),
        (np.array([5, 3], "int32"), np.array([[1] * 5, [1, 1, 1, 0, 0]])[:, None, None], 0),
        (np.array([5, 3, 0, 1], "int32"), SEEN[:, None, None], 0),
    ],
    ids=["all", "causal", "keys", "queries and keys", "lengths", "ends and starts"],
)
def test_attention_with_its_product_hides_the_keys_that_a_mask_says(mask, seen, causal):
    x = floats(BATCH, ROWS, COLUMNS)
    more = {"known": (1, 2), "num_heads": HEADS, "unidirectional": causal}
    (out,) = results("Attention", [x, WEIGHT, BIAS, mask], **more)
    parts = [heads_of(each) for each in np.split(x @ WEIGHT + BIAS, 3, 2)]
    close(out, attention(*parts, (1 - seen) * -10000.0, causal))


def test_a_cache_is_read_before_the_new_rows_and_returned_with_them():
    x, past = floats(BATCH, ROWS, COLUMNS), floats(2, BATCH, HEADS, 3, SIZE)
    more = {"known": (1, 2), "num_heads": HEADS, "unidirectional": 1}
    out, present = results("Attention", [x, WEIGHT, BIAS, None, past], 2, **more)
    q, k, v = [heads_of(each) for each in np.split(x @ WEIGHT + BIAS, 3, 2)]
    k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    close(present, np.stack([k, v]))
    close(out, attention(q, k, v, causal=True))


def test_attention_of_bytes_is_that_of_their_floats():
    draw = np.random.default_rng(0).integers
    x, weight = draw(0, 256, (BATCH, ROWS, COLUMNS)), draw(-128, 128, WEIGHT.shape)
    scales = np.float32(0.02), np.linspace(0.004, 0.008, 3 * COLUMNS).astype("float32")
    inputs = [x.astype("uint8"), weight.astype("int8"), BIAS, *scales, SEEN, np.uint8(120)]
    (out,) = results("QAttention", inputs, known=(1, 2, 3, 4, 6), num_heads=HEADS)
    made = ((x - 120) * 0.02) @ (weight * scales[1]) + BIAS
    parts = [heads_of(each) for each in np.split(made, 3, 2)]
    close(out, attention(*parts, (1 - SEEN[:, None, None]) * -10000.0))


def test_attention_of_three_arrays_adds_biases_and_joins_caches():
    q, k, v = (floats(BATCH, ROWS, COLUMNS, seed=i) for i in range(3))
    past = [floats(BATCH, HEADS, 3, SIZE, seed=i) for i in (3, 4)]
    more = floats(1, 1, ROWS, ROWS + 3)
    inputs = [q, k, v, BIAS, None, more, *past]
    out, new_k, new_v = results("MultiHeadAttention", inputs, 3, num_heads=HEADS)
    biases = np.split(BIAS, 3)
    q, k, v = (heads_of(each + b) for each, b in zip((q, k, v), biases, strict=True))
    k, v = (np.concatenate(each, 2) for each in zip(past, (k, v), strict=True))
    close(out, attention(q, k, v, more))
    close(new_k, k)
    close(new_v, v)


def test_attention_to_packed_and_to_separate_keys_is_the_same():
    q, pairs = floats(BATCH, ROWS, COLUMNS), floats(BATCH, 7, HEADS, 2, SIZE)
    k, v = (pairs[:, :, :, i].reshape(BATCH, 7, COLUMNS) for i in range(2))
    expected = attention(*[heads_of(each) for each in (q, k, v)])
    for given in ([q, pairs], [q, k, v], [q, heads_of(k), heads_of(v)]):
        (out,) = results("MultiHeadAttention", given, num_heads=HEADS)
        close(out, expected)
    packed = np.stack([each.reshape(BATCH, ROWS, HEADS, SIZE) for each in (q, q, q)], 3)
    (out,) = results("MultiHeadAttention", [packed], num_heads=HEADS)
    close(out, attention(*[heads_of(q)] * 3))


COS, SIN = (f(np.outer(np.arange(16), [1.0, 0.1])).astype("float32") for f in (np.cos, np.sin))


def rotated(x, positions):
    """Rotate halves of (batch, heads, rows, size)."""
    cos, sin = COS[positions], SIN[positions]
    a, b = np.split(x, 2, 3)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], 3)


@pytest.mark.parametrize("extent", [6, 9], ids=["exact", "with room"])
def test_grouped_attention_rotates_and_appends_to_its_cache(extent):
    x = floats(1, 2, (HEADS + 2 * 2) * SIZE)
    past = [floats(1, 2, extent, SIZE, seed=i) for i in range(2)]
    numbers = np.array([7], "int32"), np.array(8, "int32")
    inputs = [x, None, None, *past, *numbers, COS, SIN]
    more = {"num_heads": HEADS, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": 4}
    out, new_k, _ = results("GroupQueryAttention", inputs, 3, known=(6, 7, 8), **more)
    ends = np.cumsum([HEADS * SIZE, 2 * SIZE])
    q, k, v = (heads_of(y, n) for y, n in zip(np.split(x, ends, 2), (HEADS, 2, 2), strict=True))
    q, k = (rotated(each, [6, 7]) for each in (q, k))
    k, v = (np.concatenate([c[:, :, :6], y], 2) for c, y in zip(past, (k, v), strict=True))
    far = np.arange(2)[:, None] + 6 - np.arange(8) >= 4
    close(out, attention(q, k, v, np.where(far, -np.inf, 0), causal=True))
    close(new_k, np.concatenate([k, past[0][:, :, 8:]], 2))


def test_grouped_attention_of_a_prompt_needs_no_cache_and_no_lengths():
    q, kv = floats(BATCH, ROWS, COLUMNS), floats(BATCH, ROWS, 2 * SIZE)
    inputs = [q, kv, kv, None, None, np.array([4, 2], "int32"), np.array(ROWS, "int32")]
    (out,) = results("GroupQueryAttention", inputs, known=(6,), num_heads=HEADS, kv_num_heads=2)
    close(out, attention(heads_of(q), heads_of(kv, 2), heads_of(kv, 2), causal=True))
    inputs[6] = np.array(ROWS + 1, "int32")
    with pytest.raises(GraphError, match="batches of several lengths with a cache"):
        results("GroupQueryAttention", inputs, known=(6,), num_heads=HEADS, kv_num_heads=2)


@pytest.mark.parametrize("first", [True, False], ids=["of the first row", "of all rows"])
def test_positions_of_a_rotation_are_of_all_rows_or_of_the_first(first):
    x = floats(BATCH, ROWS, COLUMNS)
    positions = np.array([3]) if first else np.arange(3, 3 + ROWS)[None].repeat(BATCH, 0)
    (out,) = results("RotaryEmbedding", [x, positions, COS, SIN], known=(2, 3))
    expected = rotated(heads_of(x), np.arange(3, 3 + ROWS))
    close(out, expected.transpose(0, 2, 1, 3).reshape(x.shape))


def normalised(x, center=True):
    x = x - x.mean(-1, keepdims=True) if center else x
    return x / np.sqrt((x * x).mean(-1, keepdims=True))


def test_norms_with_what_is_added_before_them():
    x, skip, bias = (floats(BATCH, ROWS, COLUMNS, seed=i) for i in range(3))
    scale, shift = floats(COLUMNS), floats(COLUMNS, seed=1)
    (out,) = results("SkipLayerNormalization", [x, skip, scale, shift, bias[0, 0]])
    close(out, normalised(x + skip + bias[0, 0]) * scale + shift)
    (out,) = results("SkipSimplifiedLayerNormalization", [x, skip, scale])
    close(out, normalised(x + skip, False) * scale)
    (out,) = results("SimplifiedLayerNormalization", [x, scale], domain="", epsilon=1e-12)
    close(out, normalised(x, False) * scale)


def test_embeddings_are_added_and_normalised_and_the_ones_of_a_mask_counted():
    draw = np.random.default_rng(0).integers
    words, kinds = (draw(0, n, (BATCH, ROWS)).astype("int32") for n in (9, 2))
    tables = [floats(n, COLUMNS) for n in (9, 8, 2)]
    vectors = floats(COLUMNS), floats(COLUMNS, seed=1)
    inputs = [words, kinds, *tables, *vectors, SEEN]
    out, counts, total = results("EmbedLayerNormalization", inputs, 3, known=(2, 3, 4, 5, 6))
    expected = tables[0][words] + tables[1][:ROWS] + tables[2][kinds]
    close(total, expected)
    close(out, normalised(expected) * vectors[0] + vectors[1])
    np.testing.assert_array_equal(counts, [5, 2])


@pytest.mark.parametrize(("kind", "numbers", "function"), [
    ("Relu", [], lambda x: np.maximum(x, 0)),
    ("Tanh", [], np.tanh),
    ("LeakyRelu", [0.1], lambda x: np.where(x > 0, x, 0.1 * x)),
    ("Clip", [-0.5, 1.0], lambda x: np.clip(x, -0.5, 1)),
    ("HardSigmoid", [0.3, 0.4], lambda x: np.clip(0.3 * x + 0.4, 0, 1)),
], ids=["Relu", "Tanh", "LeakyRelu", "Clip", "HardSigmoid"])  # fmt: skip
def test_a_convolution_is_followed_by_a_sum_and_its_activation(kind, numbers, function):
    x, weight, more = floats(1, 4, 3, 3), floats(6, 4, 1, 1), floats(1, 6, 3, 3)
    params = {"activation_params": numbers} if numbers else {}
    (out,) = results("FusedConv", [x, weight, None, more], known=(1,), activation=kind, **params)
    close(out, function(np.einsum("nchw,oc->nohw", x, weight[:, :, 0, 0]) + more))


def test_a_product_is_followed_by_its_activation():
    x, weight, bias = floats(3, 4), floats(5, 4), floats(5)
    more = {"transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.2}
    (out,) = results("FusedGemm", [x, weight, bias], known=(1, 2), **more)
    made = x @ weight.T + bias
    close(out, np.where(made > 0, made, 0.2 * made))
    with pytest.raises(GraphError, match=r"activation must be one of Relu, .* got 'Odd'"):
        results("FusedGemm", [x, weight, bias], known=(1, 2), **more | {"activation": "Odd"})


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "floats"])
def test_weights_of_few_bits_are_unpacked_block_by_block(bits, zeros):
    rows, columns, block = 6, 40, 16  # the last block has 8 numbers
    rng = np.random.default_rng(0)
    steps, zero = (rng.integers(0, 1 << bits, (rows, n)) for n in (48, 3))
    scales = rng.uniform(0.01, 0.02, (rows, 3)).astype("float32")

    def packed(numbers):
        each = 8 // bits
        wide = np.pad(numbers, [(0, 0), (0, -numbers.shape[1] % each)]).reshape(rows, -1, each)
        return (wide << np.arange(0, 8, bits)).sum(-1).astype("uint8")

    given = {"none": None, "packed": packed(zero), "floats": zero.astype("float32")}[zeros]
    zero = np.full_like(zero, 1 << (bits - 1)) if given is None else zero
    inputs = [floats(2, 3, columns), packed(steps).reshape(rows, 3, -1), scales, given]
    inputs += [None, floats(rows)]
    known = tuple(i for i in (1, 2, 3, 5) if inputs[i] is not None)
    more = {"K": columns, "N": rows, "bits": bits, "block_size": block}
    (out,) = results("MatMulNBits", inputs, known=known, **more)
    weight = ((steps - zero.repeat(block, 1)) * scales.repeat(block, 1))[:, :columns]
    close(out, inputs[0] @ weight.T + inputs[5])
    with pytest.raises(GraphError, match="B must have 7 rows of 3 blocks of 16 numbers"):
        results("MatMulNBits", inputs, known=known, **(more | {"N": 7}))


def test_grouped_attention_with_a_cache_is_compiled():
    x, past = floats(1, 1, (HEADS + 4) * SIZE), floats(1, 2, 6, SIZE)
    numbers = np.array([6], "int32"), np.array(7, "int32")
    inputs = [x, None, None, past, past, *numbers, COS, SIN]
    more = {"num_heads": HEADS, "kv_num_heads": 2, "do_rotary": 1}
    graph, arrays = network_of("GroupQueryAttention", inputs, 3, known=(5, 6, 7, 8), **more)
    compiled = compile_network(graph, "c").instance()(*arrays)
    for each, expected in zip(compiled, graph.run(*arrays, dtype=None), strict=True):
        close(each.numpy(), expected)


def test_a_query_of_other_keys_than_its_own_is_not_causal():
    """ONNX Runtime lets the last query see all keys, and the others as many as their place."""
    q, k = floats(1, 3, COLUMNS), floats(1, 5, COLUMNS)
    with pytest.raises(GraphError, match="unidirectional is for one key of each query"):
        results("MultiHeadAttention", [q, k, k], num_heads=HEADS, unidirectional=1)


@pytest.mark.parametrize(("kind", "attributes", "function"), [
    ("Softsign", {}, lambda x: x / (1 + np.abs(x))),
    ("Selu", {"activation_alpha": 1.5, "activation_gamma": 2.0},
     lambda x: 2 * np.where(x > 0, x, 1.5 * (np.exp(x) - 1))),
    ("ThresholdedRelu", {"activation_alpha": 0.3}, lambda x: np.where(x > 0.3, x, 0)),
], ids=["Softsign", "Selu", "ThresholdedRelu"])  # fmt: skip
def test_a_product_is_followed_by_each_activation_that_onnx_runtime_fuses(
    kind, attributes, function
):
    x, weight = floats(3, 4), floats(4, 5)
    (out,) = results("FusedGemm", [x, weight], known=(1,), activation=kind, **attributes)
    close(out, function(x @ weight))


LENGTH = np.zeros(1, "int32")


@pytest.mark.parametrize(("kind", "inputs", "attributes", "named"), [
    ("Attention", [floats(1, 2, 4), floats(4, 12), None, None, None, None, LENGTH], {},
     "past_sequence_length"),
    ("Attention", [floats(1, 2, 4), floats(4, 12)], {"past_present_share_buffer": 1},
     "past_present_share_buffer"),
    ("Attention", [floats(1, 2, 4), floats(4, 12)], {"do_rotary": 1}, "do_rotary"),
    ("MultiHeadAttention", [*[floats(1, 2, 4)] * 3, *[None] * 5, LENGTH], {},
     "past_sequence_length"),
    ("GroupQueryAttention", [*[floats(1, 2, 4)] * 3], {"softcap": 1.0, "qk_output": 1},
     "softcap, qk_output"),
    ("GroupQueryAttention", [*[floats(1, 2, 4)] * 3], {"k_quant_type": "PER_TENSOR"},
     "k_quant_type must be NONE, got 'PER_TENSOR'"),
    ("RotaryEmbedding", [floats(1, 2, 4)], {"is_packed_batching": 1}, "is_packed_batching"),
    ("RotaryEmbedding", [floats(1, 2, 4)], {"scale": 2.0}, "scale must be 1, got 2"),
    ("FusedMatMul", [floats(2, 2, 2)] * 2, {"transBatchB": 1}, "transBatchB"),
    ("MatMulNBits", [floats(2, 2), *[None] * 3, LENGTH], {"weight_prepacked": 1},
     "g_idx, weight_prepacked"),
])  # fmt: skip
def test_what_is_not_supported_is_refused_by_its_name(kind, inputs, attributes, named):
    with pytest.raises(GraphError, match=rf"{kind} of 'y0': .*{named}"):
        results(kind, inputs, **attributes)


@pytest.mark.parametrize("kind", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_statistics_of_training_are_refused_as_results(kind):
    x = floats(1, 2, 4)
    with pytest.raises(GraphError, match="its output 'y1' is not supported"):
        results(kind, [x, x, floats(4)], 2)


def test_a_vector_is_not_transposed():
    x, y = floats(4), floats(2, 3, 4)
    (out,) = results("FusedMatMul", [x, y], transA=1, transB=1)
    close(out, np.matmul(x, y.swapaxes(1, 2)))


@pytest.mark.parametrize("positions", [[14], [[12, 13, 14, 15, 16]]], ids=["first", "all"])
def test_positions_that_are_known_are_within_the_tables_of_a_rotation(positions):
    inputs = [floats(1, ROWS, COLUMNS), np.array(positions), COS, SIN]
    with pytest.raises(GraphError, match="indices must be within an axis of 16, got 1"):
        results("RotaryEmbedding", inputs, known=(1, 2, 3))


def test_a_cache_is_not_longer_than_the_tables_of_its_rotation():
    x, past = floats(1, 1, 3 * SIZE), floats(1, 1, 16, SIZE)
    inputs = [x, None, None, past, past, np.int32([16]), np.array(17, "int32"), COS, SIN]
    more = {"num_heads": 1, "kv_num_heads": 1, "do_rotary": 1}
    with pytest.raises(GraphError, match="indices must be within an axis of 16, got 16"):
        results("GroupQueryAttention", inputs, 3, known=(5, 6, 7, 8), **more)


def test_columns_of_packed_heads_are_of_all_heads_alike():
    inputs = [floats(1, 1, 13), None, None, None, None, np.int32([0]), np.array(1, "int32")]
    for heads in (1, 0):
        more = {"num_heads": heads, "kv_num_heads": heads}
        with pytest.raises(GraphError, match=f"columns for {heads} and twice {heads} heads"):
            results("GroupQueryAttention", inputs, known=(5, 6), **more)


def test_a_length_that_is_known_is_that_of_the_whole_cache():
    x, past = floats(1, 1, COLUMNS), floats(1, HEADS, 4, SIZE)
    inputs = [x, x, x, past, past, np.int32([2]), np.array(5, "int32")]
    more = {"num_heads": HEADS, "kv_num_heads": HEADS}
    with pytest.raises(GraphError, match="nor other lengths than 4"):
        results("GroupQueryAttention", inputs, 3, known=(5, 6), **more)
