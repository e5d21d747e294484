"""The pages name commands and options that exist, and the page of commands names all of them."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mqpg.cli.root import app
from tests.support.commands import COMMANDS, ROOT_COMMAND, subcommand, takes

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"^ *```\w*\n(.*?)^ *```$|`([^`]+)`", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^|[;&|(] ?)(?:\$ )?(?:exec )?(?:[A-Z_]+=\S+ )*(?:[\w./]*/)?mqpg ((?:[^;&#]|…)+)")


def lines(page: Path) -> Iterator[str]:
    """Each line of code. A line of the prose that breaks within inline code is joined."""
    for fenced, inline in CODE.findall(page.read_text()):
        yield from re.sub(r"\\\n", " ", fenced).splitlines()
        yield " ".join(inline.split())


def named(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The words of each command on a page, and its options. One of `create|list` is one of each."""
    for line in lines(page):
        for found in COMMAND.findall(line.replace("\\|", "|").strip()):
            words = [word.strip("[](),.") for word in found.partition(" | ")[0].split()]
            options = [word.partition("=")[0] for word in words if word.startswith("--")]
            for path in paths(words):
                yield path, options


def paths(words: list[str]) -> Iterator[str]:
    """The names at the beginning that stand for a command, where it is one at all."""
    group, path = ROOT_COMMAND, list[str]()
    for word in words:
        if not hasattr(group, "list_commands") or not re.fullmatch(r"[a-z][a-z|-]*", word):
            break
        *others, last = word.split("|")
        yield from (" ".join([*path, other]) for other in others)
        path.append(last)
        group = subcommand(group, last)
    if path:
        yield " ".join(path)


def command(path: str) -> object:
    found = ROOT_COMMAND
    for name in path.split():
        found = subcommand(found, name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_of_a_page_exist(page: Path) -> None:
    wrong = []
    for path, options in named(page):
        found = command(path)
        if found is None or not all(takes(found, option) for option in options):
            wrong.append((path, options))
    assert wrong == []


def test_the_page_of_commands_names_each() -> None:
    listed = {path for path, _ in named(ROOT / "docs" / "cli.md")}
    assert COMMANDS.keys() - listed == set()
    assert sum(1 for page in PAGES for _ in named(page)) > 200


def test_a_line_of_help_ends_where_the_next_word_has_no_room() -> None:
    terminal = CliRunner(env={"COLUMNS": "60"})
    for words in ["", *COMMANDS]:
        shown = terminal.invoke(app, [*words.split(), "--help"]).stdout
        usage, *prose = re.split(r"\n *\n", shown.partition("╭")[0].strip())
        assert usage.startswith("Usage: ")
        assert prose, words
        for paragraph in prose:
            for line, following in pairwise(paragraph.splitlines()):
                assert len(line.rstrip()) + len(following.split()[0]) >= 58, (words, line, following)
