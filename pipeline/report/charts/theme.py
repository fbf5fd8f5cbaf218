"""Draw plots in the colours of the page's theme.

matplotlib draws with placeholder colours. In its SVG they become CSS variables, so that one drawing fits the light
and the dark theme. Text stays text in the page's font. Each plot is drawn in a wide and a narrow version, and the
page shows the one that fits, because a scaled-down wide plot would be unreadable on a phone.
"""

import re
import warnings
from collections.abc import Callable, Iterable
from html import escape
from io import StringIO
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

INK: Final = "#a0000a"
MUTED: Final = "#a0000b"
GRID: Final = "#a0000c"
SURFACE: Final = "#a0000d"
ALERT: Final = "#a0000e"
OTHER: Final = "#a0000f"
SERIES: Final = tuple(f"#a000{n:02x}" for n in range(0x20, 0x28))
"""Eight distinguishable colours. Further series share OTHER."""

_VARIABLES: Final = {
    INK: "ink", MUTED: "muted", GRID: "grid", SURFACE: "surface", ALERT: "alert", OTHER: "other",
} | {color: f"series-{n}" for n, color in enumerate(SERIES, 1)}  # fmt: skip

WIDE_INCHES: Final = 13.4
NARROW_INCHES: Final = 4.9
LEGEND_INCHES: Final = 0.26
_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 12,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "ytick.major.size": 0,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 11,
}
_NO_METADATA: Final = {"Date": None, "Creator": None, "Format": None, "Type": None}
_HEAD: Final = re.compile(r"^.*?<svg[^>]*?(viewBox=\"[^\"]+\")[^>]*>", re.DOTALL)
_METADATA: Final = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_COLOR: Final = re.compile("|".join(_VARIABLES))


class Hover(NamedTuple):
    """The tooltip of a region of a plot: a range of the x axis in matplotlib's time units, and one line of the y
    axis unless `line` is None.
    """

    axes: Axes
    begin: float
    end: float
    text: str
    line: float | None = None


Draw = Callable[[Figure, bool], Iterable[Hover]]
"""Draw into an empty figure; the flag requests the narrow version. Returns the tooltips."""


def color(place: int) -> str:
    """Return the colour of a series by its index from 0."""
    return SERIES[place] if place < len(SERIES) else OTHER


def plot(name: str, title: str, height_inches: float, draw: Draw, n_legend: int = 0, columns: int = 4) -> str:
    """Return the HTML of a plot in both widths.

    Args:
        name: a unique name on the page.
        title: the alternative text.
        height_inches: the height without the legend.
        draw: draws the plot.
        n_legend: the number of legend entries.
        columns: the number of legend columns in the wide version; the narrow one has one.
    """
    lines = -(-n_legend // columns)
    return _svg(
        f"{name}-wide", "wide", title, WIDE_INCHES, height_inches + LEGEND_INCHES * lines, draw
    ) + _svg(f"{name}-narrow", "narrow", title, NARROW_INCHES, height_inches + LEGEND_INCHES * n_legend, draw)


def _svg(name: str, kind: str, title: str, width: float, height: float, draw: Draw) -> str:
    with mpl.rc_context(_STYLE | {"svg.hashsalt": name, "svg.id": name}), warnings.catch_warnings():
        # The browser has fonts for glyphs that are missing in the font used for measuring.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=(width, height), dpi=72, layout="constrained")
        hovers = list(draw(figure, kind == "narrow"))
        out = StringIO()
        # Unlike this call, savefig computes the layout twice.
        FigureCanvasSVG(figure).print_svg(out, metadata=_NO_METADATA)  # type: ignore[no-untyped-call]
        said = (
            "".join(_said(each, height) for each in hovers) if kind == "wide" else ""
        )  # phones have no pointer
    text = _METADATA.sub("", out.getvalue()).replace("</svg>", f"{said}</svg>")
    head = f'<svg class="plot {kind}" role="img" aria-label="{escape(title, quote=True)}" '
    text = _HEAD.sub(lambda match: f"{head}{match[1]}>", text, count=1)
    return _COLOR.sub(lambda match: f"var(--{_VARIABLES[match[0]]})", text)


def _said(hover: Hover, height_inches: float) -> str:
    """Return an invisible element that shows a tooltip."""
    box = hover.axes.bbox
    (left, _), (right, _) = hover.axes.transData.transform([(hover.begin, 0), (hover.end, 0)])
    left, right = max(left, box.x0), min(right, box.x1)
    if right <= left:
        return ""
    bottom, top = box.y0, box.y1
    if hover.line is not None:
        (_, one), (_, other) = hover.axes.transData.transform(
            [(0, hover.line - 0.45), (0, hover.line + 0.45)]
        )
        bottom, top = sorted((one, other))
    y = height_inches * 72 - top
    place = f'x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" height="{top - bottom:.1f}"'
    return f'<rect class="hover" {place}><title>{escape(hover.text)}</title></rect>'


def quiet(axes: Axes) -> None:
    """Hide the ticks of an axis with names instead of numbers."""
    axes.grid(visible=False)
    axes.tick_params(axis="y", labelcolor=INK)
