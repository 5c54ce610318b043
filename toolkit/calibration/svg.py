"""The little of SVG that a chart with logarithmic values over a row of layers needs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

FONT = "font-family='sans-serif' font-size='12'"


@dataclass(frozen=True)
class Series:
    """One value a layer; None draws nothing."""

    label: str
    color: str
    values: Sequence[float | None]
    filled: bool = True
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """A chart's place in pixels, its values' range (both ends above zero), and its marks on the value axis."""

    title: str
    left: int
    top: int
    width: int
    height: int
    low: float
    high: float
    marks: Sequence[tuple[float, str]]
    names: Sequence[str]
    """Of the layers, from left to right."""

    def draw(self, series: Sequence[Series], legend: int = 0) -> Iterator[str]:
        """The panel's elements. legend: pixels from the left of the panel to its legend."""
        yield text(self.left, self.top - 12, self.title, bold=True)
        yield from self._frame()
        for number, line in enumerate(series):
            yield from self._line(line)
            x, y = self.left + legend, self.top + 16 + 18 * number
            yield _mark(x, y - 4, line)
            yield text(x + 12, y, line.label)

    def rule(self, value: float, label: str) -> Iterator[str]:
        """A dashed line across at a value, if it lies in the range."""
        if self.low <= value <= self.high:
            y = self._y(value)
            yield f"<path d='M{self.left} {y:.1f}h{self.width}' stroke='#c00' stroke-dasharray='6 4' fill='none'/>"
            below = y + 15 < self.top + self.height
            yield text(self.left + self.width - 4, y + 15 if below else y - 6, label, anchor="end", color="#c00")

    def _frame(self) -> Iterator[str]:
        for value, label in self.marks:
            y = self._y(value)
            yield f"<path d='M{self.left} {y:.1f}h{self.width}' stroke='#ddd' fill='none'/>"
            yield text(self.left - 6, y + 4, label, anchor="end")
        every = max(1, math.ceil(len(self.names) / 24))
        for number in range(0, len(self.names), every):
            yield text(self._x(number), self.top + self.height + 16, self.names[number], anchor="middle")
        size = f"width='{self.width}' height='{self.height}'"
        yield f"<rect x='{self.left}' y='{self.top}' {size} fill='none' stroke='#888'/>"

    def _line(self, series: Series) -> Iterator[str]:
        points = [(self._x(n), self._y(value)) for n, value in enumerate(series.values) if value is not None]
        path = " ".join(f"{'L' if n else 'M'}{x:.1f} {y:.1f}" for n, (x, y) in enumerate(points))
        dash = " stroke-dasharray='3 3'" if series.dashed else ""
        yield f"<path d='{path}' stroke='{series.color}' fill='none' opacity='0.6'{dash}/>"
        yield from (_mark(x, y, series) for x, y in points)

    def _x(self, number: int) -> float:
        return self.left + self.width * (number + 0.5) / len(self.names)

    def _y(self, value: float) -> float:
        """Values outside of the range lie on its edge."""
        inside = min(max(value, self.low), self.high)
        return self.top + self.height * (1 - math.log(inside / self.low) / math.log(self.high / self.low))


def document(width: int, height: int, elements: Sequence[str]) -> str:
    """The elements as an SVG file on white."""
    opening = f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' {FONT}>"
    return "\n".join([opening, f"<rect width='{width}' height='{height}' fill='white'/>", *elements, "</svg>"]) + "\n"


def text(x: float, y: float, content: str, *, anchor: str = "start", color: str = "#222", bold: bool = False) -> str:
    """A line of text."""
    weight = " font-weight='bold'" if bold else ""
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{color}'{weight}>{escape(content)}</text>"


def _mark(x: float, y: float, series: Series) -> str:
    fill = series.color if series.filled else "white"
    return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{fill}' stroke='{series.color}'/>"
