"""Curves as pictures, read back as what shows them would."""

import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from daybreak_runtime.benchmark.__main__ import save
from daybreak_runtime.benchmark.report.files import files
from daybreak_runtime.benchmark.report.picture import Curves, png, svg
from tests.unit.runtime.benchmark.test_run import SWEEP, Machine, order, run

CURVES = Curves(["baseline", "max_num_seqs=8"], [("8 clients", [(0, 3.0), (1, 9.0)])], "requests/s")
EMPTY = Curves([], [], "requests/s")


def image(content: bytes) -> Image.Image:
    found = Image.open(io.BytesIO(content))
    found.load()
    return found


def test_higher_values_are_drawn_higher() -> None:
    found = image(png(CURVES)).convert("RGB")
    colour = (0x1F, 0x6F, 0x8B)
    for place, value in CURVES.curves[0][1]:
        where = round(2 * CURVES.across(place)), round(2 * CURVES.up(value))
        assert found.getpixel(where) == colour
    assert CURVES.up(9.0) < CURVES.up(3.0)


def test_png_has_twice_the_size_of_the_svg() -> None:
    drawn = ElementTree.fromstring(svg(CURVES))  # noqa: S314 -- our own
    _, _, width, height = map(int, drawn.attrib["viewBox"].split())
    assert image(png(CURVES)).size == (2 * width, 2 * height)


@pytest.mark.parametrize("curves", [EMPTY, Curves(["one"], [("a", [(0, 0.0)])], "tokens/s")])
def test_empty_or_zero_curves_still_produce_a_png(curves: Curves) -> None:
    assert image(png(curves)).format == "PNG"


def test_curve_png_is_saved_in_the_report_folder(tmp_path: Path) -> None:
    desired = order(sweep=SWEEP, output=f"file://{tmp_path}/report")
    save(desired, files(desired, run(desired, Machine())))
    assert image((tmp_path / "report" / "curve.png").read_bytes()).format == "PNG"
