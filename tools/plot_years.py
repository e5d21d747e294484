"""Draw the samples of `make years` as small multiples in one SVG.

    python tools/plot_years.py years.json docs/years.svg

Each figure has its own axis from zero. Dotted lines are the quarters. A dashed line from the second
quarter on is the bound of the last one's median: 1.25 times that of the second, and the allowance
of `lab/years/samples.py`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["draw", "main"]

WIDTH, HEIGHT, COLUMNS, MARGIN = 250, 130, 3, 34
_STYLE = """
text { font: 11px sans-serif; fill: #333 } .title { font-weight: bold } .number { text-anchor: end; fill: #666 }
.frame { fill: #fff; stroke: #ccc } .quarter { stroke: #ccc; stroke-dasharray: 2 3 }
.bound { stroke: #c33; stroke-dasharray: 5 3 } .figure { fill: none; stroke: #1f5fa8; stroke-width: 1.4 }
"""


def draw(run: Mapping[str, Any]) -> str:
    """Draw a run.

    Args:
        run: A run of kind `years`, as its JSON file has it.

    Returns:
        The text of an SVG.
    """
    samples = run["figures"]["samples"]
    allowances = {line["figure"]: line["allowance"] for line in run["figures"]["quarters"]}
    names = [*allowances, "sales/s", "effects/s", "pause s"]
    names = [name for name in names if any(name in sample for sample in samples)]
    rows = -(-len(names) // COLUMNS)
    width, height = COLUMNS * (WIDTH + MARGIN) + MARGIN, rows * (HEIGHT + MARGIN) + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="{MARGIN}" y="20">{escape(_title(run))}</text>',
    ]
    for i, name in enumerate(names):
        x, y = MARGIN + i % COLUMNS * (WIDTH + MARGIN), 2 * MARGIN + i // COLUMNS * (HEIGHT + MARGIN)
        lines.append(f'<g transform="translate({x},{y})">')
        points = [(sample["seconds"], sample[name]) for sample in samples if name in sample]
        lines += _panel(name, points, samples[-1]["seconds"], allowances.get(name))
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])


def _title(run: Mapping[str, Any]) -> str:
    figures = run["figures"]
    return (
        f"{figures['days of the year']} days in {figures['minutes']:g} minutes, {figures['messages']:,} messages,"
        f" seed {run['seed']}, {run['date']}"
    )


def _panel(name: str, points: Sequence[tuple[float, float]], end: float, allowance: float | None) -> Iterator[str]:
    second = [value for at, value in points if end / 4 <= at < end / 2]
    bound = statistics.median(second) * 1.25 + allowance if second and allowance is not None else None
    top = max(max(value for _, value in points), bound or 0.0) * 1.05 or 1.0

    def across(at: float) -> float:
        return round(at / end * WIDTH, 1)

    def up(value: float) -> float:
        return round(HEIGHT - value / top * HEIGHT, 1)

    yield f'<rect class="frame" width="{WIDTH}" height="{HEIGHT}"/>'
    for quarter in (1, 2, 3):
        x = quarter * WIDTH / 4
        yield f'<line class="quarter" x1="{x}" x2="{x}" y1="0" y2="{HEIGHT}"/>'
    if bound is not None:
        yield f'<line class="bound" x1="{WIDTH / 4}" x2="{WIDTH}" y1="{up(bound)}" y2="{up(bound)}"/>'
    path = " ".join(f"{across(at)},{up(value)}" for at, value in points)
    yield f'<polyline class="figure" points="{path}"/>'
    yield f'<text x="0" y="-5">{escape(name)}</text>'
    yield f'<text class="number" x="{WIDTH}" y="-5">top {top:,.4g}</text>'


def main() -> None:
    """Read the run that the first argument names, and write its plot to the second."""
    parser = argparse.ArgumentParser(description="Draw the samples of make years as an SVG.")
    parser.add_argument("run", type=Path)
    parser.add_argument("svg", type=Path)
    options = parser.parse_args()
    run = json.loads(options.run.read_text(encoding="utf-8"))
    options.svg.write_text(draw(run), encoding="utf-8")


if __name__ == "__main__":
    main()
