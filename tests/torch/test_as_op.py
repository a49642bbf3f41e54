"""Built functions as operators of torch, on the CPU."""

import subprocess
import sys

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import KernelError
from autotune.kernel import SourceKernel, arg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)

N = 32
SCALE = SourceKernel(
    "scale",
    "void scale(float s, const float *x, float *y, float *z) {\n"
    "  for (int i = 0; i < 32; i++) { y[i] = s * x[i]; z[i] = x[i] + 1; } }",
    [
        arg("s", (), "float32"),
        arg("x", (N,)),
        arg("y", (N,), role="out"),
        arg("z", (N,), role="out"),
    ],
)
DOUBLE = SourceKernel(
    "twice",
    "void twice(const float *x, float *y) { for (int i = 0; i < 32; i++) y[i] = 2 * x[i]; }",
    [arg("x", (N,)), arg("y", (N,), role="out")],
)
ADD_TO = SourceKernel(
    "add_to",
    "void add_to(const float *x, float *y) { for (int i = 0; i < 32; i++) y[i] += x[i]; }",
    [arg("x", (N,)), arg("y", (N,), role="inout")],
)


def built(kernel):
    return autotune.build(kernel, target="c")


def matmul_of_open_sizes():
    m, n, k = te.var("m"), te.var("n"), te.var("k")
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    return autotune.build(te.create_schedule(c.op), [a, b, c], target="c")


@pytest.fixture(scope="module")
def scale():
    return autotune.torch.as_op(built(SCALE), "autotune_tests::scale")


@pytest.fixture(scope="module")
def double():
    return autotune.torch.as_op(
        built(DOUBLE), "autotune_tests::double", backward=lambda context, gradient: 2 * gradient
    )


@pytest.fixture(scope="module")
def add_to():
    return autotune.torch.as_op(built(ADD_TO), "autotune_tests::add_to")


@pytest.fixture(scope="module")
def matmul():
    def backward(context, gradient):
        a, b, _ = context.saved_tensors
        return gradient @ b.T, a.T @ gradient

    name = "autotune_tests::matmul"
    return autotune.torch.as_op(matmul_of_open_sizes(), name, backward=backward)


def test_outputs_are_made_and_returned(scale):
    x = torch.arange(N, dtype=torch.float32)
    y, z = scale(2.0, x)
    assert torch.equal(y, 2 * x)
    assert torch.equal(z, x + 1)
    assert torch.equal(torch.ops.autotune_tests.scale(3.0, x)[0], 3 * x)


def test_an_input_is_written_in_place(add_to):
    x, y = torch.ones(N), torch.zeros(N)
    assert add_to(x, y) is None
    assert (y == 1).all()
    wide = torch.zeros(N, 2)
    add_to(x, wide[:, 0])
    assert (wide[:, 0] == 1).all()
    assert (wide[:, 1] == 0).all()


def test_backward_refuses_what_the_operator_wrote_since_it_was_saved(add_to):
    x = torch.ones(N)
    for changed in (lambda t: t, lambda t: t.view(N)):
        a = torch.zeros(N, requires_grad=True)
        saved = (a * 1).exp()
        add_to(x, changed(saved.detach()))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            saved.sum().backward()
    wide = torch.zeros(N, 2)
    add_to(x, wide[:, 0])
    assert wide._version > 0
    assert x._version == 0


def test_what_is_not_contiguous_or_not_aligned_is_copied(double):
    wide = torch.randn(N, 3)
    assert torch.equal(double(wide[:, 1]), 2 * wide[:, 1])
    assert torch.equal(double(wide.flatten()[1 : N + 1]), 2 * wide.flatten()[1 : N + 1])


CHECKED = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
)


def test_torchs_own_checks_of_operators_pass(scale, double, add_to, matmul):
    x = torch.randn(N)
    for op, args in (
        (scale, (2.0, x)),
        (double, (x,)),
        (double, (x.clone().requires_grad_(),)),
        (add_to, (x, torch.randn(N))),
        (matmul, (torch.randn(3, 5, requires_grad=True), torch.randn(5, 4, requires_grad=True))),
    ):
        found = torch.library.opcheck(op, args, test_utils=CHECKED)
        assert set(found.values()) == {"SUCCESS"}


def test_gradients_are_those_of_backward(double, matmul):
    x = torch.randn(N, requires_grad=True)
    double(x).sum().backward()
    assert (x.grad == 2).all()
    a, b = torch.randn(4, 6, requires_grad=True), torch.randn(6, 2, requires_grad=True)
    weight = torch.randn(4, 2)
    (matmul(a, b) * weight).sum().backward()
    torch.testing.assert_close(a.grad, weight @ b.detach().T)
    torch.testing.assert_close(b.grad, a.detach().T @ weight)


