"""The page at /: conversations that the browser keeps."""
import json

import canned_reply
from chromium_page import LONG, QUESTION, answer_with, ask, configure, let_one_reply_run_on, needs_page, opened, reply, send, wait_until

pytest_plugins = ["chromium_page"]  # its fixtures
pytestmark = needs_page


def kept(page):
    return json.loads(page.evaluate("localStorage.getItem('paceline.history')") or "[]")


def test_conversations_outlive_a_reload(page):
    answer_with(page, canned_reply.one_of_each())
    ask(page, "The first")
    page.get_by_role("button", name="New chat").click()
    assert page.locator(".turn").count() == 0
    ask(page, "The second")
    page.reload()
    assert page.locator(".turn.user .text").all_inner_texts() == ["The second"]
    assert page.locator(".turn.assistant .token.recovered").count() == 1, "with its rounds"
    page.get_by_role("button", name="The first", exact=True).click()
    assert page.locator(".turn.user .text").all_inner_texts() == ["The first"]
    page.get_by_role("button", name="As code").click()
    assert '"content": "The first"' in page.locator("#snippet").inner_text()
    page.keyboard.press("Escape")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Clear history").click()
    assert page.locator(".turn").count() == 0 and page.evaluate("localStorage.getItem('paceline.history')") is None


def test_a_reply_that_is_left_keeps_what_is_there(page):
    configure(page, max_tokens=1500, temperature=0)
    for number, leave in enumerate([lambda: page.reload(), lambda: page.get_by_role("button", name="New chat").click()]):
        text = f"{LONG} {number}"
        let_one_reply_run_on(page)
        send(page, text)
        page.locator(".turn.assistant").last.locator(".token").nth(3).wait_for()
        leave()
        page.get_by_role("button", name=text, exact=True).click()
        turn = reply(page)
        assert turn.locator(".ending").inner_text() == "Stopped." and turn.locator(".token").count() > 3
        assert page.get_by_role("button", name="Stop").is_hidden()
        page.get_by_role("button", name="New chat").click()


def test_history_is_bounded(page):
    page.evaluate("""async () => {
      const { loadHistory, saveConversation } = await import('/page/history.js');
      for (let index = 0; index < 40; ++index) {
        const messages = [{ role: 'assistant', content: 'x', reply: { text: 'y'.repeat(100_000) } }];
        saveConversation({ id: `${index}`, title: `${index}`, messages });
      }
      window.kept = loadHistory();
    }""")
    kept = page.evaluate("window.kept")
    assert len(kept) == 30 and kept[0]["id"] == "39" and len(json.dumps(kept)) < 1_600_000
    assert "reply" in kept[0]["messages"][0] and "reply" not in kept[-1]["messages"][0], "the oldest lose their rounds first"


SAVE = """async (conversation) => {
  const { saveConversation } = await import('/page/history.js');
  return saveConversation(conversation);
}"""


# What other pages of this address keep: all the room that is left.
FILL = """() => {
  const text = 'x'.repeat(5_200_000);
  for (let length = 5_200_000; length > 100; length = Math.floor(length * 0.99)) {
    try {
      localStorage.setItem(`other${length}`, text.slice(0, length));
    } catch {
      // too long
    }
  }
}"""


def of_length(name, length):
    return {"id": name, "title": name, "messages": [{"role": "user", "content": "x" * length}]}


def test_what_has_no_room_leaves_the_others(page):
    assert page.evaluate(SAVE, of_length("small", 1000))
    assert not page.evaluate(SAVE, of_length("large", 1_600_000))
    assert [one["id"] for one in kept(page)] == ["small"]
    page.evaluate(FILL)
    assert not page.evaluate(SAVE, of_length("unlucky", 100_000))
    assert [one["id"] for one in kept(page)] == ["small"]


