"""The dashboard in headless Chromium: on a screen and a phone, light and dark, by keyboard, live."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.broker import Session
from tests.web.serving import serving
from tests.web.story import GONE, PASSWORD, Story, token_of

pytestmark = pytest.mark.browser


@pytest.fixture
def address(dsn: str, story: Story, users: Path) -> Iterator[str]:
    """A dashboard with actions, on a real port."""
    with serving(dsn, password_file=users, actions=True) as there:
        yield there


@pytest.fixture
def inside(browser: Chrome, address: str) -> Iterator[Chrome]:
    """A browser that has logged in, by keyboard. It leaves before the server ends."""
    log_in(browser, address)
    yield browser
    browser.get("about:blank")
    browser.get_log("browser")


def log_in(browser: Chrome, address: str, name: str = "ada") -> None:
    browser.get(address)
    browser.delete_all_cookies()
    browser.get(address)
    # The page is loaded a moment before the browser gives its first field the focus.
    patient(browser).until(lambda b: b.switch_to.active_element.get_attribute("name") == "name")
    browser.switch_to.active_element.send_keys(name, Keys.TAB, PASSWORD, Keys.ENTER)
    patient(browser).until(lambda b: b.find_element(By.TAG_NAME, "h1").text == "Overview")


def patient(browser: Chrome) -> WebDriverWait[Chrome]:
    """Wait, also while the page before is replaced. The driver has several errors for an element of that page."""
    return WebDriverWait(browser, 20, ignored_exceptions=[WebDriverException])


def look(browser: Chrome, scheme: str, width: int, height: int) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.mark.parametrize(
    ("scheme", "width", "height"), [("light", 1280, 900), ("dark", 1280, 900), ("dark", 390, 844), ("light", 390, 844)]
)
def test_every_page_fits(
    inside: Chrome, address: str, story: Story, picture_folder: Path, scheme: str, width: int, height: int
) -> None:
    inside.get_log("browser")
    look(inside, scheme, width, height)
    pages = {
        "overview": "/", "topics": "/topics", "topic": "/topics/orders", "groups": "/groups",
        "group": "/groups/billing/orders", "paused": "/groups/news/returns", "halves": "/half-messages", "half": f"/half-messages/{story.parked}",
        "message": f"/messages/{story.order}", "search": "/search?topic=orders&key=o-1",
        "found": "/search?topic=orders&path=$.order > 1", "claims": "/groups/shipping/orders", "letter-groups": "/dead-letters",
        "letters": "/dead-letters/billing/orders", "storage": "/storage", "workers": "/workers", "audits": "/audits",
    }  # fmt: skip
    for name, path in pages.items():
        inside.get(address + path)
        assert inside.find_element(By.TAG_NAME, "h1").is_displayed()
        assert inside.execute_script("return document.scrollingElement.scrollWidth") <= width, path
        dark = inside.execute_script("return getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark == (scheme == "dark")
        inside.get_screenshot_as_file(str(picture_folder / f"web-{name}-{scheme}-{width}.png"))
    assert inside.get_log("browser") == [], "nothing breaks the policy of the page"


def test_the_overview_renews_itself(inside: Chrome, mq: Session) -> None:
    for name in ("late-comer", "later-comer"):
        mq.call("subscribe", name, "returns")
        patient(inside).until(lambda b, name=name: name in b.find_element(By.ID, "live").text)  # type: ignore[misc]
    assert inside.get_log("browser") == []


def test_who_has_logged_out_elsewhere_is_asked_to_log_in(inside: Chrome, address: str) -> None:
    cookies = {one["name"]: one["value"] for one in inside.get_cookies()}
    with httpx.Client(cookies=cookies, trust_env=False) as client:
        client.post(f"{address}/logout", data={"token": token_of(client.get(f"{address}/topics").text)})
    patient(inside).until(lambda b: b.find_element(By.TAG_NAME, "h1").text == "Log in")


def test_the_focus_stays_where_it_is_while_the_overview_renews_itself(inside: Chrome, mq: Session) -> None:
    link = inside.find_element(By.XPATH, "//a[text()='shipping']")
    inside.execute_script("arguments[0].focus()", link)
    mq.call("subscribe", "late-comer", "returns")
    patient(inside).until(lambda b: "late-comer" in b.find_element(By.ID, "live").text)
    assert inside.switch_to.active_element.text == "shipping"


def test_the_database_goes_away_and_comes_back(browser: Chrome, own_server: Any, users: Path) -> None:
    with serving(own_server.dsn, password_file=users) as there:
        log_in(browser, there)
        own_server.server.stop()
        patient(browser).until(lambda b: "The broker does not answer" in b.find_element(By.ID, "live").text)
        own_server.server.start()
        patient(browser).until(lambda b: "Half messages" in b.find_element(By.ID, "live").text)
    browser.get("about:blank")
    assert browser.get_log("browser"), "the browser notes what failed meanwhile, and other tests need not see it"


def press(browser: Chrome, button: str) -> None:
    """Press a button and the one that confirms it, by keyboard."""
    browser.find_element(By.XPATH, f"//button[text()='{button}']").send_keys(Keys.ENTER)
    patient(browser).until(lambda b: b.find_element(By.XPATH, "//button[starts-with(text(), 'Yes, ')]"))
    if browser.find_elements(By.NAME, "reason"):
        browser.switch_to.active_element.send_keys("as agreed", Keys.ENTER)
    else:
        browser.find_element(By.XPATH, "//button[starts-with(text(), 'Yes, ')]").send_keys(Keys.ENTER)
    patient(browser).until(lambda b: b.find_element(By.CSS_SELECTOR, "main [role=status].good"))


def test_each_action_by_keyboard(inside: Chrome, address: str, story: Story, mq: Session) -> None:
    inside.get(f"{address}/half-messages/{story.parked}")
    press(inside, "Check again…")
    inside.get(f"{address}/half-messages/{story.parked}")
    press(inside, "Commit…")
    assert mq.commit(story.parked) == "already_committed"
    inside.get(f"{address}/half-messages/{story.pending}")
    press(inside, "Roll back…")
    assert mq.rollback(story.pending) == "already_rolled_back"
    for page, paused in (
        ("/topics/orders", "topics where topic = 'orders'"),
        ("/groups/billing/orders", "_subscriptions('orders') where consumer_group = 'billing'"),
    ):
        for button, state in (("Pause", True), ("Resume", False)):
            inside.get(address + page)
            press(inside, button)
            assert mq.scalar(f"select paused from mqpg.{paused}") is state
    mq.drain("orders", group="shipping")
    inside.get(f"{address}/groups/shipping/orders")
    inside.find_element(By.NAME, "target").send_keys("earliest")
    press(inside, "Seek…")
    assert len(mq.drain("orders", group="shipping")) == 6
    inside.get(f"{address}/dead-letters/billing/orders")
    inside.find_element(By.NAME, "scope").send_keys("all")
    press(inside, "Redrive…")
    assert mq.scalar("select count(*) from mqpg.dead_letter") == 0
    waiting = story.orphan(mq)
    mq.execute(GONE)
    inside.get(f"{address}/groups/ledger/p")
    press(inside, "Unpin…")
    assert [one.message_id for one in mq.receive("p", group="ledger", consumer="bill-2")] == [waiting]


def test_ticked_dead_letters_are_discarded(inside: Chrome, address: str, story: Story, mq: Session) -> None:
    inside.get(f"{address}/dead-letters/billing/orders")
    inside.find_elements(By.NAME, "id")[0].send_keys(Keys.SPACE)
    press(inside, "Discard…")
    assert "1 dead letter is deleted" in inside.find_element(By.TAG_NAME, "main").text
    assert mq.scalar("select count(*) from mqpg.dead_letter") == len(story.dead) - 1
