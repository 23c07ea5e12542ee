"""Curves as images: SVG for pages, PNG for viewers without SVG. Pure."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 300, 64, 56, 28
_COLOURS = ("#1f6f8b", "#b3541e", "#5b7f2b", "#7a4b94", "#a08414", "#444444")
_GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
_DOTS = 2
"""Pixels of a PNG per unit of the SVG, so that its text is sharp."""


@dataclass(frozen=True)
class Curves:
    """Content of a diagram."""

    ticks: Sequence[str]
    """Labels of the places on the horizontal axis."""
    curves: Sequence[tuple[str, Sequence[tuple[int, float]]]]
    """Curves, each with its name, places and values."""
    unit: str

    @property
    def top(self) -> float:
        """Maximum value, or 1 without values."""
        return max((value for _, points in self.curves for _, value in points), default=0.0) or 1.0

    def across(self, place: float) -> float:
        """Return the horizontal position of a place."""
        return _LEFT + (_WIDTH - _LEFT - 20) * (place + 0.5) / max(1, len(self.ticks))

    def up(self, value: float) -> float:
        """Return the vertical position of a value."""
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * value / (1.08 * self.top)


def short(tick: str) -> str:
    """Return a tick shortened to the available width."""
    return (tick.rpartition("=")[2] if tick.count("=") == 1 else tick)[:24]


def svg(found: Curves) -> str:
    """Return a diagram as SVG, which a page can contain."""
    top, across, up = found.top, found.across, found.up
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="8" y="16">{escape(found.unit)}</text>'
    ]
    for share in _GRID:
        y = up(share * top)
        parts.append(
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - 20}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share * top:.3g}</text>'
        )
    for number, tick in enumerate(found.ticks):
        parts.append(
            f'<text x="{across(number):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">'
            f"<title>{escape(tick)}</title>{escape(short(tick))}</text>"
        )
    for number, (words, points) in enumerate(found.curves):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{across(n):.1f},{up(value):.1f}" for n, value in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{across(n):.1f}" cy="{up(value):.1f}" r="3" fill="{colour}">'
            f"<title>{value:.4g}</title></circle>"
            for n, value in points
        ]
        parts.append(
            f'<text x="{_LEFT + 150 * number}" y="{_HEIGHT - 12}" fill="{colour}">{escape(words)}</text>'
        )
    return "".join([*parts, "</svg>"])


def png(found: Curves) -> bytes:
    """Return a diagram as PNG, twice as large."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (_WIDTH * _DOTS, _HEIGHT * _DOTS), "white")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(11 * _DOTS)

    def write(x: float, y: float, words: str, anchor: str, colour: str = "black") -> None:
        pen.text((x * _DOTS, y * _DOTS), words, colour, font, anchor)

    write(8, 16, found.unit, "ls")
    for share in _GRID:
        y = found.up(share * found.top)
        pen.line([(_LEFT * _DOTS, y * _DOTS), ((_WIDTH - 20) * _DOTS, y * _DOTS)], "#dddddd", _DOTS)
        write(_LEFT - 6, y + 4, f"{share * found.top:.3g}", "rs")
    for place, tick in enumerate(found.ticks):
        write(found.across(place), _HEIGHT - _BOTTOM + 16, short(tick), "ms")
    for number, (words, points) in enumerate(found.curves):
        colour = _COLOURS[number % len(_COLOURS)]
        dots = [(found.across(n) * _DOTS, found.up(value) * _DOTS) for n, value in points]
        pen.line(dots, colour, 2 * _DOTS)
        for x, y in dots:
            pen.ellipse([x - 3 * _DOTS, y - 3 * _DOTS, x + 3 * _DOTS, y + 3 * _DOTS], colour)
        write(_LEFT + 150 * number, _HEIGHT - 12, words, "ls", colour)
    content = io.BytesIO()
    image.save(content, "PNG", optimize=True)
    return content.getvalue()
