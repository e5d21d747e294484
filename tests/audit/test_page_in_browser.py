"""The HTML page in headless Chromium: on a screen and a phone, light and dark, by keyboard."""

from datetime import timedelta
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from mqpg.audit.faults import Fault
from mqpg.audit.html import as_html
from mqpg.audit.options import AuditOptions
from mqpg.audit.sql.engine import run_audit
from tests.audit.story import Story, Trio

pytestmark = pytest.mark.browser


@pytest.fixture
def page(trio: Trio, story: Story, tmp_path: Path) -> str:
    """URL of the page of an audit that found lost messages."""
    story.consumer.execute("delete from mqpg_applied where message_id in (select min(message_id) from mqpg_applied)")
    options = AuditOptions(dsn=trio.broker, ledgers={"shop": trio.ledger}, applied={"board": trio.consumer})
    report = run_audit(options)
    at = report.timeline["rows"][0]["at"]
    file = tmp_path / "audit.html"
    file.write_text(as_html(report, [Fault(at, "SIGKILL", "appender", at + timedelta(seconds=0.5))]), encoding="utf-8")
    return file.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_page_fits_and_says_the_verdict(
    browser: Chrome, page: str, picture_folder: Path, scheme: str, width: int, height: int
) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get(page)
    heading = browser.find_element(By.TAG_NAME, "h1")
    assert heading.is_displayed()
    assert heading.text == "Invalid for 1 of 2 groups"
    assert browser.execute_script("return document.scrollingElement.scrollWidth") <= width
    charts = browser.find_elements(By.TAG_NAME, "svg")
    assert len(charts) == 4, [chart.get_attribute("aria-label") for chart in charts]
    assert all(chart.size["height"] > 50 for chart in charts)
    dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    assert browser.get_log("browser") == []
    browser.get_screenshot_as_file(str(picture_folder / f"audit-{scheme}-{width}.png"))


def test_examples_open_by_keyboard(browser: Chrome, page: str) -> None:
    browser.get(page)
    example = browser.find_element(By.TAG_NAME, "details")
    shown = example.find_element(By.TAG_NAME, "pre")
    assert shown.is_displayed(), "the first one is open"
    summary = example.find_element(By.TAG_NAME, "summary")
    summary.send_keys(Keys.ENTER)
    assert not shown.is_displayed()
    summary.send_keys(Keys.ENTER)
    assert shown.is_displayed()
    assert "mqpg.trace(" in shown.text
