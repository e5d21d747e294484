"""The pages of audits in a folder: which files are served, to whom, and what they may do in a browser."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import mqpg.web
from mqpg.errors import ConfigurationError
from tests.support.in_process import Run
from tests.web.story import Story, log_in, visiting

PAGE = "<!doctype html><title>mqpg audit: {}</title><h1>{}</h1>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "reports"
    made.mkdir()
    (tmp_path / "secret.html").write_text("secret")
    for n, (name, verdict) in enumerate([("first.html", "valid"), ("second-2026.11.html", "invalid")]):
        (made / name).write_text(PAGE.format(verdict, name))
        os.utime(made / name, (1_700_000_000 + n, 1_700_000_000 + n))
    return made


@pytest.fixture
def reader(dsn: str, story: Story, folder: Path) -> Iterator[TestClient]:
    with visiting(dsn, reports=folder) as client:
        yield client


def test_they_are_listed_and_shown(reader: TestClient, folder: Path) -> None:
    (folder / "begun.html").touch()
    (folder / "other.html").write_text("<title>something</title>")
    (folder / "notes.txt").write_text("no page")
    page = reader.get("/audits").text
    assert page.index('href="/audits/second-2026.11.html"') < page.index('href="/audits/first.html"')
    assert '<span class="tag bad">invalid</span></td><td><a href="/audits/second-2026.11.html"' in page
    assert "not written yet" in page
    assert "not an audit" in page
    assert "notes.txt" not in page
    answer = reader.get("/audits/first.html")
    assert answer.text == PAGE.format("valid", "first.html")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_a_report_may_run_and_load_nothing(reader: TestClient) -> None:
    headers = reader.get("/audits/first.html").headers
    policy = headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in policy
    assert "sandbox" in policy, "not of this origin, and no script"
    assert not [one for one in policy if one.startswith(("script-src", "connect-src"))]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "sandbox" not in reader.get("/audits").headers["content-security-policy"]
    assert "unsafe" not in reader.get("/audits").headers["content-security-policy"]


NAMES = (
    "../secret.html", "..%2fsecret.html", "%2e%2e%2fsecret.html", "..%5csecret.html", "%2e%2e/secret.html",
    "....//secret.html", "/etc/passwd", "%2fetc%2fpasswd", "link.html", "linked%2fsecret.html", "linked/secret.html",
    "inner.html", "inner.html%2fsecret.html", "first.html%00", "first.html%0a", ".hidden.html", "-x.html", "notes.txt",
    "FIRST.HTML%2e", "missing.html", "pipe.html", "%20first.html", "a" * 300 + ".html", ".html", "*.html",
)  # fmt: skip


def test_nothing_else_is_served(reader: TestClient, folder: Path) -> None:
    (folder / "link.html").symlink_to(folder.parent / "secret.html")
    (folder / "linked").symlink_to(folder.parent, target_is_directory=True)
    (folder / "inner.html").mkdir()
    (folder / "inner.html" / "secret.html").write_text("secret")
    for name in (".hidden.html", "-x.html", "notes.txt"):
        (folder / name).write_text("secret")
    os.mkfifo(folder / "pipe.html")
    for name in NAMES:
        answer = reader.get(f"/audits/{name}")
        assert answer.status_code == 404, (name, answer.text)
        assert answer.text != "secret"
    listed = reader.get("/audits").text
    assert [one in listed for one in ("link.html", "inner.html", "pipe.html", "hidden")] == [False] * 4


def test_the_newest_fifty(reader: TestClient, folder: Path) -> None:
    for n in range(60):
        (folder / f"r-{n:02}.html").write_text(PAGE.format("valid", n))
        os.utime(folder / f"r-{n:02}.html", (1_710_000_000 + n, 1_710_000_000 + n))
    page = reader.get("/audits").text
    assert page.count('href="/audits/') == 50
    assert "r-59.html" in page
    assert "r-09.html" not in page
    assert "The newest 50" in page
    assert reader.get("/audits/r-09.html").status_code == 200


def test_a_folder_that_goes_away(reader: TestClient, folder: Path) -> None:
    folder.rename(folder.parent / "moved")
    assert "cannot be read: No such file" in reader.get("/audits").text
    assert reader.get("/audits/first.html").status_code == 404


def test_they_need_the_login_as_every_page(dsn: str, story: Story, folder: Path, users: Path) -> None:
    with visiting(dsn, password_file=users, reports=folder) as client:
        for name in ("first.html", "missing.html"):
            answer = client.get(f"/audits/{name}")
            assert (answer.status_code, answer.headers["location"]) == (303, "/login")
            assert "first.html" not in answer.text
        assert log_in(client) == 303
        assert client.get("/audits/first.html").status_code == 200


def test_a_dashboard_without_a_folder(visitor: TestClient) -> None:
    assert "--reports FOLDER" in visitor.get("/audits").text
    assert visitor.get("/audits/first.html").status_code == 404


def test_it_must_be_a_folder(dsn: str, folder: Path, run: Run) -> None:
    for wrong in (folder / "missing", folder / "first.html"):
        with pytest.raises(ConfigurationError, match="is no folder"):
            mqpg.web.app(dsn, reports=wrong)
    status, _, err = run("web", "--reports", str(folder / "missing"))
    assert (status, "is no folder" in err) == (2, True)


def test_the_page_of_a_real_audit(reader: TestClient, folder: Path, run: Run) -> None:
    run("audit", "--engine", "sql", "--html", str(folder / "real.html"))
    assert 'href="/audits/real.html"' in reader.get("/audits").text
    assert "Conservation" in reader.get("/audits/real.html").text
    assert "not written yet" not in reader.get("/audits").text
