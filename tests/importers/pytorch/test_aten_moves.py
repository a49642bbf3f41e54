"""Moves of elements, and images in other sizes, against PyTorch in float64."""

import functools
import math

import pytest

torch = pytest.importorskip("torch")

from tests.importers.pytorch.families import Family, check_each, t  # noqa: E402

F = torch.nn.functional


MOVES = {
    "view": lambda x: x.view(2, -1),
    "flatten": lambda x: x.flatten(1, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, 2),
    "movedim": lambda x: x.movedim(0, 2),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "expand": lambda x: x[:, :1].expand(2, 4, 6),
    "repeat": lambda x: x.repeat(2, 1, 1, 3),
    "repeat_interleave": lambda x: x.repeat_interleave(2, dim=1),
    "select": lambda x: x[:, -1],
    "slice": lambda x: x[:, 1:4:2, ::3],
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "stack": lambda x: torch.stack([x, x * 2], 1),
    "split": lambda x: x.split([1, 3], 1),
    "chunk": lambda x: x.chunk(3, 2),
    "uneven chunk": lambda x: x.chunk(4, 2),
    "unbind": lambda x: x.unbind(1),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=3.0),
    "pad that cuts": lambda x: F.pad(x, (-1, 2)),
    "reflect": lambda x: F.pad(x, (2, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (2, 1), mode="replicate"),
    "circular": lambda x: F.pad(x, (2, 1), mode="circular"),
    "roll": lambda x: torch.roll(x, (1, -2), (1, 2)),
    "roll of all": lambda x: torch.roll(x, 5),
    "flip": lambda x: x.flip(0, 2),
    "tril": lambda x: torch.tril(x),
    "triu": lambda x: torch.triu(x, 1),
    "unfold": lambda x: x.unfold(2, 3, 2),
    "diagonal": lambda x: torch.diagonal(x, 1, 1, 2),
    "assigned slice": lambda x: torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3),
    "assigned index": lambda x: torch.select_scatter(x, x[:, 0] * 2, 1, 2),
    "written places": lambda x: x.clone().index_put((torch.tensor([1, 0]),), x[:2] * 3),
    "as_strided": lambda x: torch.as_strided(x, (2, 3), (6, 2), 1),
    "as_strided of transposed": lambda x: torch.as_strided(
        x.transpose(0, 2) + 1, (2, 3), (6, 2), 1
    ),
    "rot90": lambda x: torch.rot90(x, 1, (1, 2)),
}


MOVES |= {
    "an empty part": lambda x: torch.cat([x[:, :0], x[:, 1:], torch.tensor([])], 1),
    "nothing rotated": lambda x: torch.cat([x[..., :6] * 2, x[..., 6:] + 1], -1),
    "parts behind an empty one": lambda x: torch.split(x, [0, 2, 0, 2], 1)[1] * 2,
    "a sum of nothing": lambda x: x + x[:, 4:].sum(1, keepdim=True),
}
MOVES = Family({name: (function, t(2, 4, 6)) for name, function in MOVES.items()})


@pytest.mark.many_cases
@pytest.mark.parametrize("name", MOVES.cases)
def test_moves_of_elements_are_those_of_torch(name):
    MOVES.check(name)


def test_pixels_become_channels_and_channels_pixels_as_in_torch():
    check_each(
        (lambda x: F.pixel_shuffle(x, 2), t(1, 8, 3, 4)),
        (lambda x: F.pixel_unshuffle(x, 2), t(1, 2, 6, 4)),
        (lambda x: F.channel_shuffle(x, 2), t(1, 6, 3, 4)),
        (lambda x: F.unfold(x, 3, padding=1, stride=2), t(1, 2, 6, 6)),
    )


RESIZES = {
    "nearest twice": {"scale_factor": 2, "mode": "nearest"},
    "nearest down": {"size": (3, 5), "mode": "nearest"},
    "nearest exact": {"size": (5, 9), "mode": "nearest-exact"},
    "bilinear": {"size": (9, 11), "mode": "bilinear"},
    "bilinear corners": {"size": (9, 3), "mode": "bilinear", "align_corners": True},
    "bilinear factor": {"scale_factor": 1.7, "mode": "bilinear"},
    "bicubic": {"size": (9, 11), "mode": "bicubic"},
    "bilinear of averages": {"size": (3, 9), "mode": "bilinear", "antialias": True},
    "bicubic of averages": {"size": (4, 3), "mode": "bicubic", "antialias": True},
    "factor of averages": {"scale_factor": 0.6, "mode": "bilinear", "antialias": True},
}


RESIZES = {name: functools.partial(F.interpolate, **each) for name, each in RESIZES.items()}
RESIZES = Family({name: (function, t(1, 2, 6, 7)) for name, function in RESIZES.items()})


@pytest.mark.parametrize("name", RESIZES.cases)
def test_images_in_other_sizes_are_those_of_torch(name):
    RESIZES.check(name)


def test_lines_and_volumes_in_other_sizes_are_those_of_torch():
    check_each(
        (lambda x: F.interpolate(x, size=9, mode="linear"), t(1, 2, 6)),
        (lambda x: F.interpolate(x, size=(3, 4, 5), mode="trilinear"), t(1, 2, 2, 3, 4)),
    )


NEAREST = [  # extents before, and sizes or factors; in float64 all of these were other pixels
    ((6,), {"scale_factor": 1.2}),
    ((2,), {"size": 50}),
    ((2,), {"scale_factor": 1.1}),
    ((2, 2), {"scale_factor": (2.1, 1.1)}),
    ((9, 7), {"size": (57, 60)}),
    ((2, 6, 3), {"scale_factor": (1.1, 2.4, 1.3)}),
]


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
def test_nearest_pixels_are_those_of_torch(mode, dtype):
    cases = []
    for extents, how in NEAREST:
        pixels = torch.arange(math.prod(extents)).reshape(1, 1, *extents).to(dtype)
        cases.append((functools.partial(F.interpolate, mode=mode, **how), pixels))
    check_each(*cases, rtol=0)
