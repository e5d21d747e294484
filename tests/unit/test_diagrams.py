"""The documentation site draws its diagrams without a network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.support.wait import WebDriverWait

ROOT = Path(__file__).parents[2]


@pytest.mark.browser
@pytest.mark.timeout(600)
def test_diagrams_are_drawn_by_a_copy_of_mermaid(browser: Chrome, tmp_path: Path) -> None:
    subprocess.run(["tools/mermaid.sh"], cwd=ROOT, check=True)
    assert list((ROOT / ".mermaid").glob("*.js")), "npm cannot fetch mermaid"
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})  # another test may have made it narrow
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["http://*", "https://*"]})
    try:
        browser.get((tmp_path / "protocols" / "half-message.html").as_uri())
        WebDriverWait(browser, 60).until(lambda one: one.find_elements("css selector", "div.mermaid"))
        assert browser.find_elements("css selector", "pre.mermaid") == []
        WebDriverWait(browser, 60).until(
            lambda one: one.find_element("css selector", "div.mermaid").size["height"] > 200
        )
    finally:
        browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
