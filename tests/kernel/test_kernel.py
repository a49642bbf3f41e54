import pickle

import jinja2
import numpy as np
import pytest

from autotune.errors import KernelError
from autotune.kernel import (
    Argument,
    Kernel,
    KernelCall,
    Launch,
    SourceKernel,
    arg,
    call,
    constant,
    launch_violation,
    workspace,
)
from autotune.kernel.layout import TiledArgument, TiledLayout
from autotune.target import Limits
from autotune.task import ConfigSpace


def kernel(launch: Launch) -> Kernel:
    args = (Argument("A", (4,), "float32"), Argument("B", (4,), "float32", "out"))
    return Kernel("copy", "cuda", "...", args, (KernelCall("copy", ("A", "B"), launch),))


def source(**kwargs):
    args = [arg("A", (4,)), arg("B", (4,), role="out")]
    return SourceKernel(**{"name": "copy", "source": "int x = N;\n", "args": args} | kwargs)


def test_a_kernel_is_plain_data_that_pickles_and_hashes():
    one = kernel(Launch((2, 1, 1), (32, 1, 1)))
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(one) == hash(kernel(Launch((2, 1, 1), (32, 1, 1))))


def test_a_kernel_may_begin_early_after_another_of_its_function():
    calls = [call("first", ["A", "B"]), call("second", ["B"], early=True)]
    one = source(calls=calls).kernel("cuda")
    assert [each.launch.early for each in one.calls] == [False, True]
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(KernelError, match="calls must be a list whose first call is not early"):
        source(calls=calls[1:])
    with pytest.raises(KernelError, match="early must be True or False, got 'yes'"):
        call("second", ["B"], early="yes")


def test_a_dtype_of_an_array_is_taken():
    x = np.zeros(3, "float16")
    assert arg("x", x.shape, x.dtype) == arg("x", (3,), np.float16) == arg("x", (3,), "float16")
    assert constant("x", (3,), np.int32) == constant("x", (3,), "int32")
    assert workspace("x", (3,), np.dtype("int32")) == workspace("x", (3,), "int32")
    with pytest.raises(KernelError, match="dtype 'complex64' is unknown"):
        arg("x", (3,), np.complex64)


def test_a_dtype_of_a_tensor_is_taken():
    torch = pytest.importorskip("torch")
    assert arg("x", (3,), torch.bfloat16) == arg("x", (3,), "bfloat16")


def test_roles_say_what_is_read_and_what_is_written():
    args = (arg("a", (1,)), arg("b", (2,), role="out"), arg("c", (3,), role="inout"))
    one = Kernel("f", "c", "", args, (KernelCall("f", ("a", "b", "c")),))
    assert [a.name for a in one.inputs] == ["a", "c"]
    assert [a.name for a in one.outputs] == ["b", "c"]


def test_sizes_are_in_bytes():
    assert arg("a", (3, 5), "float16").bytes == 30
    assert workspace("w", (7,), "float64").bytes == 56


def test_a_knob_given_for_its_value_is_told_where_that_is():
    space = ConfigSpace()
    space.define_knob("k", [1, 2])
    space.define_split("s", 8, num_outputs=2)
    for name, attribute in (("k", "val"), ("s", "size")):
        with pytest.raises(KernelError, match=f"'N' must be .*; pass its .{attribute}"):
            source(defines={"N": space.get(0)[name]}).kernel("c")


def test_knobs_arrive_as_defines_and_booleans_as_numbers():
    text = source(defines={"N": 4, "FAST": True, "T": "float"}).text()
    assert text == "#define N 4\n#define FAST 1\n#define T float\n#line 1\nint x = N;\n"


@pytest.mark.parametrize(
    ("pragma", "expected"),
    [
        ("#pragma unroll N", "#pragma unroll 4"),
        ("  # pragma unroll (N*M) // N", "  # pragma unroll (4*M) // N"),
        ("#pragma unroll", "#pragma unroll"),
        ("#pragma unroll 2", "#pragma unroll 2"),
        ("#pragma unroll Z", ""),
        ("#pragma unroll Z\r", ""),
        ("#pragma unroll NESTED", "#pragma unroll 4 * ITSELF"),
        ("#pragma unroll NN N_ ", "#pragma unroll NN N_ "),
        ("#pragma nounroll N", "#pragma nounroll N"),
        ("x; // #pragma unroll N", "x; // #pragma unroll N"),
        ("/*\n#pragma unroll N\n*/", "/*\n#pragma unroll N\n*/"),
        ("// goes on \\\n#pragma unroll N", "// goes on \\\n#pragma unroll N"),
        ('R"x(\n#pragma unroll N\n)" )x"', 'R"x(\n#pragma unroll N\n)" )x"'),
        ('u8R"(\n#pragma unroll N)"', 'u8R"(\n#pragma unroll N)"'),
        ('"\\\n#pragma unroll N"', '"\\\n#pragma unroll N"'),
        ("'\"' /* \" */\n#pragma unroll N", "'\"' /* \" */\n#pragma unroll 4"),
        ("1'000\n#pragma unroll N", "1'000\n#pragma unroll 4"),
    ],
)
def test_factors_of_unrolled_loops_are_values_as_nvcc_expands_no_macros_there(
    pragma: str, expected: str
) -> None:
    kernel = SourceKernel(
        "k",
        source=f"a;\n{pragma}\nb;\n",
        args=[arg("A", (4,), role="out")],
        defines={"N": 4, "Z": 0, "E": "", "NESTED": "N * ITSELF", "ITSELF": "ITSELF"},
    )
    assert kernel.text().partition("#line 1\n")[2] == f"a;\n{expected}\nb;\n"


