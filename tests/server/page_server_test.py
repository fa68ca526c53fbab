"""The page at / while its server loads, is gone, and comes back."""
import json
import re
import signal

import pytest

from chromium_page import configure, let_one_reply_run_on, needs_page, playwright, reply, send
from daemon import Daemon
from loading_daemon import loading_daemons

pytest_plugins = ["chromium_page"]  # its fixtures
pytestmark = needs_page


@pytest.fixture
def page(browser):
    """A page of no address yet. Requests may fail in it."""
    context = browser.new_context()
    one = context.new_page()
    one.set_default_timeout(60_000)
    failures = []
    one.on("pageerror", lambda failure: failures.append(str(failure)))
    yield one
    context.close()
    assert failures == []


def test_it_shows_how_far_the_models_are_and_goes_on_by_itself(page, tmp_path):
    with loading_daemons(tmp_path) as start:
        daemon = start()
        page.goto(daemon.url)
        page.evaluate("localStorage.setItem('paceline.settings', JSON.stringify({ model: 'second', drafter: 'suffix' }))")
        page.reload()
        served = page.locator("#served")
        page.locator("#served", has_text="Loading the models").wait_for()
        shown = re.fullmatch(r"Loading the models: (\d+) %", served.inner_text())
        assert shown and 0 < int(shown[1]) < 100 and "failed" not in (served.get_attribute("class") or "")
        configure(page, max_tokens=4)
        send(page, "Hello")
        assert page.locator("#message").input_value() == "Hello" and page.locator(".turn").count() == 0
        daemon.go_on()
        daemon.wait_until_it_serves()
        page.locator("#served", has_text="second, context of").wait_for()
        playwright.expect(page.locator("#status")).to_have_text(re.compile("^Ready: second"))
        assert page.locator("[name=drafter]").input_value() == "suffix", "what was chosen outlives an empty list"
        page.locator("#message").press("Enter")
        reply(page)
        assert page.locator(".turn.user .text").inner_text() == "Hello"
        assert daemon.end() == 0


def test_a_password_of_a_proxy_stays_in_the_address(page, daemon):
    page.goto(daemon.url.replace("://", "://user:secret@"))
    page.locator("#served", has_text="hash, context of").wait_for()
    configure(page, max_tokens=4)
    send(page, "Hello")
    reply(page).get_by_role("button", name="As code").click()
    for language in ("curl", "Python", "JavaScript"):
        page.get_by_label(language, exact=True).check()
        assert f"{daemon.url}/v1" in page.locator("#snippet").inner_text()


@pytest.mark.parametrize("status, body, words", [
    (200, "<html>", "the server lists none"), (200, '{"data": []}', "the server lists none"), (200, '{"data": "none"}', "the server lists none"),
    (200, "null", "the server lists none"), (200, "", "the server lists none"), (500, '{"error": "Unauthorized"}', "the server answered with status 500"),
    (500, '{"error": {"message": 3}}', "the server answered with status 500"), (502, "<html>", "the server answered with status 502"),
])
def test_another_server_is_no_reason_to_wait_silently(page, daemon, status, body, words):
    page.route("**/v1/models", lambda route: route.fulfill(status=status, body=body))
    page.goto(daemon.url)
    page.locator("#served", has_text=f"No models: {words}. Asking again …").wait_for()
    page.unroute("**/v1/models")
    page.locator("#served", has_text="hash, context of").wait_for()


def test_a_reset_keeps_the_model_while_there_is_no_list(page, daemon):
    page.route("**/v1/models", lambda route: route.fulfill(body='{"data": []}'))
    page.goto(daemon.url)
    page.evaluate("localStorage.setItem('paceline.settings', JSON.stringify({ model: 'second', drafter: 'suffix', seed: '3' }))")
    page.reload()
    page.get_by_role("button", name="Reset settings").click()
    assert json.loads(page.evaluate("localStorage.getItem('paceline.settings')")) == dict.fromkeys(
        ["draft_length", "rule", "temperature", "seed", "max_tokens", "system"], "") | {"model": "second"}


def test_a_silent_server_is_asked_again(page, start_daemon):
    daemon = start_daemon()
    page.goto(daemon.url)
    page.locator("#served", has_text="hash, context of").wait_for()
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        configure(page, key="x")  # asks for the models with it
        page.locator("#served", has_text="No models: the server does not answer. Asking again …").wait_for()
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    page.locator("#served", has_text="hash, context of").wait_for()


def test_it_outlives_its_server(page, tmp_path):
    slow = {"models.0.hash.pass_work": 3_000_000}
    first = Daemon(tmp_path, **slow)
    try:
        page.goto(first.url)
        page.locator("#served", has_text="hash, context of").wait_for()
        configure(page, max_tokens=1500)
        send(page, "Hello")
        page.locator(".turn.assistant .token").nth(3).wait_for()
    finally:
        first.process.send_signal(signal.SIGKILL)
        first.process.communicate(timeout=30)
    turn = reply(page)
    assert turn.locator(".ending").inner_text() == "Failed: the connection was lost before the reply was complete."
    assert turn.locator(".token").count() > 3
    page.locator("#served", has_text="No models: the server cannot be reached. Asking again …").wait_for()
    second = Daemon(tmp_path, **slow, **{"server.port": first.port})
    try:
        page.locator("#served", has_text="hash, context of").wait_for()
        configure(page, max_tokens=4)
        let_one_reply_run_on(page)
        page.get_by_role("button", name="Try again").click()
        again = reply(page, 1)
        assert again.locator(".token").count() > 0, again.inner_text()
    finally:
        assert second.stop() == 0
