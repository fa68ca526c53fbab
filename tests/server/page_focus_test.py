"""The page at /: where the focus is, and what a screen reader is told."""
import pytest

import canned_reply
from chromium_page import answer_with, ask, begin_canned, needs_page, playwright, reply, send, wait_until, write, write_replies_by_hand

pytest_plugins = ["chromium_page"]  # its fixtures
pytestmark = needs_page

NAME = "(document.activeElement.id || document.activeElement.getAttribute('aria-label') || document.activeElement.textContent).trim()"

# Looks in every frame whether the focus is lost, and notes where it was before.
WATCH = """() => {
  window.lost = [];
  let before = '';
  const look = () => {
    const { activeElement: element } = document;
    if (element === document.body) {
      if (before) window.lost.push(before);
      before = '';
    } else {
      before = element.id || element.textContent.slice(0, 40) || element.localName;
    }
    requestAnimationFrame(look);
  };
  look();
}"""


def tab_to(page, name, key="Tab"):
    for _ in range(80):
        if page.evaluate(NAME) == name:
            return
        page.keyboard.press(key)
    pytest.fail(f"{name} is not reached: {page.evaluate(NAME)}")


def press(page, name, key="Enter"):
    """Goes to a control with the keyboard alone and presses it."""
    tab_to(page, name)
    page.keyboard.press(key)


