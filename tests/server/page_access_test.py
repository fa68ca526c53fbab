"""The page at / for everybody: the tree that a screen reader reads, contrasts, names, narrow and enlarged windows."""
import pytest

import canned_reply
from chromium_page import answer_with, ask, begin_canned, needs_page, opened, playwright, reply, send, write, write_replies_by_hand

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe: deploy/python_env.sh")
pytest_plugins = ["chromium_page"]  # its fixtures
pytestmark = needs_page

LAYOUTS = {
    "light": {"viewport": {"width": 1400, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1400, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light", "has_touch": True},
    "200 %": {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2, "color_scheme": "dark"},
}

CONTROLS = """
- heading "Paceline" [level=1]
- tablist "What to do":
  - tab "Chat" [selected]
  - tab "Edit a file"
  - tab "Race"
"""
SETTINGS = ['combobox "Model"', 'combobox "Drafter"', 'spinbutton "Draft length"', 'spinbutton "Temperature"', 'combobox "Acceptance rule"',
            'spinbutton "Seed"', 'spinbutton "Max tokens"', 'textbox "System prompt"', 'textbox "API key"', 'button "Reset settings"',
            'checkbox "Mark tokens by origin"', 'button "New chat"', 'log "Messages"', 'textbox "Message"', 'button "Send"', 'button "Show source"',
            'button "Copy"', 'button "As code"', 'button "Show all rounds"', 'img "Draft tree of 4 tokens.', 'button "Round 2: 2 tokens drafted']


def test_a_screen_reader_finds_every_control(page):
    answer_with(page, canned_reply.one_of_each())
    ask(page, "x")
    tree = page.locator("body").aria_snapshot()
    playwright.expect(page.locator("header")).to_match_aria_snapshot(CONTROLS)
    assert [name for name in SETTINGS if name not in tree] == []
    log = page.locator("#log")
    assert log.get_attribute("aria-live") == "off" and page.locator(".reply[aria-busy]").count() == 0
    playwright.expect(page.locator("#status")).to_have_text("The reply is complete: 9 tokens. The quick brown fox jumps over the lazy.")


def violations(page):
    found = axe.Axe().run(page).response["violations"]
    return [f"{one['id']}: {node['html'][:150]} {node['failureSummary'][:300]}" for one in found for node in one["nodes"]]


def is_within_its_width(page):
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


THOUGHTS = """data: {"choices": [{"delta": {"reasoning_content": "Let me think."}}]}\n\n"""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_view_is_accessible(browser, url, layout):
    with opened(browser, url, bypass_csp=True, reduced_motion="reduce", **LAYOUTS[layout]) as page:
        assert violations(page) == [], "before the first message"
        answer_with(page, canned_reply.one_of_each())
        ask(page, "x")
        answer_with(page, canned_reply.of_text(canned_reply.MARKDOWN + "\n\n" + "wide" * 200))
        ask(page, "y" * 300)
        page.locator(".text .token").nth(4).focus()
        assert is_within_its_width(page) and violations(page) == []
        page.locator("#tab_edit").click()
        assert is_within_its_width(page) and violations(page) == []
        page.locator("#tab_race").click()
        page.get_by_role("button", name="Race", exact=True).click()
        page.locator("#race_result strong").wait_for()
        assert is_within_its_width(page) and violations(page) == []
        page.locator("#tab_chat").click()
        page.get_by_role("button", name="As code").first.click()
        assert is_within_its_width(page) and violations(page) == []
        page.keyboard.press("Escape")
        page.unroute("**/v1/chat/completions")
        write_replies_by_hand(page)
        for number in range(7):
            send(page, f"Message {number}")
        write(page, THOUGHTS)
        begin_canned(page, canned_reply.of_text("Some§ text"), 2)
        page.locator(".turn.assistant .thoughts").wait_for()
        page.locator("#queue li").nth(5).wait_for()
        assert is_within_its_width(page) and violations(page) == [], "a reply that arrives, and what waits"
        write(page, 'data: {"error": {"message": "no more"}}\n\n')
        assert reply(page).locator(".ending").inner_text() == "Failed: no more."
        assert is_within_its_width(page) and violations(page) == [], "a reply that failed"
