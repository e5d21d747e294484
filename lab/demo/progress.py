"""Progress on the terminal: a line of state, bars, and what was struck."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from .flights import Census
from .measure import Reading

__all__ = ["Progress"]


class Progress:
    """Progress bars on a terminal, plain lines elsewhere.

    Args:
        console: Where to write, usually stderr.
        quiet: Write nothing where `console` is no terminal.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._plain = not console.is_terminal
        self._quiet = quiet and self._plain
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=self._plain,
        )
        self._state = self._bars.add_task("starting", total=None)
        self._tasks: dict[str, TaskID] = {}

    def say(self, what: str) -> None:
        """Show what the demo is doing now."""
        self._bars.update(self._state, description=what)
        if self._plain and not self._quiet:
            self._console.print(what)

    def fly(self, census: Census) -> None:
        """Show the bars, because the processes begin to work."""
        self.say("flying")
        left = census.flights - census.cancelled
        totals = {"departed": left, "rolled back": census.cancelled, "on the board": left}
        self._tasks = {name: self._bars.add_task(name, total=total) for name, total in totals.items()}

    def update(self, reading: Reading) -> None:
        """Show new counts."""
        values = {"departed": reading.departed, "rolled back": reading.cancelled, "on the board": reading.shown}
        for name, task in self._tasks.items():
            self._bars.update(task, completed=values[name])

    def strike(self, what: str) -> None:
        """Print what was struck. This line stays."""
        if not self._quiet:
            self._bars.console.print(f"[red]✗[/red] {what}", highlight=False)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
