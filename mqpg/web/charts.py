"""Small plots as inline SVG, coloured by the style sheet."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

__all__ = ["plot"]

_WIDTH, _HEIGHT, _TOP = 320, 72, 6


def plot(points: Sequence[tuple[float, float | None]], title: str, colour: int) -> Markup:
    """Draw one line.

    Args:
        points: Time and value, the oldest first. A value of None is a gap.
        title: What a reader who does not see the plot hears.
        colour: The number of the colour, 0 to 4.

    Returns:
        The SVG element. It has no inline style, which the pages forbid.
    """
    known = [value for _, value in points if value is not None]
    most = max(known, default=0.0) or 1.0
    first, last = (points[0][0], points[-1][0]) if points else (0.0, 1.0)
    path, pen = [], "M"
    for at, value in points:
        if value is None:
            pen = "M"
            continue
        x = _WIDTH * (at - first) / ((last - first) or 1.0)
        y = _HEIGHT - 1 - (_HEIGHT - 1 - _TOP) * value / most
        path.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    return Markup(
        '<svg class="plot c{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<line class="grid" x1="0" y1="{}" x2="{}" y2="{}"/><path d="{}"/></svg>'
    ).format(colour, _WIDTH, _HEIGHT, escape(title), _HEIGHT - 1, _WIDTH, _HEIGHT - 1, " ".join(path))
