"""The page at /: its files, chatting, and what it hands out."""
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import canned_reply
from chromium_page import (
    LONG,
    answer_with,
    ask,
    begin_canned,
    configure,
    let_one_reply_run_on,
    needs_page,
    opened,
    playwright,
    reply,
    send,
    wait_until,
    write,
    write_replies_by_hand,
)
from real_daemon import client_of

pytest_plugins = ["chromium_page"]  # its fixtures
pytestmark = needs_page


def get(url, headers={}):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, answer.read()


def test_files_are_kept_by_the_browser_until_they_change(url):
    status, headers, body = get(url)
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8" and headers["Cache-Control"] == "no-cache"
    names = set(re.findall(r'(?:src|href)="(page/[^"]+)"', body.decode()))
    assert names == {"page/style.css", "page/speculation.css", "page/app.js"}
    for name in names:
        status, headers, body = get(url + name)
        assert status == 200 and body and "default-src 'none'" in headers["Content-Security-Policy"]
        status, again, body = get(url + name, {"If-None-Match": f'W/"x", W/{headers["ETag"]}'})
        assert (status, body, again["ETag"], again["Content-Length"]) == (304, b"", headers["ETag"], None)
        assert get(url + name, {"If-None-Match": '"other"'})[0] == 200
    assert get(url + "page/none.js")[0] == get(url + "page/../page/none")[0] == 404


def test_the_policy_lets_no_text_become_code(browser, url):
    with opened(browser, url, may_fail=True) as page:
        broken = """() => new Promise((done) => {
          addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));
          fetch('http://127.0.0.1:9/').catch(() => setTimeout(done, 1000));
        })"""
        assert page.evaluate(broken) == "connect-src"
        for attack in ["document.createElement('p').innerHTML = '<b>x</b>'", "document.createElement('script').text = 'x'"]:
            assert page.evaluate(f"() => {{ try {{ {attack}; return 'made'; }} catch {{ return 'refused'; }} }}") == "refused", attack
        page.evaluate("() => { const a = document.createElement('a'); a.href = 'javascript:window.ran = 1'; document.body.append(a); a.click(); }")
        page.wait_for_timeout(100)
        assert page.evaluate("window.ran") is None


def test_a_chat_needs_no_mouse(page):
    configure(page, max_tokens=24, temperature=0)
    page.locator("#tab_chat").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#view_edit").is_visible() and not page.locator("#view_chat").is_visible()
    page.keyboard.press("Home")
    for _ in range(40):  # to the box, past all settings
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "message":
            break
    page.keyboard.type("Say hello.")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("Twice.")
    assert page.locator("#message").input_value() == "Say hello.\nTwice."
    page.keyboard.press("Enter")
    turn = reply(page)
    assert page.locator(".turn.user .text").inner_text() == "Say hello.\nTwice."
    assert page.locator("#message").input_value() == "" and page.evaluate("document.activeElement.id") == "message"
    # Back to the tokens: one stop of Tab for all of them.
    for _ in range(20):
        page.keyboard.press("Shift+Tab")
        if "token" in page.evaluate("document.activeElement.className"):
            break
    page.keyboard.press("ArrowRight")
    focused = page.locator(":focus")
    assert focused.get_attribute("data-token") == "1" and focused.get_attribute("aria-describedby") == "tip"
    assert page.locator("#tip").is_visible() and "Token 2 of " in page.locator("#tip").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()
    page.keyboard.press("End")
    last = turn.locator(".token").last
    assert last.evaluate("node => node === document.activeElement")
    assert turn.locator('.token[tabindex="0"]').count() == 1


