"""A model of PyTorch as a compiled network: by torch.compile, and ahead of time.

Run it with ``python examples/pytorch_model.py``; PyTorch must be installed. On a GPU, move the
model and its input there (``.cuda()``): nothing else changes.
"""

import torch

import autotune

model = torch.nn.Sequential(
    torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 10), torch.nn.LayerNorm(10)
).eval()
x = torch.randn(4, 64)

with torch.no_grad():
    wanted = model(x)

    # Compiled at the first call, once for each shape.
    lazy = torch.compile(model, backend=autotune.torch.backend)
    print("torch.compile:", float((lazy(x) - wanted).abs().max()))

    # Compiled now, for this shape; with tune=60, log="model.log" its kernels are tuned first.
    ready = autotune.torch.compile(model, x)
    print("autotune.torch.compile:", float((ready(x) - wanted).abs().max()))