def finish(page):
    """Two frames, in which a lost focus is seen."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("window.lost") == []


FILE = canned_reply.of_text("```\n§x = 2\n§```")


def test_the_focus_is_never_lost_in_a_chat(page):
    write_replies_by_hand(page)
    page.locator("#message").focus()
    page.evaluate(WATCH)
    first = page.locator(".welcome button").first
    for _ in range(80):
        if first.evaluate("(node) => node === document.activeElement"):
            break
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert page.evaluate(NAME) == "message", "the example is gone"
    page.keyboard.type("Wait.")
    page.keyboard.press("Enter")
    tab_to(page, "Edit", "Shift+Tab")
    page.keyboard.press("Enter")
    assert page.locator("#message").input_value() == "Wait." and page.evaluate(NAME) == "message"
    page.keyboard.press("Enter")
    tab_to(page, "Edit", "Shift+Tab")
    write(page, canned_reply.one_of_each())  # what waits is sent, and the button is gone
    wait_until(page, "window.streams.length === 2")
    assert page.evaluate(NAME) == "message"
    press(page, "stop")
    wait_until(page, "document.querySelector('#stop').hidden")
    assert page.evaluate(NAME) == "message"
    page.keyboard.type("More")
    page.keyboard.press("Enter")
    tab_to(page, "stop")
    write(page, canned_reply.one_of_each())
    wait_until(page, "document.querySelector('#stop').hidden")
    assert page.evaluate(NAME) == "message", "the reply ended by itself"
    finish(page)


def test_the_focus_is_never_lost_in_an_edit_and_a_race(page):
    answer_with(page, FILE)
    page.locator("#tab_chat").focus()
    page.evaluate(WATCH)
    page.keyboard.press("ArrowRight")
    tab_to(page, "file")
    page.keyboard.type("x = 1")
    press(page, "change", "y")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Put into the box").wait_for()
    for name, text in [("Put into the box", "x = 2\n"), ("Take it back", "x = 1"), ("Put into the box", "x = 2\n")]:
        press(page, name)
        assert page.locator("#file").input_value() == text
    tab_to(page, "edit_race", "Shift+Tab")
    page.keyboard.press("Enter")
    page.locator("#race_result strong").wait_for()
    assert page.evaluate(NAME) == "tab_race"
    press(page, "race_start")
    page.locator("#race_result", has_text="the prompt").wait_for()
    assert page.evaluate(NAME) == "race_start"
    press(page, "As code")
    page.locator("#snippets[open]").wait_for()
    tab_to(page, "copy_snippet")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#snippets [role=status]")).to_have_text("Copied")
    page.keyboard.press("Escape")
    assert page.evaluate(NAME) == "As code"
    page.unroute("**/v1/chat/completions")
    write_replies_by_hand(page)
    tab_to(page, "race_start", "Shift+Tab")
    page.keyboard.press("Enter")
    assert page.locator("#race_start").get_attribute("aria-disabled") == "true"
    press(page, "race_stop")
    page.locator("#race_result", has_text="Stopped.").wait_for()
    assert page.evaluate(NAME) == "race_start" and page.locator("#race_start").get_attribute("aria-disabled") == "false"
    tab_to(page, "tab_race", "Shift+Tab")
    page.keyboard.press("ArrowLeft")
    press(page, "edit_start")
    press(page, "edit_stop")
    page.locator("#edit_stop").wait_for(state="hidden")
    assert page.evaluate(NAME) == "edit_start"
    finish(page)


def test_the_focus_is_never_lost_in_the_panel(page):
    write_replies_by_hand(page)
    page.evaluate(WATCH)
    send(page, "x")
    send(page, "What waits.")
    rest = begin_canned(page, canned_reply.one_of_each(), 2)
    for _ in range(2):
        page.wait_for_timeout(250)  # the panel is drawn less often than the text
        write(page, rest.pop(0))
    page.locator(".detail [aria-label='Draft tree']").focus()
    title = page.locator(".detail h3").inner_text()
    for event in rest[:-1]:
        write(page, event)
        page.wait_for_timeout(250)
    assert page.evaluate(NAME) == "Draft tree" and page.locator(".detail h3").inner_text() == title, "who reads a round stays at it"
    write(page, rest[-1])
    wait_until(page, "window.streams.length === 2")
    assert page.evaluate(NAME) == "panel", "which has nothing to show yet of the next reply"
    finish(page)


def test_a_window_that_becomes_narrow_does_not_close_what_somebody_writes_in(page):
    answer_with(page, canned_reply.one_of_each())
    ask(page, "x")
    page.locator("[name=system]").focus()
    page.keyboard.type("Be ")
    page.set_viewport_size({"width": 640, "height": 400})
    wait_until(page, "!document.querySelector('#history_box').open")
    page.keyboard.type("brief.")
    assert page.locator("[name=system]").input_value() == "Be brief." and page.locator("[name=system]").is_visible()
    page.set_viewport_size({"width": 1400, "height": 900})
    wait_until(page, "document.querySelector('#history_box').open")
    page.locator("#message").focus()
    page.set_viewport_size({"width": 640, "height": 400})
    wait_until(page, "!document.querySelector('#settings_box').open")


def test_the_button_to_the_end_passes_the_focus_on(page):
    page.set_viewport_size({"width": 1400, "height": 420})
    answer_with(page, canned_reply.of_text("\n\n".join(["word"] * 60)))
    ask(page, "x")
    page.locator("#log_scroll").evaluate("(node) => { node.scrollTop = 0; }")
    page.locator("#to_end").wait_for()
    page.locator("#to_end").press("Enter")
    assert page.locator("#to_end").is_hidden() and page.evaluate(NAME) == "log_scroll"


TOLD = """() => {
  window.told = [];
  new MutationObserver(() => window.told.push(document.querySelector('#status').textContent)).observe(document.querySelector('#status'), { childList: true });
}"""
SILENT = "[...document.querySelectorAll('.reply')].every((node) => [null, 'off'].includes(node.closest('[aria-live]')?.getAttribute('aria-live') ?? null))"


def test_a_reply_is_told_once_at_its_end(page):
    write_replies_by_hand(page)
    page.evaluate(TOLD)
    send(page, "x")
    rest = begin_canned(page, canned_reply.of_text("Some§ **bold**§ text."), 3)
    page.locator(".turn.assistant .token").nth(1).wait_for()
    assert page.locator(".reply[aria-busy]").count() == 1 and page.evaluate(SILENT)
    write(page, "".join(rest))
    reply(page)
    wait_until(page, "window.told.length === 2")
    assert page.evaluate("window.told") == ["The reply begins.", "The reply is complete: 3 tokens. Some bold text."]
    assert page.locator(".reply[aria-busy]").count() == 0
    send(page, "y")
    begin_canned(page, canned_reply.of_text("One§ two"), 2)
    page.locator(".turn.assistant").nth(1).locator(".token").wait_for()
    page.get_by_role("button", name="Stop").click()
    wait_until(page, "window.told.length === 4")
    assert page.evaluate("window.told.at(-1)") == "The reply was stopped: 1 tokens. One"
    page.evaluate("async () => { const { announce } = await import('/page/dom.js'); announce('x'); announce('x'); }")
    wait_until(page, "window.told.length === 6")
    assert page.evaluate("window.told.slice(4)") == ["x", "x\u00a0"], "the same again is told again, and one after the other"


def test_a_reply_is_told_although_the_next_message_is_sent_at_once(page):
    write_replies_by_hand(page)
    page.evaluate(TOLD)
    send(page, "x")
    send(page, "y")
    write(page, canned_reply.of_text("One."))
    wait_until(page, "window.streams.length === 2")
    wait_until(page, "window.told.length === 3")
    told = ["The reply begins.", "The message waits until the reply is complete.", "The reply is complete: 1 tokens. One."]
    assert page.evaluate("window.told") == told
    page.wait_for_timeout(300)  # longer than a text stays if another one waits
    assert page.locator("#status").text_content() == told[-1]


def test_what_is_missing_is_told_once(browser, url):
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(f"addEventListener('DOMContentLoaded', {TOLD})")
    answers = iter([{"error": {"message": "x", "code": "loading"}}] * 2)
    page.route("**/readyz", lambda route: route.fulfill(status=503, json={"progress": 0.5}))
    page.route("**/v1/models", lambda route: route.fulfill(status=503, json=one) if (one := next(answers, None)) else route.continue_())
    page.goto(url)
    page.locator("#served", has_text="context of").wait_for()
    wait_until(page, "window.told.length >= 2")
    told = page.evaluate("window.told")
    assert told[0] == "Loading the models: 50 %" and told[1].startswith("Ready: smollm2") and len(told) == 2
    context.close()