def test_a_source_may_be_a_file(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text("from a file\n")
    assert source(source=path).text() == "from a file\n"
    assert source(source=str(path)).text() == "from a file\n"


def test_a_source_may_be_a_jinja_template(tmp_path):
    template = jinja2.Template("{% for i in range(N) %}x{{ i }};{% endfor %}")
    assert source(source=template, defines={"N": 3}).text().endswith("x0;x1;x2;")
    path = tmp_path / "k.cu.j2"
    path.write_text("{{ M }}")
    with pytest.raises(KernelError, match="kernel 'copy': the Jinja2 source failed: 'M'"):
        source(source=path).text()


def test_a_missing_file_is_named():
    with pytest.raises(KernelError, match=r"got .*nowhere\.cu, which cannot be read"):
        source(source="nowhere.cu").text()


def test_arguments_alike_are_one_object():
    assert arg("A", (4,)) is arg("A", [np.int64(4)])
    assert len({arg("A", (4,)), arg("A", (4,), role="out"), arg("A", (4,), "int8")}) == 3


def test_several_kernels_form_one_function_with_a_workspace():
    calls = [call("first", ["A", "W"], grid=8, block=(32, 2)), call("second", ["W", "B"])]
    one = source(calls=calls, workspace=[workspace("W", (64,), zero=True)]).kernel("cuda")
    assert [c.entry for c in one.calls] == ["first", "second"]
    assert one.calls[0].launch == Launch((8, 1, 1), (32, 2, 1))
    assert one.workspace[0].zero


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: arg("A", (0,)), "argument 'A': shape must be positive"),
        (lambda: arg("A", (1,), "float7"), "argument 'A': dtype 'float7' is unknown"),
        (lambda: arg("A", (1,), "complex64"), r"declare float32 of shape \(\.\.\., 2\)"),
        (lambda: arg("A", 64), r"argument 'A': shape must be .* such as \(1024,\), got 64"),
        (lambda: arg("A", "ab"), "argument 'A': shape must be .* got 'ab'"),
        (lambda: arg("A", (1,), role="maybe"), "role must be 'in', 'out' or 'inout', got 'maybe'"),
        (lambda: arg("A", (1,), ["int8"]), r"argument 'A': dtype \['int8'\] is unknown"),
        (lambda: arg("A", (1,), role=["in"]), "role must be 'in', 'out' or 'inout', got"),
        (lambda: arg("A", (2.5,)), r"shape must be .* got \(2.5,\)"),
        (lambda: call("f", [], grid=(1, 1, 1, 1)), "1 to 3 dimensions"),
        (lambda: call("f", [], grid=(64 / 16, 1)), r"got \(4.0, 1\); divide with //"),
        (lambda: call("f", [], grid="2"), "an int or up to three, got '2'"),
        (lambda: source(args=["A"]), r"args must be a list of autotune.arg.* got 'A'"),
        (lambda: source(args=[7]), r"got 7; a number passed by value is arg\(name, \(\), dtype"),
        (lambda: source(defines=[("N", 1)]), "defines must be a dict"),
        (
            lambda: source(defines={"N": None}).text(),
            "'N' must be a number, a bool or",
        ),
        (lambda: SourceKernel("f", source=None, args=[]), "source must be text, a path or"),
        (
            lambda: source(defines={"N": float("inf")}).text(),
            "defines: 'N' must be a finite number.*got inf; the text 'INFINITY'",
        ),
        (
            lambda: source(defines={"a b": 1}).text(),
            "named by C identifiers, got 'a b'",
        ),
        (
            lambda: source(language="c").kernel("cuda"),
            "in language 'c', the target takes 'cuda'",
        ),
        (
            lambda: source(calls=[call("f", [])], grid=2, block=(1, 8)),
            r"calls=f each call has a launch of its own, got grid and block too; give them to",
        ),
        (lambda: source(calls=[call("f", ["Z"])]).kernel("c"), "'f' takes Z, but .* only A, B"),
        (lambda: source(args=[arg("A", (1,), role="out")] * 2).kernel("c"), "names used twice: A"),
    ],
)
def test_a_wrong_description_is_refused_by_name(make, message):
    with pytest.raises(KernelError, match=message):
        make()


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (Launch((1, 1, 1), (64, 32, 1)), "threads per block is 2048, the device allows 1024"),
        (Launch((1, 1, 1), (1, 1, 128)), "block.z is 128, the device allows 64"),
        (Launch((1, 70000, 1)), "grid.y is 70000, the device allows 65535"),
        (Launch(shared_bytes=50000), "dynamic shared bytes per block is 50000"),
        (Launch((0, 1, 1)), "empty launch"),
    ],
)
def test_a_launch_over_a_limit_names_the_limit(launch, message):
    assert message in launch_violation(kernel(launch), Limits())


def test_a_launch_within_the_limits_passes():
    assert launch_violation(kernel(Launch((9, 9, 9), (8, 8, 8), 49152)), Limits()) is None


def test_a_kernel_that_was_sent_to_another_process_is_the_same():
    tiled = TiledArgument(
        "t", (2, 6, 4), "float32", "in", TiledLayout((8, 6), ((0, 2), (1, 6), (0, 4)))
    )
    args = [arg("a", (3,)), arg("n", (), "int32", value=4), constant("m", (4,)), tiled]
    sent = SourceKernel(
        "f",
        "int x;",
        args=[*args, arg("b", (3,), role="out")],
        calls=[call("f", ["a", "n", "t", "w", "b"], (2,), (3, 4))],
        workspace=[workspace("w", (4,))],
    ).kernel("cuda")
    arrived = pickle.loads(pickle.dumps(sent.hashed("abc")))
    assert arrived == sent
    assert hash(arrived) == hash(sent)
    assert arrived.kernel_hash == "abc"
    assert [type(one) for one in arrived.args] == [type(one) for one in sent.args]
