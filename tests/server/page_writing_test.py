"""The page at /: the box to write in, on all kinds of keyboards, and what was not sent."""
import pytest

import canned_reply
from chromium_page import answer_with, configure, needs_page, opened, reply, send, wait_until, write, write_replies_by_hand

pytest_plugins = ["chromium_page"]  # its fixtures
pytestmark = needs_page


def test_what_was_not_sent_outlives_a_reload(page):
    write_replies_by_hand(page)
    send(page, "The first")
    send(page, "The second")
    send(page, "The third")
    page.locator("#message").fill("a thought")
    page.locator("#tab_edit").click()
    page.locator("#file").fill("x = 1\n")
    page.locator("#change").fill("y")
    sent = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.reload()
    page.locator("#served", has_text="context of").wait_for()
    message = page.locator("#message")
    assert message.input_value() == "The second\n\nThe third\n\na thought" and page.locator("#queue li").count() == 0
    assert message.evaluate("(node) => node.clientHeight >= node.scrollHeight"), "all of it can be seen"
    assert page.locator("#file").input_value() == "x = 1\n" and page.locator("#change").input_value() == "y"
    assert page.locator(".turn.user .text").all_inner_texts() == ["The first"] and sent == []
    answer_with(page, canned_reply.one_of_each())
    message.press("Enter")
    reply(page, 1)
    page.reload()
    assert message.input_value() == ""


def test_a_tab_that_is_put_away_has_kept_what_was_written(page):
    """The browser does not tell a tab in the background before it discards it."""
    write_replies_by_hand(page)
    send(page, "The first")
    send(page, "The second")
    page.locator("#message").fill("a thought")
    page.evaluate("""() => {
      Object.defineProperty(document, 'hidden', { get: () => true });
      document.dispatchEvent(new Event('visibilitychange'));
    }""")
    assert page.evaluate("sessionStorage.getItem('paceline.draft.message')") == "The second\n\na thought"


def test_without_storage_there_is_a_page_all_the_same(browser, url):
    context = browser.new_context()
    context.add_init_script("""
      for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get() { throw new Error('switched off'); } });
    """)
    page = context.new_page()
    failures = []
    page.on("pageerror", lambda failure: failures.append(str(failure)))
    page.goto(url)
    page.locator("#served", has_text="context of").wait_for()
    answer_with(page, canned_reply.one_of_each())
    send(page, "x")
    reply(page)
    page.reload()
    page.locator(".welcome").wait_for()
    context.close()
    assert failures == []


def test_keyboards_on_the_screen_have_no_shift_enter(browser, url):
    with opened(browser, url, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True) as page:
        answer_with(page, canned_reply.one_of_each())
        message = page.locator("#message")
        assert message.get_attribute("enterkeyhint") == "enter" and "Enter begins a new line" in page.locator("#keys").text_content()
        message.fill("one")
        message.press("Enter")
        message.type("two")
        assert message.input_value() == "one\ntwo"
        page.locator("#send").tap()
        reply(page)
        assert page.locator(".turn.user .text").inner_text() == "one\ntwo"


@pytest.mark.parametrize("event", ["{ keyCode: 229 }", "{ isComposing: true }"])
def test_an_enter_that_ends_a_word_sends_nothing(page, event):
    message = page.locator("#message")
    assert message.get_attribute("enterkeyhint") == "send"
    message.fill("かな")
    page.evaluate(f"document.querySelector('#message').dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter', cancelable: true, ...{event} }}))")
    assert message.input_value() == "かな" and page.locator(".turn").count() == 0


def test_what_waits_is_taken_back_where_a_setting_is_refused(page):
    write_replies_by_hand(page)
    for text in ("The first", "The second", "The third"):
        send(page, text)
    page.locator("#message").fill("a thought")
    configure(page, temperature=3)
    write(page, canned_reply.one_of_each())
    reply(page)
    wait_until(page, "document.querySelector('#stop').hidden")
    assert page.locator("#message").input_value() == "The second\n\nThe third\n\na thought" and page.locator("#queue li").count() == 0
    assert page.evaluate("document.activeElement.name") == "temperature" and page.evaluate("window.streams.length") == 1


def test_taking_a_file_back_keeps_what_was_written_since(page):
    answer_with(page, canned_reply.of_text("```\n§x = 2\n§```"))
    page.locator("#tab_edit").click()
    file = page.locator("#file")
    file.fill("x = 1\n")
    page.locator("#change").fill("y")
    page.get_by_role("button", name="Edit the file").click()
    page.get_by_role("button", name="Put into the box").click()
    assert file.input_value() == "x = 2\n"
    file.fill("x = 2\ny = 3\n")
    page.get_by_role("button", name="Take it back").click()
    assert file.input_value() == "x = 1\n"
    file.fill("x = 0\n")
    page.get_by_role("button", name="Put into the box").click()
    assert file.input_value() == "x = 2\ny = 3\n"
    page.get_by_role("button", name="Take it back").click()
    assert file.input_value() == "x = 0\n"


def test_what_waits_leaves_room_for_the_text(browser, url):
    """In narrow windows the box lies over the text: what has the focus is scrolled to where it can be seen."""
    with opened(browser, url, viewport={"width": 640, "height": 500}) as page:
        answer_with(page, canned_reply.of_text("§".join(f"word {number} " for number in range(600))))
        send(page, "x")
        reply(page)
        page.unroute("**/v1/chat/completions")
        write_replies_by_hand(page)
        for number in range(9):
            send(page, f"Message {number}")
        queue = page.locator("#queue")
        assert queue.locator("li").count() == 8 and queue.evaluate("(node) => node.offsetHeight") <= 96
        wait_until(page, "document.documentElement.style.getPropertyValue('--foot') === `${document.querySelector('.foot').offsetHeight}px`")
        page.evaluate("scrollTo(0, 0)")
        page.locator(".turn.assistant .token").first.focus()
        for _ in range(20):
            for _ in range(13):
                page.keyboard.press("ArrowRight")
            page.wait_for_timeout(20)
            assert page.evaluate("document.activeElement.getBoundingClientRect().bottom <= document.querySelector('.foot').getBoundingClientRect().top + 1")