def test_nothing_is_lost_by_sending_while_a_reply_arrives(page):
    configure(page, max_tokens=600, temperature=0)
    let_one_reply_run_on(page)
    send(page, LONG)
    send(page, "And the second?")
    page.locator("#message").fill("a thought")
    assert page.locator("#queue li span").all_inner_texts() == ["Waiting:", "And the second?"]
    reply(page, 1)
    assert page.locator(".turn").count() == 4
    assert page.locator(".turn.user .text").all_inner_texts() == [LONG, "And the second?"]
    assert page.locator("#message").input_value() == "a thought" and page.locator("#queue li").count() == 0


def test_stop_keeps_what_is_there(page):
    configure(page, max_tokens=1500, temperature=0)
    send(page, LONG)
    page.locator(".turn.assistant .token").nth(3).wait_for()
    send(page, "Next.")
    page.get_by_role("button", name="Stop").click()
    turn = reply(page)
    assert turn.locator(".ending").inner_text() == "Stopped." and turn.locator(".token").count() > 3
    assert page.locator("#message").input_value() == "Next.", "what waited is back in the box"
    assert page.locator(".turn.user").count() == 1 and page.locator("#queue li").count() == 0


def test_what_comes_behind_a_stop_is_left(page):
    stopped = """async (body) => {
      const { receive } = await import('/page/reply_view.js');
      const { Reply } = await import('/page/reply.js');
      window.fetch = async () => new Response(body);
      const controller = new AbortController();
      const reply = new Reply();
      const take = reply.take;
      reply.take = function (...chunk) {
        take.apply(this, chunk);
        if (this.tokens.length === 2) controller.abort();
      };
      await receive(reply, { path: 'x', body: {} }, '', controller.signal);
      return [reply.finish, reply.text];
    }"""
    assert page.evaluate(stopped, canned_reply.of_text("a§b§c")) == ["stopped", "ab"]


def test_scrolling_does_not_fight_the_reader(page):
    page.set_viewport_size({"width": 1400, "height": 420})
    configure(page, max_tokens=1500, temperature=0)
    let_one_reply_run_on(page)
    send(page, LONG)
    log = page.locator("#log_scroll")
    wait_until(page, "document.querySelector('#log_scroll').scrollTop > 200")
    assert log.evaluate("node => node.scrollHeight - node.clientHeight - node.scrollTop") < 60, "the end is in view"
    log.hover()
    page.mouse.wheel(0, -150)
    page.locator("#to_end").wait_for()
    there = log.evaluate("node => node.scrollTop")
    height = log.evaluate("node => node.scrollHeight")
    wait_until(page, f"document.querySelector('#log_scroll').scrollHeight > {height}")
    assert log.evaluate("node => node.scrollTop") == there
    page.locator("#to_end").click()
    height = log.evaluate("node => node.scrollHeight")
    wait_until(page, f"document.querySelector('#log_scroll').scrollHeight > {height}")
    assert log.evaluate("node => node.scrollHeight - node.clientHeight - node.scrollTop") < 60, "and again"


def test_scrolling_on_a_phone_does_not_fight_the_reader(page):
    """The panel is below the text there: who reads it stays there while the text above grows."""
    page.set_viewport_size({"width": 390, "height": 400})
    end = "document.querySelector('#log_end').getBoundingClientRect().bottom"
    foot = "document.querySelector('.foot').getBoundingClientRect().top"
    panel = "document.querySelector('.detail').getBoundingClientRect().top"
    write_replies_by_hand(page)
    send(page, "x")
    rest = begin_canned(page, canned_reply.of_text("\n\n§".join(f"Paragraph {number}." for number in range(90))), 30)

    def grow():
        write(page, "".join(rest[:20]))
        del rest[:20]
        wait_until(page, f"document.querySelector('.turn.assistant').innerText.includes('Paragraph {92 - len(rest)}.')")

    grow()
    assert abs(page.evaluate(f"{end} - {foot}")) < 30, "the end is above the box"
    page.wait_for_timeout(250)  # the panel is drawn less often than the text
    grow()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    wait_until(page, f"{end} < 0")
    there = page.evaluate(panel)
    grow()
    assert abs(page.evaluate(panel) - there) < 60 and page.evaluate(end) < 0
    page.evaluate("document.querySelector('#log_end').scrollIntoView({ block: 'center' })")
    page.wait_for_timeout(100)
    write(page, "".join(rest))
    reply(page)
    assert abs(page.evaluate(f"{end} - {foot}")) < 30, "and follows again"


