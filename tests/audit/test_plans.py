"""No text that looks for faults reads a table again for each row: with many rows that takes hours."""

import json
import re
from collections.abc import Iterator
from typing import Any

from mqpg.audit.kinds import KINDS
from mqpg.audit.options import AuditOptions
from mqpg.audit.sql.reader import read_inputs
from mqpg.audit.sql.statements import CONSERVATION, statement
from mqpg.audit.sql.workspace import Workspace, open_workspace

_FOR_EACH_ROW = re.compile(r"(?<!hashed )(SubPlan \d+)")  # as it stands in expressions

_QUADRATIC = (
    "select e.message_id, (select max(r.version) from released as r where r.queue_id = e.queue_id) from entry as e"
)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield all nodes of a plan."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def read_for_each_row(work: Workspace, query: str) -> set[str]:
    """Return the tables that a query reads again for each row, by its plan."""
    (row,) = work.query(f"explain (verbose, costs off, format json) {query}")
    (explained,) = row["QUERY PLAN"]
    plan = explained["Plan"]
    expressions = [{name: value for name, value in node.items() if name != "Plans"} for node in nodes(plan)]
    names = set(_FOR_EACH_ROW.findall(json.dumps([one | {"Subplan Name": None} for one in expressions])))
    subplans = [node for node in nodes(plan) if node.get("Subplan Name") in names]
    return {node["Relation Name"] for one in subplans for node in nodes(one) if "Relation Name" in node}


def test_no_kind_reads_a_table_for_each_row(dsn: str) -> None:
    with open_workspace(dsn) as work:
        read_inputs(work, dsn, AuditOptions(dsn=dsn), None)
        work.derive()
        assert read_for_each_row(work, _QUADRATIC) == {"released"}  # the test sees such a plan
        texts = {kind: statement("kinds", kind) for kind in KINDS}
        texts |= {name: statement("conservation", name) for name in (*CONSERVATION, "found")}
        found = {name: read_for_each_row(work, text) for name, text in texts.items()}
    assert not any(found.values()), found