def test_rounds_are_given_up_before_thoughts_and_endings(page):
    kept_reply = {
        "text": "So yes", "parts": [{"kind": "thoughts", "start": 0, "end": 3}, {"kind": "answer", "start": 3, "end": 6}],
        "tokens": [{"id": 1, "text": "x" * 200_000, "round": 0, "place": 0, "start": 0, "end": 3}],
        "rounds": [{"draft_tokens": [], "parents": [], "accepted": [], "num_accepted": 0}], "finish": "failed", "failure": "no more",
    }
    for number in range(10):
        messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "yes", "reply": kept_reply}]
        assert page.evaluate(SAVE, {"id": f"{number}", "title": f"{number}", "messages": messages})
    replies = [one["messages"][1]["reply"] for one in kept(page)]
    assert replies[0] == kept_reply and replies[-1] == {**kept_reply, "tokens": [], "rounds": []} and len(replies) == 10
    page.reload()
    page.get_by_role("button", name="0", exact=True).click()
    turn = page.locator(".turn.assistant")
    assert turn.locator(".thoughts div").text_content() == "So " and turn.locator(".answer").inner_text() == "yes"
    assert turn.locator(".ending").inner_text() == "Failed: no more."


def test_no_more_is_given_up_than_there_is_no_room_for(page):
    for number in range(10):
        assert page.evaluate(SAVE, of_length(f"{number}", 100_000))
    page.evaluate(FILL)
    assert page.evaluate(SAVE, of_length("new", 100_000))
    assert [one["id"] for one in kept(page)] == ["new"] + [f"{number}" for number in range(9, 1, -1)]


def test_a_conversation_that_is_not_kept_is_told(page):
    answer_with(page, canned_reply.one_of_each())
    assert page.locator("#not_kept").is_hidden()
    page.evaluate("document.querySelector('#message').value = 'x'.repeat(1_600_000)")
    page.locator("#message").press("Enter")
    reply(page)
    assert page.locator("#not_kept").is_visible() and kept(page) == []
    page.get_by_role("button", name="New chat").click()
    assert page.locator("#not_kept").is_hidden()


def test_a_conversation_that_is_removed_stays_away(page):
    configure(page, max_tokens=1500, temperature=0)
    page.on("dialog", lambda dialog: dialog.accept())
    page.evaluate("""async () => {
      const { ReplyView } = await import('/page/reply_view.js');
      const run = ReplyView.prototype.run;
      window.ended = 0;
      ReplyView.prototype.run = async function (...all) {
        await run.apply(this, all);
        setTimeout(() => ++window.ended);
      };
    }""")
    removals = [lambda: page.get_by_role("button", name=f"Remove “{LONG}”").click(), lambda: page.get_by_role("button", name="Clear history").click()]
    for number, remove in enumerate(removals):
        let_one_reply_run_on(page)
        send(page, LONG)
        page.locator(".turn.assistant .token").nth(3).wait_for()
        assert len(kept(page)) == 1
        remove()
        wait_until(page, f"window.ended === {number + 1}")  # the reply's end has reached the chat, too
        assert kept(page) == [] and page.locator(".turn").count() == 0 and page.locator("#history_box").is_hidden()


def test_a_reply_of_a_conversation_that_had_to_make_room_is_kept(page):
    configure(page, max_tokens=1500, temperature=0)
    let_one_reply_run_on(page)
    send(page, LONG)
    page.locator(".turn.assistant .token").nth(3).wait_for()
    for number in range(30):  # as another tab may do
        page.evaluate(SAVE, of_length(f"{number}", 10))
    assert LONG not in [one["title"] for one in kept(page)]
    page.get_by_role("button", name="Stop").click()
    reply(page)
    wait_until(page, "document.querySelector('#stop').hidden")
    assert [one["title"] for one in kept(page)][:2] == [LONG, "29"] and len(kept(page)[0]["messages"]) == 2


def test_what_waits_in_a_conversation_that_another_tab_removes_is_not_sent(page):
    held = []
    page.route("**/v1/chat/completions", lambda route: held.append(route))
    send(page, "The first")
    send(page, "And then?")
    other = page.context.new_page()
    other.on("dialog", lambda dialog: dialog.accept())
    other.goto(page.url)
    other.get_by_role("button", name="Remove “The first”").click()
    held[0].fulfill(body=canned_reply.one_of_each(), content_type="text/event-stream")
    reply(page, 0)
    wait_until(page, "document.querySelector('#stop').hidden")
    assert kept(page) == [] and page.locator(".turn").count() == 2 and page.locator("#queue li").count() == 0
    assert page.locator("#message").input_value() == "And then?" and page.locator("#not_kept").is_visible()
    # Who goes on with what is on the screen begins another conversation.
    page.unroute("**/v1/chat/completions")
    answer_with(page, canned_reply.one_of_each())
    page.locator("#message").press("Enter")
    reply(page, 1)
    wait_until(page, "document.querySelector('#stop').hidden")
    assert len(held) == 1 and [len(one["messages"]) for one in kept(page)] == [4] and page.locator("#not_kept").is_hidden()


