"""What the documentation site has beyond the files of docs/: a hook of mkdocs.

The pages are written for readers of the repository, and link to files outside docs/. The site gets
a copy of each such file, and the links lead there. The reference pages are written from the SQL
files, which are what is installed, and from the docstrings. A link to a SQL file or to a module
leads to its entry in the reference.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pglast
import yaml
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

import mqpg
import mqpg.alembic
import mqpg.contrib.django
from mqpg import errors, protocols, tables
from mqpg.connection.settings import Settings
from mqpg.metrics.catalog import METRICS
from mqpg.schema.assemble import described

__all__ = ["on_files", "on_page_markdown", "on_post_page"]

ROOT = Path(__file__).resolve().parent.parent
# Pages of the site that lie outside docs/.
PAGES = ("SECURITY.md", "CHANGELOG.md")
# Where the site describes what a folder or a module of the repository has.
REFERENCE = {
    "sql/functions": "reference/functions.md",
    "sql/views": "reference/views.md",
    "sql/audit_views": "reference/audit-views.md",
    "mqpg/__init__.py": "reference/python.md",
    "mqpg/settings.py": "reference/python.md#settings",
    "mqpg/protocols.py": "reference/python.md#mqpgprotocols",
    "mqpg/errors.py": "reference/python.md#mqpgerrors",
    "mqpg/values/errors.py": "reference/python.md#mqpgerrors",
    "spark/jobs/audit.py": "reference/python.md#mqpgspark",
    "mqpg/metrics/catalog.py": "reference/metrics.md",
    "deploy/prometheus-alerts.yml": "reference/metrics.md#alerts",
}
# Of mqpg.spark, whose modules are read by their paths.
SPARK = (
    "spark.register",
    "spark.jobs.audit.run_audit_in",
    "spark.jobs.audit.findings_frame",
    "mqpg.audit.options.AuditOptions",
    "mqpg.audit.report.Report",
)
MERMAID = "assets/mermaid.js"
# Below the guides in the results of a search.
LESS_WANTED = ("reference/", "testing/", "tests/", "sql/", "examples/", "CONTRIBUTING.md")
# What people call something that a section calls otherwise.
ALSO_CALLED = {
    "concepts.html#sending": "FIFO ordering partitions",
    "consumers.html#a-handler-that-never-returns": "hang stuck timeout",
    "consumers.html#modes": "competing consumers fan-out pub/sub parallelism",
    "consumers.html#running": "graceful shutdown prefetch startup hook",
    "consumers.html#when-a-message-fails": "DLQ poison backoff exception",
    "howto/managed.html": "AWS GCP Heroku hosted cloud serverless",
    "howto/moving.html#from-rabbitmq": "AMQP",
    "howto/questions.html#back-up-and-restore": "backup pg_dump copy",
    "howto/questions.html#license-maintainers-support": "licence company pricing commercial",
    "howto/questions.html#replay-to-one-group": "reprocess rewind reset offset",
    "howto/questions.html#maximum-size-of-a-message": "large blob limit",
    "howto/questions.html#more-queues": "partitions add number change increase scale order",
    "howto/questions.html#two-brokers": "sharding scale out cluster",
    "operations.html#failover": "high availability HA",
    "operations.html#privileges": "permissions",
    "operations.html#restoring": "disaster recovery snapshot PITR",
    "operations.html#when-the-servers-clock-is-wrong": "NTP DST summer time jump",
    "operations.html#workers": "health check liveness readiness Kubernetes probe",
    "operations.html#upgrading": "upgrade update new version",
    "processes.html#fork": "multiprocessing uwsgi preload",
    "protocols/same-database.html": "outbox CDC Debezium dual write",
    "python.html#size-and-start": "footprint RAM",
    "SECURITY.html#what-is-left-to-you": "encryption TLS GDPR personal data",
    "sql.html#dead-letters": "DLQ poison",
    "sql.html#seek": "rewind reprocess reset offset",
    "versions.html": "compatibility supported Windows macOS",
}
_TWINS: dict[str, str] = {}
CONTRACT = ROOT / "tests" / "migration" / "contract.json"

_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")
_FUNCTION = re.compile(
    r"^create (?:function|procedure) (mqpg\.([a-z]\w*)\s*\(.*?\)(?:\s*returns .*?)?)\n(?:--.*\n)*language ", re.M | re.S
)
_ARGUMENTS = re.compile(r"\(\s*(\S.*?)\s*\)(?= returns|$)")
_HEADER = re.compile(r"\A((?:--.*\n)+)")
_COMMENT = re.compile(r"^comment on (?:view|column) \w+\.\w+(?:\.(\w+))? is\s+'((?:[^']|'')*)';", re.M)


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages and files from outside docs/, and the reference."""
    generated = {
        "reference/functions.md": functions_page(ROOT / "sql" / "functions"),
        "reference/views.md": views_page(ROOT / "sql" / "views"),
        "reference/audit-views.md": audit_views_page(ROOT / "sql" / "audit_views"),
        "reference/python.md": python_page(),
        "reference/metrics.md": metrics_page(ROOT / "deploy" / "prometheus-alerts.yml"),
    }
    for name, text in generated.items():
        files.append(File.generated(config, name, content=text))
    waiting = [ROOT / name for name in PAGES]
    waiting += [_source(file) for file in files.documentation_pages() if file.src_uri not in generated]
    seen = set(waiting)
    while waiting:
        source = waiting.pop()
        if files.get_file_from_path(_uri(source)) is None:
            files.append(File.generated(config, _uri(source), abs_src_path=str(source)))
        linked = set(_targets(source)) - seen
        seen |= linked
        waiting += sorted(linked)
    for found in (ROOT / ".mermaid").glob("*.js"):  # tools/mermaid.sh
        files.append(File.generated(config, MERMAID, abs_src_path=str(found)))
    return files


