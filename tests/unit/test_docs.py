"""Links of all Markdown files lead somewhere: to a file that is there, and to a heading in it."""

import re
import tomllib
from pathlib import Path

import pytest

from tools import site

ROOT = Path(__file__).parents[2]
FOLDERS = (".", "docs", "docs/howto", "docs/protocols", "docs/prove", "docs/testing", "examples", "proof", "spark")
PAGES = sorted(path for folder in (*FOLDERS, "sql", "workers") for path in (ROOT / folder).glob("*.md"))

_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_DIAGRAM = re.compile(r"^```mermaid\nsequenceDiagram\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEP = re.compile(r"(\w+)(?:->>|-->>|--x|-x)(\w+): [^;#]+")
_NOTE = re.compile(r"Note over (\w+)(?:,(\w+))?: [^;#]+")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def links(page: Path) -> list[str]:
    """Targets inside this repository."""
    text = _CODE.sub(lambda match: "x" if match[0].startswith("`") else "", page.read_text())
    return [target for target in _LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]


def anchors(page: Path) -> set[str]:
    """What GitHub makes of its headings."""
    fenced = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in _HEADING.findall(fenced))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


def test_links() -> None:
    broken = []
    for page in PAGES:
        for target in links(page):
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def test_every_page_is_in_the_index() -> None:
    index = {target.partition("#")[0] for target in links(ROOT / "docs" / "README.md")}
    folders = (ROOT / "docs", ROOT / "docs" / "prove", ROOT / "docs" / "testing")
    pages = {str(path.relative_to(ROOT / "docs")) for folder in folders for path in folder.glob("*.md")}
    assert pages - {"README.md"} <= index


def test_every_recipe_is_in_the_list() -> None:
    listed = {target.partition("#")[0] for target in links(ROOT / "docs" / "howto" / "README.md")}
    assert {path.name for path in (ROOT / "docs" / "howto").glob("*.md")} - {"README.md"} <= listed


def test_every_extra_is_in_the_table() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = (ROOT / "docs" / "python.md").read_text().partition("| extra |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == extras.keys() - {"dev", "lab"}


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    """Each row has the two figures and the ratio of one line there."""
    table = (ROOT / "README.md").read_text().partition("| mqpg | pgmq | ratio |")[2].partition("\n\n")[0]
    rows = re.findall(r"\| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \|$", table, re.MULTILINE)
    assert len(rows) >= 5
    lines = (ROOT / "docs" / "testing" / "benchmarks.md").read_text().splitlines()
    for row in rows:
        assert any(set(row) <= set(re.findall(r"[\d,.]+", line)) for line in lines), row


def test_the_page_about_security_names_the_versions_that_are_supported() -> None:
    """Those of the classifiers, from the first to the last."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    found = [match[1] for one in classifiers if (match := re.search(r":: Python :: (3\.\d+)$", one))]
    assert f"| {found[0]} to {found[-1]} |" in (ROOT / "SECURITY.md").read_text()


def test_every_protocol_is_in_the_table() -> None:
    front = {target.partition("#")[0] for target in links(ROOT / "docs" / "protocols" / "README.md")}
    assert {path.name for path in (ROOT / "docs" / "protocols").glob("*.md")} - {"README.md"} <= front


def test_diagrams() -> None:
    """What Mermaid would refuse, or cut off at a semicolon."""
    diagrams = [diagram for page in PAGES for diagram in _DIAGRAM.findall(page.read_text())]
    assert diagrams
    for diagram in diagrams:
        lines = [line.strip() for line in diagram.splitlines()]
        known = {match[1] for line in lines if (match := re.fullmatch(r"participant (\w+) as [^;#]+", line))}
        blocks = 0
        for line in lines:
            if line.startswith(("participant ", "autonumber")):
                continue
            blocks += line.startswith(("alt ", "loop ")) - (line == "end")
            if re.match(r"(alt|else|loop) |end$", line):
                continue
            match = _STEP.fullmatch(line) or _NOTE.fullmatch(line)
            assert match, line
            assert {name for name in match.groups() if name} <= known, line
        assert blocks == 0


def test_each_page_has_a_twin_for_programs(tmp_path: Path) -> None:
    pages = {"howto/fastapi.md": "# FastAPI\n\nText.\n", "tutorial.md": "Text without a title.\n"}
    site.write_twins(tmp_path, pages, "mqpg", "A queue.")
    assert {name: (tmp_path / name).read_text() for name in pages} == pages
    listed = (tmp_path / "llms.txt").read_text()
    assert listed.startswith("# mqpg\n\n> A queue.\n")
    assert re.findall(r"^- \[(.*?)\]\((.*?)\)$", listed, re.M) == [
        ("FastAPI", "howto/fastapi.md"),
        ("tutorial.md", "tutorial.md"),
    ]


def test_the_search_finds_sections_by_other_words() -> None:
    index = {"docs": [{"location": location, "text": "It says so."} for location in site.ALSO_CALLED]}
    found = {one["location"]: one["text"] for one in site.with_other_words(index)["docs"]}
    assert "DLQ" in found["sql.html#dead-letters"]
    with pytest.raises(KeyError):
        site.with_other_words({"docs": []})
    for location in site.ALSO_CALLED:
        name, _, anchor = location.partition("#")
        page = (ROOT if name == "SECURITY.html" else ROOT / "docs") / f"{name.removesuffix('.html')}.md"
        assert page.exists(), location
        assert not anchor or anchor in anchors(page), location
