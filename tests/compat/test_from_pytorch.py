"""TVM's ``relay.frontend.from_pytorch``, as its tutorial uses it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from autotune import tvm  # noqa: E402
from autotune.errors import GraphError  # noqa: E402
from autotune.tvm import relay  # noqa: E402
from autotune.tvm.contrib import graph_executor  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def model():
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(144, 5)).eval()


def test_a_traced_model_is_built_and_run_as_in_tvms_tutorial():
    net, x = model(), torch.randn(1, 3, 8, 8)
    scripted = torch.jit.trace(net, x).eval()
    mod, params = relay.frontend.from_pytorch(scripted, [("input0", [1, 3, 8, 8])])
    assert mod["main"].params[0].name_hint == "input0"
    assert set(params) >= {"0.weight", "1.running_mean", "4.bias"}
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=tvm.target.Target("llvm", host="llvm"), params=params)
    run = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    run.set_input("input0", tvm.nd.array(x.numpy()))
    run.run()
    with torch.no_grad():
        want = net(x).numpy()
    np.testing.assert_allclose(run.get_output(0).numpy(), want, rtol=1e-5, atol=1e-5)


def test_dtypes_of_inputs_and_names_of_parameters_are_as_asked_for():
    net = torch.nn.Embedding(7, 4).eval()
    scripted = torch.jit.trace(net, torch.zeros(2, dtype=torch.int64))
    mod, params = relay.frontend.from_pytorch(
        scripted, [("ids", ((2,), "int64"))], use_parser_friendly_name=True
    )
    assert mod["main"].params[0].type_annotation.dtype == "int64"
    assert list(params) == ["weight"]
    _, params = relay.frontend.from_pytorch(
        torch.jit.trace(model(), torch.zeros(1, 3, 8, 8)), [("x", (1, 3, 8, 8))],
        use_parser_friendly_name=True,
    )  # fmt: skip
    assert "0_weight" in params


def test_a_map_of_converters_takes_tvms_arguments():
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.erfinv(x) + 1

    scripted = torch.jit.trace(Odd().eval(), torch.zeros(3))
    seen = []

    def convert(inputs, types):
        seen.append(types)
        return relay.tanh(inputs[0])

    mod, _ = relay.frontend.from_pytorch(
        scripted, [("x", (3,))], custom_convert_map={"aten::erfinv": convert}
    )
    got = mod["main"].graph.run(np.full(3, 0.5))
    np.testing.assert_allclose(got[0], np.tanh(0.5) + 1)
    assert seen == [["float32"]]


@pytest.mark.parametrize("infos", [[(1, 3)], [("x", 3)], "x", [("x",)]])
def test_inputs_that_are_described_otherwise_are_refused(infos):
    scripted = torch.jit.trace(torch.nn.ReLU().eval(), torch.zeros(3))
    with pytest.raises(GraphError, match=r'input_infos must be a list of \("name", shape\)'):
        relay.frontend.from_pytorch(scripted, infos)