def on_post_page(output: str, *, page: Page, config: Any) -> str:
    """Give a page with diagrams the site's own copy of mermaid, which the theme would load from a network."""
    if 'class="mermaid"' not in output or not (ROOT / ".mermaid").exists():
        return output
    return output.replace("</head>", f'<script src="{get_relative_url(MERMAID, page.url)}"></script></head>', 1)


def on_page_markdown(markdown: str, *, page: Page, config: Any, files: Files) -> str:
    """Let the links of one page lead to where the files are in the site."""
    source = _source(page.file)

    def moved(match: re.Match[str]) -> str:
        target = _target(source, match[2])
        if target is None:
            return match[0]
        if described := _reference(target):
            return f"{match[1]}{os.path.relpath(described, Path(page.file.src_uri).parent)})"
        if target.is_dir():  # a folder of the repository has no page
            return f"{match[1]}{os.path.relpath('README.md', Path(page.file.src_uri).parent)})"
        return f"{match[1]}{os.path.relpath(_uri(target), Path(page.file.src_uri).parent)}{match[3] or ''})"

    if page.file.src_uri.startswith(LESS_WANTED):
        page.meta["search"] = {"boost": 0.1}
    text = _LINK.sub(moved, markdown)
    _TWINS[page.file.src_uri] = text
    return text


def on_post_build(*, config: Any) -> None:
    """Write each page's text beside it and llms.txt, which lists them, and let the search know other words."""
    write_twins(Path(config.site_dir), _TWINS, config.site_name, config.site_description)
    index = Path(config.site_dir) / "search" / "search_index.json"
    index.write_text(json.dumps(with_other_words(json.loads(index.read_text()))), encoding="utf-8")


def with_other_words(index: dict[str, Any]) -> dict[str, Any]:
    """Add to sections in the index of the search what people call them.

    Raises KeyError if there is no such section.
    """
    sections = {one["location"]: one for one in index["docs"]}
    for location, words in ALSO_CALLED.items():
        sections[location]["text"] += f" <p>Also: {words}</p>"
    return index


