"""Format numbers, times and names for readers."""

from datetime import UTC, datetime, timedelta
from typing import Final

UNKNOWN: Final = "—"
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_SHORT: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BIDI: Final = frozenset(
    "\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
)


def number(value: float | None) -> str:
    """Format as 1,234,567; a dash for an unknown value."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.2f}"


def short(value: float) -> str:
    """Format as 1.2M, for axes."""
    for size, letter in _SHORT:
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def share(part: float, whole: float) -> str:
    """Format a percentage. Zero and the whole have their own words."""
    if not whole:
        return "0 %"
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "under 1 %"
    return "over 99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Format as 3 rebalances, 1 rebalance, no rebalances."""
    if n == 1:
        return f"1 {noun}"
    return f"{number(n) if n else 'no'} {plural or noun + 's'}"


def duration(seconds: float | None) -> str:
    """Format the two largest units: 3 min 20 s, 2 d 4 h; 250 ms."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"
    left = round(seconds)
    parts = []
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def moment(time: datetime | None) -> str:
    """Format as 2026-03-01 12:00:05, in UTC."""
    return UNKNOWN if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def length(start: datetime, end: datetime) -> str:
    """Format the length of a period."""
    return duration((end - start) / timedelta(seconds=1)) if end > start else "a single moment"


def shown(text: str | None) -> str:
    """Escape the invisible and text-reversing characters of a name from the log."""
    if text is None:
        return UNKNOWN
    if not text:
        return '""'
    return "".join(
        char if char.isprintable() and char not in _BIDI else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def cut(text: str | None, length: int) -> str:
    """Apply `shown`, and omit a part before the end of a text longer than `length`."""
    whole = shown(text)
    if len(whole) <= length:
        return whole
    tail = min(6, (length - 1) // 2)
    return f"{whole[: length - 1 - tail]}…{whole[-tail:]}"


def listed(names: list[str], limit: int = 3) -> str:
    """Format as a, b and c; a, b, c and 4 more."""
    if len(names) > limit:
        return f"{', '.join(names[:limit])} and {number(len(names) - limit)} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def forward(offsets: float | None) -> str:
    """Format a group's progress. A negative one is described as a rewind."""
    return number(offsets) if offsets is None or offsets >= 0 else f"went back by {number(-offsets)}"
