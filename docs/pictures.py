"""Makes the pictures of the live page that the book and the README show; needs Chromium.

    python docs/pictures.py RUN.log OTHER.log     # all of them
    python docs/pictures.py                       # those of recorded devices only

The first, light and dark, are of two logs of one task, from a device. The others are of three
devices side by side, from spaces that were measured exhaustively there (`tests/data`): a
convolution of 4096 x 4096 with a filter of 15 x 15. Its operations and bytes follow from that, and
the ceilings of these devices are those of their data sheets.
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from autotune.dashboard import one_file, snapshot
from autotune.measure import MeasureInput
from autotune.measure.types import Pair
from autotune.record import load_from_file, write_log
from autotune.target import Target
from autotune.tuner import AutoTuner, Recording, callback

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.live_page.throughput import chromium  # noqa: E402

IMAGES = ROOT / "docs" / "images"
SPACES = ROOT / "tests" / "data" / "recorded_spaces"
_SIDE, _FILTER = 4096, 15
FLOP = 2.0 * _SIDE**2 * _FILTER**2
BYTES = 4.0 * (_SIDE**2 + (_SIDE + _FILTER - 1) ** 2 + _FILTER**2)
# float32 operations and bytes in a second at most, as the data sheets say (MI250X: one of its two
# dies); the space each was measured on.
DEVICES = {
    "a100": ("cuda", 19.5e12, 1.555e12, "A100"),
    "mi250x": ("rocm", 23.9e12, 1.638e12, "MI250X"),
    "w6600": ("rocm", 10.4e12, 0.224e12, "W6600"),
}
_TRIALS, _EPOCH = 220, 1.75e9
_WIDTH = 1280


def recorded_log(device: str, folder: Path) -> Path:
    """Write the log of a run on a recorded device, with its roofline."""
    kind, flops, bandwidth, name = DEVICES[device]
    recording = Recording.load(SPACES / f"convolution_milo__{name}.npz")
    made, log = folder / "made.log", folder / f"{device}.log"
    made.unlink(missing_ok=True)
    AutoTuner(recording.task("convolution 15x15"), seed=0).tune(
        _TRIALS, recording.option(), callbacks=[callback.log_to_file(made)], finalists=0
    )
    target, now = Target(f"{kind} -model={device}"), _EPOCH
    pairs: list[Pair] = []
    for inp, result in load_from_file(made):
        now += result.all_cost
        shown: dict[str, object] = {"roof": [FLOP, BYTES, flops, bandwidth]}
        if result.ok:
            shown["roofline"] = max(FLOP / flops, BYTES / bandwidth) / result.seconds
        told = result._replace(timestamp=now, extra={**result.extra, **shown})
        pairs.append((MeasureInput(target, inp.task, inp.config), told))
    write_log(log, pairs)
    return log


def shot(driver: Any, page: Path, out: Path, clip: dict[str, float] | str, theme: str) -> None:
    """Write a picture of a page, or of the part around an element."""
    driver.get(page.as_uri())
    driver.execute_script(
        "document.documentElement.dataset.theme === arguments[0]"
        " || document.getElementById('theme').click()", theme)  # fmt: skip
    driver.execute_async_script("setTimeout(arguments[0], 1500)")
    if isinstance(clip, str):
        clip = driver.execute_script(
            "const r = document.querySelector(arguments[0]).getBoundingClientRect();"
            "return {x: r.x + scrollX - 8, y: r.y + scrollY - 8, width: r.width + 16,"
            " height: r.height + 16}", clip)  # fmt: skip
    asked = {"format": "png", "captureBeyondViewport": True, "clip": {**clip, "scale": 1}}
    data = driver.execute_cdp_cmd("Page.captureScreenshot", asked)["data"]
    picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    picture.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        out, optimize=True
    )
    print(out.relative_to(ROOT), f"{out.stat().st_size / 1000:.0f} kB")


def main(logs: list[str]) -> None:
    """Make the pictures."""
    driver = chromium()
    driver.set_window_size(_WIDTH, 1560)
    whole = {"x": 0.0, "y": 0.0, "width": float(_WIDTH), "height": 1560.0}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        page = folder / "page.html"
        if logs:
            page.write_text(one_file(snapshot(list(map(Path, logs))), "two runs"), "utf-8")
            shot(driver, page, IMAGES / "dashboard-light.png", whole, "light")
            shot(driver, page, IMAGES / "dashboard-dark.png", whole, "dark")
            card = "section[aria-labelledby=%s-head]"
            shot(driver, page, IMAGES / "roofline.png", card % "roofline", "light")
            shot(driver, page, IMAGES / "timeline.png", card % "timeline", "light")
        three = [recorded_log(device, folder) for device in DEVICES]
        page.write_text(one_file(snapshot(three), "three devices"), "utf-8")
        shot(driver, page, IMAGES / "devices.png", whole, "light")
    driver.quit()


if __name__ == "__main__":
    main(sys.argv[1:])
