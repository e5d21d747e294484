"""Nothing newer than PostgreSQL 14 is used: the oldest server that mqpg promises to work on."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SQL = [path for path in sorted((ROOT / "sql").rglob("*.sql")) if path.parent.name != "migrations"]
PYTHON = [path for folder in ("mqpg", "workers", "spark") for path in sorted((ROOT / folder).rglob("*.py"))]

NEWER = {
    15: [
        r"merge\s+into",
        r"nulls\s+not\s+distinct",
        "security_invoker",
        r"(min|max)\s*\(\s*(\w+\.)?\w*xid\w*\s*\)",
        r"regexp_(count|instr|like|substr)\s*\(",
        r"set\s+null\s*\(",
        r"pg_stat_subscription_stats|has_parameter_privilege|pg_settings_get_flags",
        r"create\s+unlogged\s+sequence|set\s+access\s+method",
    ],
    16: [
        r"json_(array|object|arrayagg|objectagg)\s*\(",
        r"is\s+(not\s+)?json\b",
        r"any_value\s*\(|random_normal\s*\(|array_(sample|shuffle)\s*\(|date_(add|subtract)\s*\(|erfc?\s*\(",
        r"pg_input_(is_valid|error_info)|pg_stat_io\b|\bsystem_user\b",
        r"\b0[xob][0-9a-f]+\b|\b\d+_\d+\b",
    ],
    17: [
        r"json_(table|exists|query|value|serialize|scalar)\s*\(",
        r"\bjson\s*\(|to_(bin|oct)\s*\(|\brandom\s*\(\s*[^)\s]",
        r"uuid_extract_|transaction_timeout|pg_wait_events|\bat\s+local\b|merge_action\s*\(",
    ],
    18: [
        r"uuidv[47]\s*\(|array_(sort|reverse)\s*\(|casefold\s*\(|crc32c?\s*\(|gamma\s*\(|pg_get_acl",
        r"\b(old|new)\.\w+\s+as\b|without\s+overlaps|not\s+enforced|\bvirtual\b",
    ],
}
PATTERNS = {version: re.compile("|".join(words)) for version, words in NEWER.items()}  # keywords are in lower case


def code(text: str) -> str:
    """SQL without its comments and string literals."""
    return re.sub(r"--[^\n]*|'(?:[^']|'')*'", " ", text)


def findings(text: str) -> list[tuple[int, str]]:
    return [(version, match[0]) for version, pattern in PATTERNS.items() for match in pattern.finditer(text)]


def test_sql_uses_nothing_newer() -> None:
    found = {path.name: findings(code(path.read_text())) for path in SQL}
    assert len(found) > 100
    assert {name: newer for name, newer in found.items() if newer} == {}


def test_sql_in_python_uses_nothing_newer() -> None:
    sql = re.compile(
        r'"""\s*(?:select|insert|update|with|create|delete)\b.*?"""|"(?:select|insert|update|with)\b[^"]*"', re.S
    )
    found = {
        f"{path.relative_to(ROOT)}: {what}"
        for path in PYTHON
        for text in sql.findall(path.read_text())
        for what in findings(code(text))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("merge into t using s on true", 15),
        ("select max(l.xid) from t l", 15),
        ("select regexp_like(a, b)", 15),
        ("select json_object('a': 1)", 16),
        ("select any_value(x)", 16),
        ("select 1_000", 16),
        ("select random(1, 6)", 17),
        ("select json_value(a, b)", 17),
        ("select uuidv7()", 18),
    ],
)
def test_the_words_are_found(text: str, version: int) -> None:
    assert [found for found, _ in findings(code(text))] == [version]


@pytest.mark.parametrize("text", ["select random()", "-- merge into\nselect 'uuidv7()'", "select min(batch_id)"])
def test_other_words_are_not(text: str) -> None:
    assert findings(code(text)) == []


# In FROM, a subquery without a name is accepted by 16 and newer only.
SUBQUERY = re.compile(r"(?<!distinct )\b(?:from|join|lateral)\s*(?=\(\s*(?:select|with|values)\b)")
KEYWORDS = {
    "cross",
    "full",
    "group",
    "having",
    "inner",
    "join",
    "left",
    "limit",
    "natural",
    "offset",
    "on",
    "order",
    "right",
    "union",
    "using",
    "where",
}


def nameless(text: str) -> list[str]:
    """Subqueries in FROM without a name, from their beginning on."""
    found = []
    for match in SUBQUERY.finditer(text):
        depth, end = 0, match.end()
        while True:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        name = re.match(r"\s*(\w+)", text[end:])
        if name is None or name[1] in KEYWORDS:
            found.append(text[match.start() : end])
    return found


def test_subqueries_have_names() -> None:
    found = {path.name: nameless(code(path.read_text())) for path in SQL}
    assert {name: queries for name, queries in found.items() if queries} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("select * from (select 1)", 1),
        ("exists (select from (select (1) from t) where true)", 1),
        ("select * from t cross join lateral (values (1)) where true", 1),
        ("select * from (select 1) as one, (select 2) two where a is distinct from (select 3)", 0),
    ],
)
def test_a_nameless_subquery_is_found(text: str, count: int) -> None:
    assert len(nameless(text)) == count