def test_a_gradient_without_backward_is_refused(scale):
    x = torch.randn(N, requires_grad=True)
    with pytest.raises(KernelError, match=r"'x' requires a gradient.*without backward"):
        scale(1.0, x)
    with torch.no_grad():
        assert torch.equal(scale(1.0, x)[0], x)


def test_a_gradient_without_backward_is_refused_where_torch_traces_and_transforms(scale, add_to):
    def scaled(v):
        return scale(2.0, v)[0].sum()

    def added(v):
        own = v * 1
        add_to(v.detach(), own)
        return own.sum()

    x = torch.randn(N)
    for function in (scaled, added):
        with pytest.raises(KernelError, match="requires a gradient"):
            torch.func.grad(function)(x)
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        with pytest.raises(RuntimeError, match="requires a gradient"):
            compiled(x.clone().requires_grad_())
        torch.testing.assert_close(compiled(x), 2 * x.sum())
        with torch.no_grad():
            assert not function(x.clone().requires_grad_()).requires_grad


def test_it_compiles_as_one_graph(scale, double, add_to):
    def model(x, y):
        first, second = scale(0.5, double(x) + 1)
        add_to(first, y)
        return first.sin() + second, y * 2

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = torch.randn(N)
    y, z = torch.randn(N), torch.randn(N)
    expected = model(x, y.clone())
    got = compiled(x, y.clone())
    torch.testing.assert_close(got, expected)
    x.requires_grad_()
    compiled_double = torch.compile(lambda v: double(v).sum(), fullgraph=True, backend="aot_eager")
    compiled_double(x).backward()
    assert (x.grad == 2).all()
    del z


def test_open_sizes_stay_open_in_a_compiled_graph(matmul):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(
        lambda a, b: matmul(a, b) + 1, fullgraph=True, dynamic=True, backend=backend
    )
    for m, k, n in ((3, 5, 7), (8, 6, 4), (9, 11, 2)):
        a, b = torch.randn(m, k), torch.randn(k, n)
        with torch.no_grad():
            torch.testing.assert_close(compiled(a, b), a @ b + 1)
    assert len(graphs) == 1


def test_it_is_exported(double):
    class Model(torch.nn.Module):
        def forward(self, x):
            return double(x) + 1

    exported = torch.export.export(Model(), (torch.randn(N),))
    assert any("autotune_tests.double" in str(node.target) for node in exported.graph.nodes)
    x = torch.randn(N)
    assert torch.equal(exported.module()(x), 2 * x + 1)


def test_shapes_and_dtypes_that_do_not_fit_are_named_while_tracing_too(double, matmul):
    for wrong, message in (
        (torch.randn(N + 1), r"twice: argument 'x': expected shape \(32,\), got \(33,\)"),
        (torch.randn(N, 1), "twice: argument 'x': expected .*, got"),
        (torch.randn(N).double(), "'x': expected dtype float32, got float64"),
    ):
        with pytest.raises(KernelError, match=message):
            double(wrong)
        with pytest.raises(KernelError, match=message), torch._subclasses.FakeTensorMode() as mode:
            double(mode.from_tensor(wrong))
    with pytest.raises(KernelError, match="expected"):
        matmul(torch.randn(3, 4), torch.randn(5, 6))


def test_made_again_it_runs_the_new_function():
    name = "autotune_tests::again"
    first = autotune.torch.as_op(built(DOUBLE), name)
    x = torch.ones(N)
    assert (first(x) == 2).all()
    triple = SourceKernel("twice", DOUBLE.source.replace("2 *", "3 *"), DOUBLE.args)
    assert autotune.torch.as_op(built(triple), name) is first
    assert (first(x) == 3).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: autotune.torch.as_op(f, "scale"), "name must be such as 'mine::gemm'"),
        (lambda f: autotune.torch.as_op(f, "autotune_tests::class"), "torch takes no operator .*"),
        (lambda f: autotune.torch.as_op(f, "prim::scale"), "takes no operator .* reserved"),
        (lambda f: autotune.torch.as_op(f, 3), "name must be such as"),
        (
            lambda f: autotune.torch.as_op(abs, "a::b"),
            "returns, or a template, got",
        ),
        (lambda f: autotune.torch.as_op(f, "aten::mm"), "there is an operator aten::mm already"),
        (
            lambda f: autotune.torch.as_op(f, "autotune_tests::add_to", backward=abs),
            "writes an input in place",
        ),
        (lambda f: autotune.torch.as_op(built(DOUBLE), "autotune_tests::add_to"), "cannot become"),
        (
            lambda f: autotune.torch.as_op(f, "autotune_tests::never", backward=5),
            "backward must be a function, got 5",
        ),
        (
            lambda f: autotune.torch.as_op(f, "autotune_tests::never", setup_context=abs),
            "setup_context must be left out where there is no backward",
        ),
    ],
)
def test_a_mistake_is_named(add_to, make, message):
    with pytest.raises(KernelError, match=message):
        make(built(ADD_TO))