def test_removed_conversations_are_remembered_in_bounded_room(page):
    known = page.evaluate("""async () => {
      const { forgetConversation, isRemoved } = await import('/page/history.js');
      for (let index = 0; index < 150; ++index) forgetConversation(`${index}`);
      const before = ['49', '50', '149'].map((id) => isRemoved({ id }));
      localStorage.setItem('paceline.removed', '{"length": 3}');
      return [...before, isRemoved({ id: '149' })];
    }""")
    assert known == [False, True, True, False]


def test_opening_the_open_conversation_changes_nothing(page):
    configure(page, max_tokens=1500, temperature=0)
    let_one_reply_run_on(page)
    send(page, LONG)
    page.locator(".turn.assistant .token").nth(3).wait_for()
    page.get_by_role("button", name=LONG, exact=True).click()
    assert page.get_by_role("button", name="Stop").is_visible()
    count = page.locator(".turn.assistant .token").count()
    wait_until(page, f"document.querySelectorAll('.turn.assistant .token').length > {count}")
    page.get_by_role("button", name="Stop").click()
    reply(page)
    text = page.locator(".turn.assistant .answer").inner_text()
    page.reload()
    assert page.locator(".turn.assistant .answer").inner_text() == text != ""


def test_two_tabs_lose_nothing_of_each_other(page):
    answer_with(page, canned_reply.one_of_each())
    ask(page, "The first")
    other = page.context.new_page()
    other.goto(page.url)
    other.locator("#served", has_text="context of").wait_for()
    answer_with(other, canned_reply.one_of_each())
    ask(other, "Beside")
    wait_until(page, "localStorage.getItem('paceline.history').includes('Beside')")  # tabs of several processes see it later
    ask(page, "The second")
    wait_until(page, "document.querySelector('#stop').hidden")
    texts = [[message["content"] for message in one["messages"] if message["role"] == "user"] for one in kept(page)]
    assert texts == [["The first", "The second"], ["The first", "Beside"]]
    for tab in (page, other):  # both list both
        tab.locator("#history li").nth(1).wait_for()
        assert tab.locator("#history li").count() == 2 and tab.locator("#history [aria-current]").count() == 1
    ask(page, "The third")
    assert len(kept(page)) == 2
    other.on("dialog", lambda dialog: dialog.accept())
    other.get_by_role("button", name="Remove “The first”").first.click()  # the one of this tab's neighbour is listed first
    page.locator("#history li").nth(1).wait_for(state="detached")
    assert page.locator(".turn.user").count() == 3, "what is on the screen stays there"


def test_the_focus_stays_in_the_history(page):
    answer_with(page, canned_reply.one_of_each())
    for text in ("One", "Two", "Three"):
        ask(page, text)
        page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name="One", exact=True).click()
    label = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
    page.unroute("**/v1/chat/completions")
    held = []
    page.route("**/v1/chat/completions", lambda route: held.append(route))
    with page.expect_request("**/v1/chat/completions"):
        send(page, "More")
    page.get_by_role("button", name="Remove “Two”").focus()
    page.evaluate("window.line = document.activeElement")
    held[0].fulfill(body=canned_reply.one_of_each(), content_type="text/event-stream")
    reply(page, 1)
    wait_until(page, "!window.line.isConnected")  # the list is made again at the end of the reply
    assert page.evaluate(label) == "Remove “Two”"
    questions = []
    page.once("dialog", lambda dialog: (questions.append(dialog.message), dialog.dismiss()))
    page.keyboard.press("Enter")
    assert questions == ["Remove “Two” from this browser?"] and page.locator("#history li").count() == 3
    page.on("dialog", lambda dialog: dialog.accept())
    page.keyboard.press("Enter")
    assert page.locator("#history li").count() == 2 and page.evaluate(label) in ("Remove “One”", "Remove “Three”")