@pytest.mark.parametrize("width", [1400, 390])
def test_scrolling_goes_on_after_another_tab(page, width):
    page.set_viewport_size({"width": width, "height": 400})
    below = "document.querySelector('#log_end').getBoundingClientRect().bottom - document.querySelector('.foot').getBoundingClientRect().top"
    write_replies_by_hand(page)
    send(page, "x")
    rest = begin_canned(page, canned_reply.of_text("\n\n§".join(f"Paragraph {number}." for number in range(90))), 30)
    wait_until(page, "document.querySelector('.turn.assistant').innerText.includes('Paragraph 28.')")
    page.locator("#tab_edit").dispatch_event("click")  # in a narrow window, a click would scroll to the tab first
    write(page, "".join(rest))
    wait_until(page, "document.querySelector('#stop').hidden")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # the box has no height now
    page.locator("#tab_chat").dispatch_event("click")
    assert page.evaluate(below) < 30 and page.locator("#to_end").is_hidden()
    page.locator(".turn.user").hover()  # which scrolls up
    page.locator("#to_end").wait_for()
    page.locator("#tab_edit").dispatch_event("click")
    page.locator("#tab_chat").dispatch_event("click")
    assert page.evaluate(below) > 300 and page.locator("#to_end").is_visible()


def snippets(page):
    page.get_by_role("button", name="As code").click()
    texts = {}
    for language in ("curl", "Python", "JavaScript"):
        page.get_by_label(language, exact=True).check()
        texts[language] = page.locator("#snippet").inner_text()
    page.keyboard.press("Escape")
    return texts


def test_copied_programs_send_the_same_request(page):
    configure(page, max_tokens=16, temperature=0, seed=3, system="It's \"brief\".")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    answer = ask(page, "Say 'hello' $HOME \\n to \"me\" – üñ😀.").locator(".answer").evaluate("node => node.textContent")
    texts = snippets(page)
    page.get_by_role("button", name="As code").click()
    page.locator("#copy_snippet").click()
    assert page.evaluate("navigator.clipboard.readText()") == texts["JavaScript"]
    page.keyboard.press("Escape")
    events = subprocess.run(["bash", "-c", texts["curl"]], capture_output=True, text=True, timeout=60).stdout
    chunks = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: {")]
    shown = page.locator(".turn.assistant .answer").inner_text()
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"]).strip() and chunks[1]["choices"][0]["paceline"]
    outputs = {
        "curl": "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"]),
        "Python": subprocess.run([sys.executable, "-c", texts["Python"]], capture_output=True, text=True, timeout=60).stdout,
    }
    with page.expect_event("console") as logged:
        page.evaluate(f"async () => {{ {texts['JavaScript']} }}")
    outputs["JavaScript"] = logged.value.text
    assert len(set(text.strip() for text in outputs.values())) == 1, outputs
    assert outputs["curl"].split()[0] in shown


def test_a_long_request_is_sent_by_curl(page):
    """Linux takes no argument above 128 KiB."""
    answer_with(page, canned_reply.of_text("Fine."))
    page.locator("#message").evaluate("(node) => { node.value = 'it\\'s $HOME '.repeat(15_000); }")
    page.locator("#message").press("Enter")
    reply(page)
    curl = snippets(page)["curl"]
    assert len(curl) > 150_000
    sent = subprocess.run(["bash"], input=curl, capture_output=True, text=True, timeout=60)
    assert sent.returncode == 0 and json.loads(sent.stdout)["error"]["code"] == "context_length_exceeded", sent