def write_twins(folder: Path, pages: Mapping[str, str], name: str, about: str) -> None:
    """Write pages as Markdown, and a list of them, for programs that read instead of people.

    Args:
        folder: Where the site is.
        pages: The text of each page by its name, with the links of the site.
        name: What the site is about.
        about: The same in a sentence.
    """
    lines = [f"# {name}", "", f"> {about}", "", "## Pages", ""]
    for page, text in sorted(pages.items()):
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / page).write_text(text, encoding="utf-8")
        title = next((line[2:] for line in text.splitlines() if line.startswith("# ")), page)
        lines.append(f"- [{title}]({page})")
    (folder / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def functions_page(folder: Path) -> str:
    """Every public function with its header, in the order of its folder and name.

    Args:
        folder: Where the SQL files are, one function each.
    """
    parts = ["# SQL functions\n\nWhat the header of each function says, with every form of its arguments.\n"]
    for path in sorted(folder.rglob("[a-z]*.sql"), key=lambda path: path.stem):
        text = path.read_text()
        forms = [_signature(match[1]) for match in _FUNCTION.finditer(text)]
        if forms and (header := _HEADER.match(text)):
            said = "\n".join(line.removeprefix("--").removeprefix(" ") for line in header[1].splitlines())
            prose, rest = _parted(said)
            signatures = "\n".join(forms)
            parts.append(f"## {path.stem}\n\n{prose}\n\n```sql\n{signatures}\n```\n\n```text\n{rest}\n```\n")
    return "\n".join(parts)


def views_page(folder: Path) -> str:
    """Every view of operators with its columns, from its comments.

    Args:
        folder: Where the SQL files are, one view each.
    """
    parts = ["# SQL views\n\nThe views of `mqpg_audit` are on a [page of their own](audit-views.md).\n"]
    for path in sorted(folder.glob("*.sql")):
        if not path.stem.startswith("audit_"):
            about, comments = _comments(path)
            parts.append(f"## {path.stem}\n\n{about}.\n\n| column | meaning |\n|---|---|")
            parts += [f"| `{column}` | {comments.get(column, '')} |" for column in _columns(path)]
            parts.append("")
    return "\n".join(parts)


def audit_views_page(folder: Path) -> str:
    """Every view of the schema `mqpg_audit`, with the type and the comment of each column.

    Args:
        folder: Where the SQL files are, one view each.
    """
    types = json.loads(CONTRACT.read_text())["views"]
    parts = ["# Views of mqpg_audit\n\n[Views for SQL and JDBC](../prove/jdbc.md) says how to use them.\n"]
    for path in sorted(folder.glob("*.sql")):
        about, comments = _comments(path)
        parts.append(f"## {path.stem}\n\n{about}.\n\n| column | type | meaning |\n|---|---|---|")
        parts += [f"| `{name}` | {kind} | {comments.get(name, '')} |" for name, kind in types[path.stem].items()]
        parts.append("")
    return "\n".join(parts)


def python_page() -> str:
    """Every public name, documented from its docstring."""
    parts = ["# Python reference\n\n## mqpg\n"]
    parts += [f"::: {mqpg._HOME_OF[name]}.{name}\n" for name in mqpg.__all__ if name != "Json"]
    parts.append(f"## Settings\n\n::: {Settings.__module__}.Settings\n")
    for module in (protocols, tables, mqpg.alembic, mqpg.contrib.django):
        parts.append(f"## {module.__name__}\n")
        parts += [f"::: {one.__module__}.{one.__name__}\n" for one in map(partial(getattr, module), module.__all__)]
    parts.append("## mqpg.spark\n")
    parts += [f"::: {name}\n" for name in SPARK]
    parts.append("## mqpg.errors\n\n| SQLSTATE | exception | a kind of | cause |\n|---|---|---|---|")
    classes = [getattr(errors, name) for name in errors.__all__ if name[0].isupper()]
    for one in sorted(classes, key=lambda one: (one.sqlstate or "~", one.__name__)):
        said = " ".join(_first_paragraph(one))
        parts.append(f"| {one.sqlstate or ''} | `{one.__name__}` | {one.__base__.__name__} | {said} |")
    parts.append("")
    parts += [f"::: mqpg.errors.{one.__name__}\n" for one in classes]
    return "\n".join(parts)


def metrics_page(alerts: Path) -> str:
    """Every metric of the catalog, and every alert.

    Args:
        alerts: The file with the alert rules.
    """
    parts = ["# Metrics\n\n| metric | labels | what it measures |\n|---|---|---|"]
    for name, one in METRICS.items():
        labels = ", ".join(f"`{label}`" for label in one.labels)
        parts.append(f"| `mqpg_{name}{'_total' * one.is_counter}` | {labels} | {one.text} |")
    parts.append("\n## Alerts\n\n| alert | severity | when | description |\n|---|---|---|---|")
    for rule in yaml.safe_load(alerts.read_text())["groups"][0]["rules"]:
        severity, notes = rule["labels"]["severity"], rule["annotations"]
        when = f"`{rule['expr']}`".replace("|", "\\|") + (f" for {rule['for']}" if "for" in rule else "")
        parts.append(f"| `{rule['alert']}` | {severity} | {when} | {notes['summary']}. {notes['description']} |")
    return "\n".join(parts) + "\n"


def _first_paragraph(one: type) -> list[str]:
    """The words of what a docstring says first."""
    return (one.__doc__ or "").partition("\n\n")[0].split()


def _signature(source: str) -> str:
    """A function's name, arguments and result, from the source without its comments."""
    words = re.sub(r"--.*", "", source).split()
    return _ARGUMENTS.sub(r"(\n    \1\n)", " ".join(words), count=1)


def _parted(header: str) -> tuple[str, str]:
    """What a function does, and the list of its arguments, locks, cost and errors."""
    match = re.search(r"^(Arguments|Returns|Locks|Cost|Errors):", header, re.M)
    at = match.start() if match else len(header)
    return header[:at].strip(), header[at:]


def _comments(path: Path) -> tuple[str, dict[str, str]]:
    """What the file of a view says of it, and of each column that has a comment."""
    comments = {
        column: said.replace("''", "'").replace("|", "\\|").removesuffix(".")
        for column, said in _COMMENT.findall(described(path.read_text()))
    }
    return comments.pop("", ""), comments


def _columns(path: Path) -> list[str]:
    """The columns of the view that a file makes, in order."""
    statements = [one.stmt for one in pglast.parse_sql(path.read_text())]
    query: Any = next(one.query for one in statements if isinstance(one, pglast.ast.ViewStmt))
    while query.larg is not None:
        query = query.larg
    return [column.name or column.val.fields[-1].sval for column in query.targetList]


def _source(file: File) -> Path:
    """Where the page is in the repository."""
    inside = ROOT / "docs" / file.src_uri
    return inside if inside.exists() else ROOT / file.src_uri


def _target(source: Path, link: str) -> Path | None:
    """The file or folder of the repository that a link of a page leads to."""
    if "://" in link or link.startswith(("mailto:", "#")):
        return None
    target = Path(os.path.normpath(source.parent / link))
    return target if target.exists() and target.is_relative_to(ROOT) else None


def _targets(source: Path) -> Iterator[Path]:
    """The files that a page links to."""
    found = _LINK.finditer(source.read_text()) if source.suffix == ".md" else ()
    targets = (target for match in found if (target := _target(source, match[2])))
    yield from (target for target in targets if target.is_file() and not _reference(target))


def _reference(target: Path) -> str | None:
    """Where the site describes a file or folder of the repository, if it does."""
    path = target.relative_to(ROOT).as_posix()
    folder = next((one for one in REFERENCE if path.startswith(f"{one}/")), None)
    return f"{REFERENCE[folder]}#{target.stem}" if folder else REFERENCE.get(path)


def _uri(target: Path) -> str:
    """Its path in the site: that of docs/ is the top, and the rest keeps its own."""
    return target.relative_to(ROOT).as_posix().removeprefix("docs/")