def test_an_empty_reply_still_knows_its_request(page):
    answer_with(page, canned_reply.stream([]))
    ask(page, "Say nothing")
    answer_with(page, canned_reply.one_of_each())
    with page.expect_request("**/v1/chat/completions") as sent:
        ask(page, "And now?")
    asked = [message["content"] for message in json.loads(sent.value.post_data)["messages"]]
    page.reload()
    for number, contents in [(0, ["Say nothing"]), (1, asked)]:
        page.get_by_role("button", name="As code").nth(number).click()
        text = page.locator("#snippet").inner_text()
        assert [one for one in ("Say nothing", "And now?") if one in text] == contents
        page.keyboard.press("Escape")


def test_a_message_without_a_reply_is_not_sent_with_the_next_one(page):
    """Its reply was lost with the browser. Many chat templates refuse two messages of a user in a row."""
    messages = [{"role": "user", "content": "One"}, {"role": "assistant", "content": "1"}, {"role": "user", "content": "Two"}]
    assert page.evaluate(SAVE, {"id": "a", "title": "One", "messages": messages})
    page.reload()
    page.locator("#served", has_text="context of").wait_for()
    answer_with(page, canned_reply.of_text("2"))

    def sent_by(act):
        number = page.locator(".turn.assistant").count()
        with page.expect_request("**/v1/chat/completions") as sent:
            act()
        reply(page, number)
        return [message["content"] for message in sent.value.post_data_json["messages"]]

    assert sent_by(lambda: send(page, "Three")) == ["One", "1", "Three"]
    assert page.evaluate(SAVE, {"id": "b", "title": "One", "messages": messages})
    page.reload()
    page.locator("#served", has_text="context of").wait_for()
    assert sent_by(lambda: page.get_by_role("button", name="Try again").click()) == ["One", "1", "Two"]
    assert sent_by(lambda: send(page, "Three")) == ["One", "1", "Two", "2", "Three"]
    page.reload()
    assert page.locator(".turn.user").count() == 4 and page.get_by_role("button", name="Try again").count() == 0


def test_what_another_version_has_kept_is_shown_as_text(browser, url):
    messages = [{"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "the answer", "sent": {"path": 3}, "reply": {"text": "x", "tokens": [{"place": 3}]}}]
    strange = [{"id": "a", "title": "fine", "messages": messages}, {"id": "b", "title": "no messages", "messages": [3, None]}, None, 7]
    with opened(browser, url) as page:
        page.evaluate("(list) => localStorage.setItem('paceline.history', JSON.stringify(list))", strange)
        page.reload()
        assert page.locator(".turn.assistant .answer").inner_text() == "the answer" and page.locator("#history li").count() == 1
        configure(page, max_tokens=4)
        ask(page, QUESTION)


def test_what_cannot_be_shown_does_not_lock_the_page(page):
    drawn = {"text": "x", "parts": [], "tokens": [], "rounds": [{"draft_tokens": [], "parents": [], "accepted": []}], "usage": {"completion_tokens": 2}, "metrics": {"speed": 3}}
    strange = [{"id": "a", "title": "strange", "messages": [{"role": "assistant", "content": "x", "reply": drawn}]}]
    page.evaluate("(list) => localStorage.setItem('paceline.history', JSON.stringify(list))", strange)
    page.reload()
    page.locator(".welcome").wait_for()
    configure(page, max_tokens=4)
    ask(page, QUESTION)
    assert page.locator("#history li").count() == 2


def test_a_reply_that_cannot_be_drawn_is_kept(browser, url):
    with opened(browser, url, may_fail=True) as page:
        answer_with(page, canned_reply.one_of_each())
        page.evaluate("async () => { (await import('/page/token_text.js')).TokenText.prototype.update = function () { if (this.reply.isDone) throw new Error('drawing'); }; }")
        send(page, "x")
        page.locator("#stop").wait_for(state="hidden")
        wait_until(page, "JSON.parse(localStorage.getItem('paceline.history'))[0].messages.length === 2")
        assert kept(page)[0]["messages"][1]["content"] == "The quick brown fox jumps over the lazy."
