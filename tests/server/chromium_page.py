"""The page at / in Debian's Chromium, headless, by Playwright, for the tests of the page."""
import contextlib
import json
import re
import shutil
import time

import pytest

from real_daemon import MODEL, client_of, needs_model

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: deploy/python_env.sh")
CHROMIUM = shutil.which("chromium")

needs_page = [needs_model, pytest.mark.skipif(CHROMIUM is None, reason="no chromium: deploy/packages.sh --tests")]

CONFIG = f"""version: 1
models:
  - name: smollm2
    path: {MODEL}
    context_length: 2048
server: {{port: 0}}
engine: {{threads: 2}}
"""
QUESTION = "Repeat after me: the red cat, the red dog, the red cat, the red dog."
LONG = "Write a long story about a lighthouse."


@pytest.fixture(scope="session")
def url(tmp_path_factory):
    with client_of(tmp_path_factory.mktemp("page"), CONFIG) as client:
        yield str(client.base_url).removesuffix("v1/")


@pytest.fixture(scope="session")
def browser():
    with playwright.sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=CHROMIUM)  # headless, and without a sandbox, as root needs it


@contextlib.contextmanager
def opened(browser, url, may_fail=False, **options):
    """The page in a fresh profile. Nothing may fail in it, unless it may, and it may ask for nothing elsewhere."""
    context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}} | options)
    page = context.new_page()
    page.set_default_timeout(60_000)  # other tests may run at the same time
    failures, requests = [], []
    page.on("pageerror", lambda failure: failures.append(str(failure)))
    page.on("console", lambda line: failures.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: requests.append(request.url))
    page.goto(url)
    page.locator("#served", has_text="context of").wait_for()
    yield page
    context.close()
    assert may_fail or failures == []
    assert [one for one in requests if not one.startswith((url, "data:"))] == []


@pytest.fixture
def page(browser, url):
    with opened(browser, url) as one:
        yield one


def wait_until(page, condition, seconds=60):
    """Playwright's own way evaluates a text in the page, which its policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


def logged(page, script, argument=None):
    """The text that a script writes to the console. A script that hangs makes the test fail, but does not block it."""
    with page.expect_event("console", timeout=120_000) as line:
        page.evaluate(f"(argument) => void setTimeout(() => ({script})(argument))", argument)
    return line.value.text


def configure(page, **settings):
    page.evaluate("document.getElementById('settings_box').open = true")
    for name, value in settings.items():
        control = page.locator(f"#settings [name={name}]")
        control.select_option(value) if name in {"drafter", "rule", "model"} else control.fill(str(value))


def answer_with(page, body):
    page.route("**/v1/chat/completions", lambda route: route.fulfill(body=body, content_type="text/event-stream"))


def let_one_reply_run_on(page):
    """The next reply ends at its max_tokens and nowhere before, and no draft speeds it: a test has time to act."""
    long = {"ignore_eos": True, "speculation": {"drafter": "none"}}
    page.route(
        re.compile("/v1/(chat/)?completions$"),
        lambda route: route.continue_(post_data=json.dumps(route.request.post_data_json | long)),
        times=1,
    )


# Replies whose streams a test writes itself, piece by piece.
BY_HAND = """() => {
  const { fetch } = window;
  window.streams = [];
  window.fetch = (path, options) => {
    if (options.method !== 'POST') return fetch(path, options);
    const { readable, writable } = new TextEncoderStream();
    const writer = writable.getWriter();
    options.signal.addEventListener('abort', () => writer.abort(options.signal.reason).catch(() => {}));
    window.streams.push(writer);
    return Promise.resolve(new Response(readable));
  };
}"""


def write_replies_by_hand(page):
    page.evaluate(BY_HAND)


def write(page, text):
    """Continues the latest reply."""
    page.evaluate("(text) => { window.streams.at(-1).write(text).catch(() => {}); }", text)


def begin_canned(page, body, count):
    """Writes the first events of a canned reply; returns the rest, to be written later."""
    events = [f"{event}\n\n" for event in body.split("\n\n")[:-1]]
    write(page, "".join(events[:count]))
    return events[count:]


def send(page, text):
    page.locator("#message").fill(text)
    if page.evaluate("matchMedia('(pointer: coarse)').matches"):
        page.locator("#send").click()
    else:
        page.locator("#message").press("Enter")


def reply(page, number=-1):
    """The reply, once it is complete."""
    turn = page.locator(".turn.assistant").nth(number)
    turn.get_by_role("button", name="As code").wait_for()
    return turn


def ask(page, text):
    before = page.locator(".turn.assistant").count()
    send(page, text)
    return reply(page, before)
