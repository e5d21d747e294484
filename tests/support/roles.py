"""Login roles that the fixture `roles` makes."""

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["LoginRole", "Roles"]


class LoginRole(NamedTuple):
    """A role, and the DSN by which it connects to the test's broker."""

    name: str
    dsn: str


Roles = Callable[[str], LoginRole]