def test_a_copied_program_tells_what_went_wrong(page):
    answer_with(page, canned_reply.of_text("Fine."))
    ask(page, "x")
    program = snippets(page)["JavaScript"]
    page.evaluate("""() => { window.fetch = async () => new Response('data: {"error": {"message": "no more"}}\\n\\n'); }""")
    with pytest.raises(playwright.Error, match="Error: no more"):
        page.evaluate(f"async () => {{ {program} }}")


def test_a_key_stays_with_the_tab(browser, start_daemon, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret-key\n")
    daemon = start_daemon(**{"server.api_keys_file": keys})
    context = browser.new_context()
    page = context.new_page()
    page.goto(daemon.url + "/")
    page.locator("#served", has_text="wants an API key").wait_for()
    told = "This server wants an API key: enter it in the settings."
    playwright.expect(page.locator("#status")).to_have_text(told)
    for wrong, why in [("other-key", "the API key is not valid"), ("no key", "an API key has no such characters")]:
        configure(page, key=wrong)
        page.locator("#served", has_text=f"The API key was not accepted: {why}.").wait_for()
        playwright.expect(page.locator("#status")).to_have_text(re.compile(why))
    configure(page, key="secret-key", max_tokens=8)
    page.locator("#served", has_text="hash").wait_for()
    ask(page, "x")
    kept = page.evaluate("JSON.stringify(localStorage)")
    assert "secret-key" not in kept
    for text in snippets(page).values():
        assert "PACELINE_API_KEY" in text and "secret-key" not in text
    context.close()


WITHOUT_TEMPLATE = """version: 1
models: [{name: text, kind: hash, context_length: 512}]
server: {port: 0}
"""


def test_a_model_without_a_chat_template_continues_text(browser, tmp_path):
    with client_of(tmp_path, WITHOUT_TEMPLATE) as client, opened(browser, str(client.base_url).removesuffix("v1/")) as page:
        assert "it has no chat template" in page.locator("#served").inner_text()
        assert page.locator("[name=max_tokens]").get_attribute("placeholder") == "256"
        with page.expect_request("**/v1/completions") as sent:
            ask(page, "Once upon")
        assert json.loads(sent.value.post_data)["max_tokens"] == 256
        page.get_by_role("button", name="New chat").click()
        configure(page, max_tokens=12)
        let_one_reply_run_on(page)
        with page.expect_request("**/v1/completions") as sent:
            turn = ask(page, "Once upon a time")
        assert json.loads(sent.value.post_data)["prompt"] == "Once upon a time" and turn.locator(".token").count() > 0
        assert turn.locator(".answer.raw").count() == 1, "it is no Markdown"
        assert turn.get_by_role("button", name="Show source").get_attribute("aria-pressed") == "true"
        texts = snippets(page)
        assert "client.completions.create(" in texts["Python"] and "/v1/completions" in texts["curl"]
        page.locator("#tab_edit").click()
        page.locator("#file").fill("x = 1\n")
        page.locator("#change").fill("y")
        page.get_by_role("button", name="Edit the file").click()
        page.locator("#edit_result").get_by_role("button", name="As code").wait_for()
        program = snippets(page)["Python"]
        assert "prediction" in program
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_refusals_are_shown_and_can_be_sent_again(browser, url):
    with opened(browser, url, may_fail=True) as page:
        configure(page, max_tokens=8, temperature=0)
        page.route("**/v1/chat/completions", lambda route: route.fulfill(status=429, json={"error": {"message": "too many requests"}}), times=1)
        assert ask(page, "Hello").locator(".ending").inner_text() == "Failed: too many requests."
        page.get_by_role("button", name="Try again").click()
        assert reply(page, 1).locator(".token").count() > 0
        configure(page, temperature=3)
        send(page, "Not sent")
        assert page.locator("#message").input_value() == "Not sent" and page.evaluate("document.activeElement.name") == "temperature"
