"""Images at places that are data, against PyTorch in float64."""

import functools
import itertools

import pytest

torch = pytest.importorskip("torch")

from tests.importers.pytorch.families import Family, check, t  # noqa: E402

F = torch.nn.functional


def test_regions_of_images_are_those_of_their_definition():
    """The operator is torchvision's, which may lack its library here: means are written out."""
    x, regions = t(2, 3, 6, 7), torch.tensor([[1, 0.5, 1.0, 5.5, 4.0], [0, -3.0, 2.0, 2.0, 9.0]])
    regions = regions.double()
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library:
        name = "roi_align"
        if not hasattr(torch.ops.torchvision, name):
            library.define(
                f"{name}(Tensor a, Tensor b, float c, int d, int e, int f, bool g) -> Tensor"
            )
            library.impl(name, _regions, "CPU")
            library.impl(name, lambda x, r, _, *s: x.new_empty(len(r), x.shape[1], *s[:2]), "Meta")
        align = torch.ops.torchvision.roi_align
        for aligned in (True, False):
            check(lambda a, b, g=aligned: align(a, b, 0.8, 3, 2, 2, g), x, regions)


def _regions(x, regions, scale, rows, columns, samples, aligned):
    """Return the means of samples of each region, by torch's own sampling of a grid."""
    height, width = x.shape[2:]
    found = []
    for number, *edges in regions.tolist():
        left, top, right, bottom = (each * scale - 0.5 * aligned for each in edges)
        down, across = bottom - top, right - left
        if not aligned:
            down, across = max(down, 1.0), max(across, 1.0)
        at = [
            begin + extent * (torch.arange(count * samples).double() + 0.5) / (count * samples)
            for begin, extent, count in ((top, down, rows), (left, across, columns))
        ]
        seen = [(a >= -1) & (a <= n) for a, n in zip(at, (height, width), strict=True)]
        ys, xs = (
            a.clamp(0, n - 1) / (n - 1) * 2 - 1 for a, n in zip(at, (height, width), strict=True)
        )
        grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij")[::-1], -1)[None]
        image = F.grid_sample(x[int(number)][None], grid, align_corners=True)
        image = image * (seen[0][:, None] & seen[1][None])
        found.append(F.avg_pool2d(image, samples))
    return torch.cat(found)


def test_deformed_convolutions_are_those_of_their_definition():
    """The operator is torchvision's, which may lack its library here: samples are written out."""
    x, weight, bias = t(2, 4, 6, 5), t(6, 2, 3, 2), t(6)
    offset, mask = t(2, 2 * 6 * 2, 2, 6) * 2, t(2, 2 * 6, 2, 6, seed=1)
    numbers = "int a, int b, int c, int d, int e, int f, int g, int h, bool i"
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library:
        name = "deform_conv2d"
        if not hasattr(torch.ops.torchvision, name):
            tensors = "Tensor x, Tensor w, Tensor o, Tensor m, Tensor y"
            library.define(f"{name}({tensors}, {numbers}) -> Tensor")
            library.impl(name, _deformed, "CPU")
            library.impl(name, lambda x, w, o, *_: x.new_empty(2, 6, *o.shape[2:]), "Meta")
        convolve = torch.ops.torchvision.deform_conv2d
        for use_mask in (True, False):
            how = (2, 1, 1, 2, 2, 3, 2, 2, use_mask)
            check(lambda *given, h=how: convolve(*given, *h), x, weight, offset, mask, bias)


def _deformed(x, weight, offset, mask, bias, down, across, top, left, dy, dx, groups, own, masked):
    """Return sums of samples, taken by torch's own sampling of a grid."""
    batch, channels, height, width = x.shape
    _, _, rows, columns = weight.shape
    offset = offset.view(batch, own, rows, columns, 2, *offset.shape[2:])
    mask = mask.view(batch, own, rows, columns, *mask.shape[2:])
    y = torch.arange(offset.shape[-2]).view(-1, 1) * down - top
    z = torch.arange(offset.shape[-1]) * across - left
    found = torch.zeros(batch, channels, rows, columns, *offset.shape[-2:], dtype=x.dtype)
    part = channels // own
    for group, i, j in itertools.product(range(own), range(rows), range(columns)):
        ys = (y + i * dy + offset[:, group, i, j, 0]) / (height - 1) * 2 - 1
        xs = (z + j * dx + offset[:, group, i, j, 1]) / (width - 1) * 2 - 1
        images = x[:, group * part : (group + 1) * part]
        read = F.grid_sample(images, torch.stack([xs, ys], -1), align_corners=True)
        factor = mask[:, group, i, j, None] if masked else 1.0
        found[:, group * part : (group + 1) * part, i, j] = read * factor
    parts = [
        torch.einsum("ncijyx,ocij->noyx", images, filters)
        for images, filters in zip(found.chunk(groups, 1), weight.chunk(groups), strict=True)
    ]
    return torch.cat(parts, 1) + bias.view(-1, 1, 1)


def sampling(**options):
    """Return a sampling of an image with its inputs."""
    function = functools.partial(F.grid_sample, **options)
    return function, t(2, 3, 5, 4), 1.6 * t(2, 3, 6, 2, seed=2)


SAMPLINGS = Family({
    f"{mode}, {padding}, {corners}": sampling(
        mode=mode, padding_mode=padding, align_corners=corners
    )
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for corners in (True, False)
})  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", SAMPLINGS.cases)
def test_images_at_the_places_of_a_grid(name):
    SAMPLINGS.check(name, rtol=1e-6)
