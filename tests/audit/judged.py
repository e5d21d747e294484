"""What an audit has found."""

from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict

__all__ = ["found", "require_valid"]


def require_valid(report: Report) -> Report:
    """Require that nothing is wrong and nothing in doubt, and return the report."""
    assert (report.verdict, report.reasons) == (Verdict.VALID, ()), report.examples
    assert not any(report.anomalies.values())
    assert all(equation.holds for equation in report.equations)
    return report


def found(report: Report) -> dict[str, int]:
    """How many anomalies there are of each kind that was found."""
    return {kind: count for kind, count in report.anomalies.items() if count}
