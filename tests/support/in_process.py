"""The type of the fixture that runs a command in this process."""

from collections.abc import Callable

__all__ = ["Run"]

Run = Callable[..., tuple[int, str, str]]
"""The command's words as arguments; exit status, stdout and stderr."""