def test_without_torch_the_message_says_what_to_install():
    text = (
        "import sys; sys.modules['torch'] = None\n"
        "import autotune, autotune.torch\n"
        "from autotune.kernel import SourceKernel, arg\n"
        "k = SourceKernel('f', 'void f(float *x) {}', [arg('x', (4,), role='inout')])\n"
        "try: autotune.torch.as_op(autotune.build(k, target='c'), 'a::b')\n"
        "except autotune.errors.KernelError as e: print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert "pip install 'autotune[torch]'" in done.stdout, done.stderr


def test_the_package_is_found_without_importing_torch():
    text = "import sys, autotune; autotune.torch.as_op; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


def test_a_bfloat16_tensor_is_read_as_it_is():
    text = "void f(const unsigned short *x, unsigned short *y) { y[0] = x[1]; }"
    args = [arg("x", (8,), "bfloat16"), arg("y", (1,), "bfloat16", role="out")]
    op = autotune.torch.as_op(built(SourceKernel("f", text, args)), "autotune_tests::second")
    assert op(torch.arange(8, dtype=torch.bfloat16)).item() == 1
    np.testing.assert_equal(op(torch.arange(8, dtype=torch.bfloat16)).shape, (1,))


@autotune.template("tests.torch.twice")
def twice_template(n, extra):
    cfg = autotune.get_config()
    cfg.define_knob("step", [1, 4])
    text = "void f(const float *x, float *y) { for (int i = 0; i < N; i++) y[i] = 2 * x[i]; }"
    args = [arg("x", (n,)), arg("y", (n + extra,), role="out")]
    return SourceKernel("f", text, args, {"N": n, "STEP": cfg["step"].val})


def test_a_template_is_an_operator_for_all_shapes(tmp_path):
    op = autotune.torch.as_op(
        twice_template,
        "autotune_tests::twice_template",
        key=lambda x: (x.shape[0], 0),
        example=(8, 0),
        target="llvm",
        store=tmp_path / "twice.log",
    )
    compiled = torch.compile(lambda x: op(x) + 1, fullgraph=True, backend="aot_eager")
    for n in (8, 12, 8):
        x = torch.randn(n)
        assert torch.equal(op(x), 2 * x)
        torch.testing.assert_close(compiled(x), 2 * x + 1)
    with pytest.raises(KernelError, match=r"expected dtype float32, got float64"):
        op(torch.randn(8).double())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "key and example must be given for a template"),
        ({"key": abs, "example": (8, 0)}, "target must be given for a template"),
        ({"key": 5, "example": (8, 0)}, "key must be a function of the inputs, got 5"),
        (
            {"key": abs, "example": 8},
            "example must be a tuple of arguments of the template, got 8",
        ),
    ],
)
def test_what_a_template_needs_is_named(options, message):
    with pytest.raises(KernelError, match=message):
        autotune.torch.as_op(twice_template, "autotune_tests::never", **options)


def test_arguments_of_a_template_may_be_lists_and_must_be_several(tmp_path):
    @autotune.template("tests.torch.listed")
    def listed(shape):
        return twice_template(shape[0], 0)

    options = {"example": [[8]], "target": "llvm", "store": tmp_path / "listed.log"}
    name = "autotune_tests::listed"
    op = autotune.torch.as_op(listed, name, key=lambda x: [[x.shape[0]]], **options)
    assert torch.equal(op(torch.ones(4)), 2 * torch.ones(4))
    op = autotune.torch.as_op(listed, name, key=lambda x: x.shape[0], **options)
    with pytest.raises(KernelError, match=r"key\(...\) must be a tuple of arguments .*, got 4"):
        op(torch.ones(4))


def test_a_built_function_needs_no_key():
    with pytest.raises(KernelError, match="key must be left out"):
        autotune.torch.as_op(built(DOUBLE), "autotune_tests::never", key=abs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_of_the_host_that_are_not_contiguous_are_copied_and_written_back(dtype):
    function = autotune.jit("nn.softmax", key=lambda *arrays: {}, target="llvm")
    wide, turned, one = (torch.randn(s).to(dtype) for s in ((8, 20), (10, 8), (1, 10)))
    for x in (wide[:, ::2], turned.T, one.expand(8, 10)):
        around = torch.zeros(10, 16, dtype=dtype)
        out = around[:, ::2].T
        function(x, out)
        tolerance = {torch.float32: 1e-6, torch.bfloat16: 1e-2}[dtype]
        torch.testing.assert_close(out, x.float().softmax(1).to(dtype), atol=tolerance, rtol=0)
        assert (around[:, 1::2] == 0).all()
    with pytest.raises(
        KernelError, match="is written by the kernel, but its elements share memory"
    ):
        function(x, torch.zeros(1, 10, dtype=dtype).expand(8, 10))
