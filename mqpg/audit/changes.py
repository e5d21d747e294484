"""What has changed since an earlier report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mqpg.values.errors import ConfigurationError

from .report import REPORT_VERSION, Report, as_json, findings_sha256

__all__ = ["changes_since", "read_report"]


def read_report(path: Path) -> dict[str, Any]:
    """Read what `--json` printed. Raises ConfigurationError if it is something else, or was changed since."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version, sha256 = found["report_version"], found["findings_sha256"]
        computed = findings_sha256(found) if version == REPORT_VERSION else None
    except OSError as error:
        raise ConfigurationError(f"--since-report: {path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"--since-report: {path} is no report that mqpg audit --json printed") from error
    if computed is None:
        raise ConfigurationError(
            f"--since-report: {path} has report_version {version}, and this release knows {REPORT_VERSION}"
        )
    if computed != sha256:
        raise ConfigurationError(f"--since-report: {path} was changed: its findings do not have its findings_sha256")
    return found


def changes_since(before: dict[str, Any], report: Report) -> list[str]:
    """List, a line each, how a report differs from an earlier one, as `read_report` returns it."""
    now = json.loads(as_json(report))
    lines = [f"compared with the report of {before['run']['at']}, which was {before['verdict']}"]
    for old, new in (
        (before["scope"], now["scope"]),
        (before["parameters"], now["parameters"]),
        (before["anomalies"]["by_kind"], now["anomalies"]["by_kind"]),
    ):
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                lines.append(f"{name.replace('_', ' ')}: {_said(old.get(name))} before, {_said(new.get(name))} now")
    for sign, some, others in (("new", now, before), ("no more", before, now)):
        lines += [f"not judged, {sign}: {one['what']}: {one['name']}" for one in _without(some, others)]
    if before["findings_sha256"] == now["findings_sha256"]:
        lines.append("the findings are the same")
    return lines


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _without(some: dict[str, Any], others: dict[str, Any]) -> list[dict[str, Any]]:
    known = [(one["what"], one["name"]) for one in others["not_judged"]]
    return [one for one in some["not_judged"] if (one["what"], one["name"]) not in known]
