"""Which right a role lacks, also where PostgreSQL refuses it before mqpg is asked."""

from __future__ import annotations

import re
from functools import cache

from mqpg.schema.source import packaged
from mqpg.values.errors import NotGranted

__all__ = ["refusal"]

_FUNCTION = re.compile(r"^permission denied for function (\w+)")
_ENTRY = re.compile(r"\('(\w+)', '([a-z ]+)'\)")
# The rights that somebody at a dashboard may need, and how they are given.
_GRANTS = {
    "receive": "mqpg grant receive '*' '*' {role}",
    "operator": "mqpg grant operator {role}",
    "auditor": "mqpg grant auditor {role}",
}
_ALL_PAGES = ("operator", "auditor")  # of which each page needs one


def refusal(error: NotGranted, role: str) -> str:
    """Say what a role may not do, and which right it lacks.

    Args:
        error: The error. That of mqpg names the grant, and that of PostgreSQL only what it refuses.
        role: The name of the role.

    Returns:
        One or two sentences.
    """
    if error.sqlstate == NotGranted.sqlstate:
        return str(error)
    refused = _FUNCTION.match(str(error))
    rights = _rights().get(refused[1], ()) if refused else ()
    grants = [_GRANTS[one].format(role=role) for one in _GRANTS if one in (rights or _ALL_PAGES)]
    return f"{error}. Missing: {' or '.join(grants)}"


@cache
def _rights() -> dict[str, tuple[str, ...]]:
    """Function -> the rights of which its caller needs one."""
    (entries,) = [one for one in packaged().code if one.name == "_entry_points"]
    found = {
        name: tuple(one for one in _GRANTS if one in used_by.split())
        for name, used_by in _ENTRY.findall(entries.definition)
    }
    return {name: rights for name, rights in found.items() if rights}
