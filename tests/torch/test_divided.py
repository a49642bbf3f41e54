"""Graphs of `torch.compile` with operators that only torch has: the rest of them is compiled."""

import logging
import logging.handlers
import random
import threading

import pytest

from autotune.importers import Division, exported, read_or_divide

torch = pytest.importorskip("torch")

from tests.torch.test_compile import by_dynamo, same  # noqa: E402

nn = torch.nn
F = nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")


@torch.library.custom_op("divided::turned", mutates_args=())
def turned(x: torch.Tensor) -> torch.Tensor:
    """Reverse rows; an operator that no table knows."""
    return x.flip(-1).contiguous()


@turned.register_fake
def _(x):
    return torch.empty(x.shape, dtype=x.dtype)


@torch.library.custom_op("divided::apart", mutates_args=())
def apart(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two tensors."""
    return x.abs(), x.sign()


@apart.register_fake
def _(x):
    return torch.empty_like(x), torch.empty_like(x)


@torch.library.custom_op("divided::strides", mutates_args=())
def strides(x: torch.Tensor) -> torch.Tensor:
    """Return the strides of a tensor as numbers."""
    return torch.tensor(x.stride(), dtype=torch.float32)


@strides.register_fake
def _(x):
    return torch.empty(x.dim())


class Block(nn.Module):
    """A block of a transformer without attention."""

    def __init__(self, width=16):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 32), nn.Linear(32, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Between(nn.Module):
    """A function between two blocks."""

    def __init__(self, function):
        super().__init__()
        self.first, self.second, self.function = Block(), Block(), function

    def forward(self, x):
        return self.second(self.function(self.first(x)))


def messages(caplog):
    return [each.getMessage() for each in caplog.records if each.name == "autotune"]


def checked(model, *inputs, parts=2, **options):
    """Compile a model, compare results and their strides in two calls, return what was logged."""
    model = model.eval()
    handler = logging.handlers.BufferingHandler(1000)
    logging.getLogger("autotune").addHandler(handler)
    try:
        with torch.no_grad():
            fast = by_dynamo(model, **options)
            for _ in range(2):
                got, want = fast(*inputs), model(*inputs)
                same(got, want)
                several = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
                assert all(a.stride() == b.stride() for a, b in several)
    finally:
        logging.getLogger("autotune").removeHandler(handler)
    (told,) = [each.getMessage() for each in handler.buffer]
    assert f"{parts} part{'s' if parts > 1 else ''} of a graph" in told
    return told


def division(model, *inputs):
    with torch.no_grad():
        return read_or_divide(exported(model.eval(), inputs), "cpu")


UNKNOWN = {
    "of_a_library": torch.ops.divided.turned,
    "of_linear_algebra": lambda x: torch.linalg.matrix_exp(x / 16),
    "of_long_waves": lambda x: torch.fft.fft(x.repeat(1, 256)).real[:, :16],
    "with_several_results": lambda x: torch.add(*torch.ops.divided.apart(x)),
    "of_which_one_result_is_missing": lambda x: torch.linalg.slogdet(x)[1] + x,
    "refused_for_its_length": lambda x: torch.sort(x.repeat(1, 300), 1)[0][:, :16],
    "of_whole_numbers_to_a_power": lambda x: ((x * 8).long() ** (x > 0).long()).float() / 8,
    "of_images_of_bytes": lambda x: (
        F.interpolate(
            (x * 80 + 100).clamp(0, 255).to(torch.uint8)[None, None],
            scale_factor=(1, 2),
            mode="bilinear",
        )[0, 0, :, ::2].float()
        / 80
    ),
    "of_averages_of_whole_numbers": lambda x: (
        F.avg_pool2d((x * 80).long()[None, None], (1, 3), 1, (0, 1))[0, 0].float() / 80
    ),
    "of_transposed_rows": lambda x: torch.ops.divided.turned(x.t()).t(),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", UNKNOWN)
def test_an_operator_that_only_torch_has_leaves_the_rest_compiled(name):
    told = checked(Between(UNKNOWN[name]), torch.randn(16, 16))
    assert "100.0% of its FLOPs" in told


def test_the_warning_says_what_torch_runs_and_why():
    told = checked(Between(UNKNOWN["of_linear_algebra"]), torch.randn(16, 16))
    assert "11 of 12 operators" in told
    assert "aten.linalg_matrix_exp.default (1)" in told
    assert "cannot be imported" in told
    told = checked(Between(UNKNOWN["refused_for_its_length"]), torch.randn(16, 16))
    assert "axes of more than 4096 elements are not compared, got 4800" in told


def test_a_part_of_few_operators_is_left_to_torch():
    class Few(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            y = torch.ops.divided.turned(torch.exp(torch.ops.divided.turned(x * 2)) + 1)
            return self.block(y)

    told = checked(Few(), torch.randn(4, 16), parts=1)
    assert "in a part of fewer than 4 calls" in told
    assert "aten.exp.default (1)" in told


def test_a_graph_of_unknown_operators_alone_runs_by_torch(caplog):
    def model(x):
        return torch.ops.divided.turned(torch.ops.divided.turned(x))

    x = torch.randn(4, 6)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        same(by_dynamo(model)(x), x)
    (told,) = messages(caplog)
    assert "torch runs a graph: no part of it is compiled: divided.turned.default (2)" in told


def test_parts_never_wait_for_themselves():
    class Around(nn.Module):
        """The second block reads the first one, and what torch makes of that."""

        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = Block(), Block(), Block()

        def forward(self, x):
            a = self.first(x)
            b = torch.ops.divided.turned(a)
            c = self.second(a + b)
            return a * self.third(torch.ops.divided.turned(c)) + b, a

    checked(Around(), torch.randn(4, 16), parts=3)


@pytest.mark.many_cases
@pytest.mark.parametrize("seed", range(4))
def test_programs_drawn_at_random_are_right(seed):
    rng = random.Random(seed)
    known = [torch.sin, lambda x: x * 2, torch.tanh, lambda x: x.t(), lambda x: x + 1, F.gelu]
    apart, turned = torch.ops.divided.apart, torch.ops.divided.turned
    unknown = [turned, lambda x: apart(x)[0], lambda x: apart(x)[1]]
    steps = [
        (rng.choice(known if rng.random() < 0.8 else unknown), rng.random(), rng.random())
        for _ in range(40)
    ]
    returned = [rng.random() for _ in range(4)]

    def model(x):
        made = [x]
        for function, a, b in steps:
            picked = made[int(a * len(made))], made[int(b * len(made))]
            made.append(function((picked[0] + picked[1]) / 2))
        return tuple(made[int(each * len(made))] for each in returned)

    x = torch.randn(8, 8)
    with torch.no_grad():
        fast = by_dynamo(model)
        first = fast(x)
        for got, want in zip(fast(x + 1), model(x + 1), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        for got, want in zip(first, model(x), strict=True):  # nothing was written over
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_results_stay_though_parts_and_torch_share_memory():
    class Shared(Between):
        def forward(self, x):
            a = self.first(x)
            b = self.second(torch.ops.divided.turned(a))
            return a.t()[1:], b, b.unsqueeze(0), x[1:]

    model, x = Shared(None).eval(), torch.randn(16, 16)
    checked(model, x)
    with torch.no_grad():
        fast = by_dynamo(model)
        first, kept = fast(x), model(x)
        fast(x * 3)
        for got, want in zip(first, kept, strict=True):
            same(got, want)
        first[1].zero_()
        x.zero_()
    assert not first[2].any()
    assert not first[3].any()


def test_torch_reads_the_strides_that_it_traced():
    class Strided(Between):
        def forward(self, x):
            y = self.first(x).t() + 1
            return self.second(x) + torch.ops.divided.strides(y).sum(), y * 2

    told = checked(Strided(None), torch.randn(16, 16), parts=1)
    assert "divided.strides.default (1)" in told


def test_parameters_that_are_written_count_on_both_sides():
    class Scaled(Between):
        def __init__(self):
            super().__init__(lambda x: torch.ops.divided.turned(x * self.scale))
            self.scale = nn.Parameter(torch.ones(16))

        def forward(self, x):
            return super().forward(x) + torch.ops.divided.turned(self.scale)

    model, x = Scaled().eval(), torch.randn(4, 16)
    with torch.no_grad():
        fast = by_dynamo(model)
        same(fast(x), model(x))
        model.scale.add_(torch.randn(16))
        same(fast(x), model(x))
        model.second.up.weight.mul_(2)
        same(fast(x), model(x))


def test_each_of_dynamic_shapes_is_divided():
    model = Between(torch.ops.divided.turned).eval()
    with torch.no_grad():
        fast = by_dynamo(model, dynamic=True)
        for rows in (3, 5, 3, 7):
            x = torch.randn(rows, 16)
            same(fast(x), model(x))


def test_a_shape_that_depends_on_values_is_torchs():
    class Chosen(Between):
        def forward(self, x):
            y = self.first(x)
            picked = torch.ops.divided.turned(y)[y[:, 0] > 0]
            return self.second(picked.sum(0, keepdim=True) + x)

    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    try:
        told = checked(Chosen(None), torch.randn(16, 16))
    finally:
        torch._dynamo.config.capture_dynamic_output_shape_ops = False
    assert "a shape that depends on values" in told


def test_results_without_elements_are_torchs(caplog):
    class Few(Between):
        def forward(self, x):
            return self.second(self.first(x)), x[:0]

    model, x = Few(None).eval(), torch.randn(4, 16)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autotune"):
        for got, want in zip(by_dynamo(model)(x), model(x), strict=True):
            same(got, want)
    assert not messages(caplog)


def test_random_numbers_are_those_of_torch():
    model = Between(lambda x: x + torch.rand_like(x) * torch.rand(16)).eval()
    x = torch.randn(4, 16)
    with torch.no_grad():
        fast = by_dynamo(model)
        fast(x)
        torch.manual_seed(3)
        got = fast(x), fast(x)
        torch.manual_seed(3)
        want = model(x), model(x)
    same(got[0], want[0])
    same(got[1], want[1])
    assert not torch.equal(*got)


def test_autocast_casts_once():
    model, x = Between(lambda x: torch.linalg.matrix_exp(x.float() / 16) @ x.float()), None
    x = torch.randn(16, 16)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        got, want = by_dynamo(model.eval())(x), model(x)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=0.05, atol=0.05)


def test_threads_share_a_divided_graph():
    model = Between(torch.ops.divided.turned).eval()
    inputs = [torch.randn(4, 16) for _ in range(4)]
    found = [None] * 4
    fast = by_dynamo(model)
    with torch.no_grad():
        fast(inputs[0])

    def run(i):
        with torch.no_grad():
            for _ in range(30):
                found[i] = fast(inputs[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with torch.no_grad():
        for given, got in zip(inputs, found, strict=True):
            same(got, model(given))


def test_what_follows_from_parameters_alone_is_in_each_part_that_reads_it():
    class Masked(Between):
        def __init__(self):
            super().__init__(None)
            self.scale = nn.Parameter(torch.randn(16))

        def forward(self, x):
            scale = F.softplus(self.scale) * torch.arange(16)
            return self.second(torch.ops.divided.turned(self.first(x) * scale) * scale) * scale

    made = division(Masked(), torch.randn(4, 16))
    assert isinstance(made, Division)
    assert [len(each.inputs) for each in made.parts] == [1, 1]
    assert [len(each.outputs) for each in made.parts] == [1, 1]
    checked(Masked(), torch.randn(4, 16))


def test_what_passes_between_parts_and_torch_is_not_copied():
    made = division(Between(torch.ops.divided.turned), torch.randn(4, 16))
    inner, outer = (each.program.results for each in made.parts)
    assert [(each.lent, each.stride) for each in inner] == [(True, None)]
    assert [(each.lent, each.stride) for each in outer] == [(False, None)]
