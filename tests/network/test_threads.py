"""Instances of one network in several threads."""

import threading

import numpy as np

from autotune import tvm
from autotune.tvm import relay
from autotune.tvm.contrib import graph_executor


def test_threads_with_an_instance_each_do_not_disturb_one_another():
    # Down columns log_softmax has no template: it keeps sums in memory, of which each instance has
    # its own.
    data = relay.var("data", shape=(64, 2000))
    module = tvm.IRModule.from_expr(relay.nn.log_softmax(data, axis=0))
    library = relay.build(module, target="llvm")
    assert any(each.kernel.workspace for each in library.network.modules)
    nets = [graph_executor.GraphModule(library["default"](tvm.cpu(0))) for _ in range(2)]
    rng = np.random.default_rng(0)
    wants = []
    for scale, net in enumerate(nets, 1):
        net.run(data=scale * rng.normal(size=(64, 2000)))
        wants.append(net.get_output(0).numpy())
    wrong = []

    def work(net, want):
        for _ in range(50):
            net.run()
            if not np.array_equal(net.get_output(0).numpy(), want):
                wrong.append(net)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(nets, wants, strict=True)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
