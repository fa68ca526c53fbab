"""The page at /: tokens, rounds and predictions."""
import json
import re

import pytest

import canned_reply
from chromium_page import answer_with, ask, begin_canned, configure, logged, needs_page, reply, send, wait_until, write, write_replies_by_hand

pytest_plugins = ["chromium_page"]  # its fixtures
pytestmark = needs_page


def test_tokens_tell_where_they_come_from(page):
    answer_with(page, canned_reply.one_of_each())
    turn = ask(page, "x")
    tokens = [(node.inner_text(), node.get_attribute("class").split()[1]) for node in turn.locator(".token").all()]
    assert tokens == [("The", "plain"), (" quick", "accepted"), (" brown", "accepted"), (" fox", "bonus"), (" jumps", "recovered"),
                      (" over", "accepted"), (" the", "accepted"), (" lazy", "bonus"), (".", "plain")]
    lines = [node.evaluate("n => getComputedStyle(n).textDecorationLine + ' ' + getComputedStyle(n).textDecorationStyle")
             for node in [turn.locator(f".token.{kind}").first for kind in ("plain", "accepted", "recovered", "bonus")]]
    assert lines == ["underline dotted", "underline solid", "underline wavy", "underline double"], "told without colours"
    turn.locator(".token.recovered").hover()
    tip = page.locator("#tip")
    assert "Round 3, drafter ngram, at draft position 1 of 2" in tip.inner_text()
    assert tip.locator("s").all_inner_texts() == ["␣sleeps"]
    turn.locator(".token.accepted").nth(2).focus()
    assert "Round 4, drafter suffix, draft position 1 of 2" in tip.inner_text() and tip.locator("s").all_inner_texts() == ["␣under"]
    tree = page.locator("svg.tree")
    assert tree.get_attribute("aria-label") == (
        "Draft tree of 4 tokens. Accepted: “␣over” “␣the”. Rejected: “␣under” “␣a”. The model’s own token: “␣lazy”.")
    nodes = {node.locator("text").text_content(): [float(node.locator("rect").get_attribute(side)) for side in ("x", "y")] for node in tree.locator(".node").all()}
    path = [nodes[text] for text in ("text so far", "␣over", "␣the", "␣lazy")]
    assert len({x for x, _ in path}) == 1 and [y for _, y in path] == sorted(y for _, y in path), "what was committed goes straight down"
    assert nodes["␣under"][1] == nodes["␣over"][1] and nodes["␣a"][1] == nodes["␣the"][1], "beside what was rejected"
    assert len({tuple(place) for place in nodes.values()}) == 6
    assert tree.locator(".node.accepted").count() == 2 and tree.locator(".node.rejected").count() == 2
    assert page.locator(".legend").inner_text().split() == ["Plain", "2", "Accepted", "4", "Recovered", "1", "Bonus", "2"]
    assert page.locator(".why").inner_text() == "drafts were rejected."


PLACES = """async (chunks) => {
  const { Reply } = await import('/page/reply.js');
  const reply = new Reply();
  for (const { round, ids, ...delta } of chunks) {
    const rounds = [{ draft_tokens: [], parents: [], accepted: [], num_accepted: 0, bonus: false, ...round }];
    reply.take({ choices: [{ delta, token_ids: ids, paceline: { rounds } }] }, 1);
  }
  reply.end('stop');
  return [reply.tokens.map(({ start, end }) => reply.text.slice(start, end)), reply.answer];
}"""


def spelled(text, **delta):
    return {"round": {"tokens": [1], "token_texts": [text]}, **delta}


def together(texts, content):
    """One round of several tokens."""
    return {"round": {"tokens": [1] * len(texts), "token_texts": texts}, "content": content}


@pytest.mark.parametrize("chunks, texts", [
    # A character of two tokens is shown with the second one.
    ([spelled("Hi", content="Hi"), spelled("bytes:\\xf0\\x9f"), spelled("bytes:\\x98\\x80", content="😀"), spelled("!", content="!")], ["Hi", "", "😀", "!"]),
    # However many of them there are in a row, in a chunk each or in one chunk.
    ([*[spelled("bytes:\\xf0\\x9f"), spelled("bytes:\\x98\\x80", content="😀")] * 30, spelled("!", content="!")], ["", "😀"] * 30 + ["!"]),
    ([together(["bytes:\\xe4\\xb8", "bytes:\\xad"] * 30 + ["!"], "中" * 30 + "!")], ["", "中"] * 30 + ["!"]),
    # A token with the end of a character and the beginning of the next one.
    ([together(["a", "bytes:\\x62\\xf0\\x9f", "bytes:\\x98\\x80\\xe4", "bytes:\\xb8\\xad", "c"], "ab😀中c")], ["a", "b", "😀", "中", "c"]),
    # A character that is never completed.
    ([spelled("bytes:\\xf0\\x9f"), spelled("a", content="\ufffda"), spelled("b", content="b")], ["", "\ufffda", "b"]),
    # The text of the first token is without its blank.
    ([spelled(" Hi", content="Hi"), spelled(" you", content=" you")], ["Hi", " you"]),
    # Marks of thoughts, and the end token, have no text.
    ([spelled("<think>"), spelled("\n"), spelled("So", reasoning_content="So"), spelled("</think>"), spelled("Yes", content="Yes"), spelled("<|im_end|>")],
     ["", "", "So", "", "Yes", ""]),
    # Text that may be a stop string comes later.
    ([spelled("a", content="a"), spelled("b"), spelled("c", content="bc")], ["a", "b", "c"]),
    ([spelled("a", content="a"), spelled("STOP")], ["a", ""]),
    # A server that tells no texts: those of the draft, and what is left.
    ([{"round": {"draft_tokens": [5, 6], "draft_texts": [" x", " y"], "parents": [-1, 0], "accepted": [0], "num_accepted": 1}, "ids": [5, 9], "content": " x z"}],
     [" x", " z"]),
    ([{"ids": [5], "content": " x"}], [" x"]),
])
def test_tokens_find_their_text(page, chunks, texts):
    found, answer = page.evaluate(PLACES, chunks)
    assert found == texts and answer in "".join(texts)


def test_a_long_reply_takes_no_longer_for_each_token(page):
    """Cutting the whole text for every chunk would take minutes."""
    long = """async () => {
      const { Reply } = await import('/page/reply.js');
      const reply = new Reply();
      const round = { draft_tokens: [], parents: [], accepted: [], num_accepted: 0, bonus: false, tokens: [1] };
      for (let index = 0; index < 400_000; ++index) {
        const text = ` ${index}`;
        reply.take({ choices: [{ delta: { content: text }, paceline: { rounds: [{ ...round, token_texts: [text] }] } }] }, 1);
      }
      const last = reply.tokens.at(-1);
      console.log(reply.text.slice(last.start, last.end));
    }"""
    assert logged(page, long) == " 399999"


def test_text_without_tokens_does_not_lose_those_behind_it(page):
    texts = [f" {number}" for number in range(1200)]
    silent = {"ids": [], "content": "x 7" * 40}
    chunks = [spelled("a", content="a"), *[silent] * 40, *[spelled(text, content=text) for text in texts]]
    found, answer = page.evaluate(PLACES, [{**chunk, "round": chunk.get("round", {"tokens": []})} for chunk in chunks])
    assert answer == "a" + "x 7" * 1600 + "".join(texts) and found == ["a", *texts]


def test_a_token_that_is_spelled_otherwise_costs_one_chunk_its_marks(page):
    """Its text is longer than what a token is searched for."""
    found, _ = page.evaluate(PLACES, [spelled("a", content="a"), spelled("other", content="y" * 40), spelled("b", content="b"), spelled("c", content="c")])
    assert found == ["a", "", "b", "c"]


def test_a_reply_of_many_rounds_is_shown(page):
    many = """async () => {
      const { Panel } = await import('/page/panel.js');
      const { Reply } = await import('/page/reply.js');
      const rounds = Array.from({ length: 130_000 }, (_, index) => (
        { draft_tokens: [], parents: [], accepted: [], num_accepted: 0, bonus: false, start_us: index, end_us: index + 1 }));
      const box = document.createElement('div');
      new Panel(box).show({ reply: Object.assign(new Reply(), { rounds }), element: box }, true);
      console.log(box.querySelector('.figures').textContent);
    }"""
    assert "rounds130000" in logged(page, many)


def test_rounds_without_a_length_are_drawn(page):
    none = """async () => {
      const { Strip } = await import('/page/strip.js');
      const strip = new Strip(() => {});
      strip.show([{ draft_tokens: [], parents: [], accepted: [], num_accepted: 0, start_us: 0, end_us: 0 }]);
      console.log(strip.element.querySelectorAll('.round').length);
    }"""
    assert logged(page, none) == "1"


def test_rounds_are_drawn_to_scale(page):
    answer_with(page, canned_reply.one_of_each())
    ask(page, "x")
    bars = {kind: [(float(bar.get_attribute("x")), float(bar.get_attribute("width"))) for bar in page.locator(f".strip rect.{kind}").all()]
            for kind in ("draft", "verify")}
    assert len(bars["verify"]) == 5 and len(bars["draft"]) == 3
    starts = [x for x, _ in bars["verify"]]
    steps = [b - a for a, b in zip(starts, starts[1:])]
    assert max(steps) - min(steps) < 0.01 * steps[0], "rounds begin every 20 ms"
    assert all(abs(width + 0.5 - 0.95 * steps[0]) < 0.05 for _, width in bars["verify"]), "and verify for 19 of them"
    first = page.locator(".round").first
    first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(":focus").get_attribute("aria-label") == "Round 2: 2 tokens drafted by ngram in 900 µs, verified in 19.0 ms, 2 accepted"
    assert page.locator(".detail h3").inner_text() == "Round 2"
    page.get_by_role("button", name="Show less time").click()
    wider = float(page.locator(".strip rect.verify").nth(1).get_attribute("x")) - float(page.locator(".strip rect.verify").first.get_attribute("x"))
    assert wider > 1.9 * steps[0]


def test_a_round_stays_chosen_while_others_are_drawn_below_the_pointer(page):
    write_replies_by_hand(page)
    send(page, "x")
    # Without an explanation, which would move the rounds down at the end.
    rest = begin_canned(page, canned_reply.stream([canned_reply.plain("word ")] * 24, explanation=""), 13)
    page.wait_for_timeout(250)  # the panel is drawn less often than the text
    write(page, rest.pop(0))
    wait_until(page, "document.querySelectorAll('.round').length === 13")
    page.locator('.round[data-round="5"] .verify').hover()
    chosen = "document.querySelector('.round.selected').dataset.round"
    assert page.evaluate(chosen) == "5" and page.locator(".detail h3").inner_text() == "Round 6"
    write(page, "".join(rest))
    reply(page)
    assert page.locator(".round").count() == 24
    page.wait_for_timeout(300)  # a browser tells later that something else is below the pointer
    assert page.evaluate(chosen) == "5" and page.locator(".detail h3").inner_text() == "Round 6"


def test_what_is_pointed_at_is_not_scrolled_away(page):
    answer_with(page, canned_reply.of_text("§".join(["word "] * 40)))
    ask(page, "x")
    for _ in range(2):
        page.get_by_role("button", name="Show less time").click()
    strip = page.locator(".strip")
    strip.evaluate("(node) => { node.scrollLeft = 200; }")
    page.locator('.round[data-round="8"] .verify').hover()
    there = strip.evaluate("(node) => node.scrollLeft")
    page.locator('.round[data-round="7"] .verify').hover()
    assert page.locator(".detail h3").inner_text() == "Round 8" and strip.evaluate("(node) => node.scrollLeft") == there
    page.locator(".turn.assistant .token").nth(35).hover()  # a round out of view
    assert strip.evaluate("(node) => node.scrollLeft") > there


def test_ticks_have_the_digits_that_tell_them_apart(page):
    ticks = """async ([zoom, end_us]) => {
      const { Strip } = await import('/page/strip.js');
      const strip = Object.assign(new Strip(() => {}), { zoom });
      strip.show([{ draft_tokens: [], parents: [], accepted: [], num_accepted: 0, start_us: 0, end_us }]);
      return [...strip.element.querySelectorAll('text.axis')].slice(0, -2).map((text) => text.textContent);
    }"""
    close = page.evaluate(ticks, [128, 1_200_000])
    assert len(set(close)) == len(close) > 200 and {"0 µs", "5 ms", "995 ms", "1.000 s", "1.005 s"} <= set(close)
    assert page.evaluate(ticks, [1, 2_000_000]) == ["0 µs", "1 s"]
    assert page.evaluate(ticks, [2, 2_000_000])[:3] == ["0 µs", "500 ms", "1.0 s"]


def test_a_shorter_reply_has_a_stop_of_tab_among_its_rounds(page):
    answer_with(page, canned_reply.one_of_each())
    ask(page, "x")
    page.locator(".round").last.focus()
    page.locator("#message").focus()
    answer_with(page, canned_reply.of_text("one"))
    ask(page, "y")
    assert page.locator(".round").count() == 1 and page.locator('.round[tabindex="0"]').count() == 1
    assert "tokens a second" not in page.locator(".figures").inner_text(), "one token has no speed"
    page.locator(".turn.assistant").first.get_by_role("button", name="Speculation").click()
    assert page.locator('.round[tabindex="0"]').count() == 1
    assert "tokens a second" in page.locator(".figures").inner_text()


def test_a_tip_can_be_pointed_at_and_goes_with_its_token(page):
    page.set_viewport_size({"width": 1400, "height": 420})
    answer_with(page, canned_reply.of_text("\n\n§".join(["one§ two"] * 40)))
    ask(page, "x")
    tip = page.locator("#tip")
    page.locator("#log_scroll").evaluate("(node) => node.scrollTo(0, node.scrollHeight / 2)")
    token = page.locator(".turn.assistant .token").nth(40)
    token.hover()
    place = tip.bounding_box()
    page.mouse.move(place["x"] + 20, place["y"] + 20, steps=10)
    page.wait_for_timeout(400)
    assert tip.is_visible() and "Token 41 of" in tip.inner_text()
    page.mouse.move(5, 5)
    tip.wait_for(state="hidden")
    token.focus()
    between = "document.querySelector('#tip').getBoundingClientRect().top - document.activeElement.getBoundingClientRect().bottom"
    before = page.evaluate(between)
    page.locator("#log_scroll").evaluate("(node) => { node.scrollTop += 30; }")
    page.wait_for_timeout(100)
    assert tip.is_visible() and abs(page.evaluate(between) - before) < 1
    page.locator("#log_scroll").evaluate("(node) => { node.scrollTop = 0; }")
    tip.wait_for(state="hidden")


def test_the_panel_says_which_reply_it_shows(page):
    name, shown = page.locator("#panel_name"), page.locator(".shown")
    empty = page.get_by_text("Figures, rounds and drafts of a reply appear here.")
    assert name.inner_text() == "" and empty.is_visible()
    answer_with(page, canned_reply.one_of_each())
    ask(page, "x")
    ask(page, "y")
    assert name.inner_text() == "Chat, reply 2" and shown.count() == 1
    page.locator(".turn.assistant").first.locator(".token").first.hover()
    assert name.inner_text() == "Chat, reply 1"
    assert page.locator(".turn.assistant").first.locator(".shown").count() == 1 == shown.count()
    page.locator("#tab_edit").click()
    assert name.inner_text() == "" and empty.is_visible(), "no edit has run"
    page.locator("#file").fill("x")
    page.locator("#change").fill("y")
    page.get_by_role("button", name="Edit the file").click()
    page.get_by_role("button", name="Put into the box").wait_for()
    assert name.inner_text() == "Edit of the file"
    page.locator("#tab_race").click()
    page.get_by_role("button", name="Race", exact=True).click()
    page.locator("#race_result strong").wait_for()
    assert name.inner_text() == "Race, speculative"
    page.locator("#lane_plain .token").first.hover()
    assert name.inner_text() == "Race, plain" and page.locator("#lane_plain.shown").count() == 1
    page.locator("#tab_chat").click()
    assert name.inner_text() == "Chat, reply 1"
    page.get_by_role("button", name="New chat").click()
    assert name.inner_text() == "" and empty.is_visible() and shown.count() == 0


def test_an_edit_predicts_the_old_file(page):
    file = "def total(prices):\n    result = 0\n    for price in prices:\n        result += price\n    return result\n"
    configure(page, max_tokens=80, temperature=0)
    page.locator("#tab_edit").click()
    page.locator("#file").fill(file)
    page.locator("#change").fill("Repeat the file as it is.")
    with page.expect_request(lambda request: request.method == "POST") as sent:
        page.get_by_role("button", name="Edit the file").click()
    body = json.loads(sent.value.post_data)
    assert body["prediction"] == {"type": "content", "content": file} and file.strip() in body["messages"][-1]["content"]
    page.locator("#predicted", has_text="tokens").wait_for()
    used = re.match(r"(\d+) of (\d+) tokens were copied from the old file; (\d+) of (\d+) draft tokens were accepted\.",
                    page.locator("#predicted").inner_text())
    assert used and used[1] == used[3] and int(used[3]) <= int(used[4]), page.locator("#predicted").inner_text()
    assert body["speculation"] == {"drafter": "prediction"}
    page.get_by_role("button", name="Put into the box").click()
    assert page.locator("#file").input_value() != file
    page.get_by_role("button", name="Take it back").click()
    assert page.locator("#file").input_value() == file


@pytest.mark.parametrize("file, answer, found", [
    ("a\n", "Here:\n```py\na\n```\nDone.", "a\n"),
    ("a\n", "a\n", "a\n"),
    ("a\n", "```\na\n", "a\n"),  # cut off
    # The model took the fence that it was given.
    ("```\na\n```\n", "````md\n```\nb\n```\n````\nI changed `a`:\n```\nb\n```\n", "```\nb\n```\n"),
    ("````\na\n````\n", "`````\n````\nb\n````\n`````", "````\nb\n````\n"),
    # It took a shorter one.
    ("# x\n```sh\nls\n```\nend\n", "```md\n# y\n```sh\nls\n```\nend\n```\n", "# y\n```sh\nls\n```\nend\n"),
    # The change added a block.
    ("# x\n", "```md\n# x\n```sh\nls\n```\nend\n```", "# x\n```sh\nls\n```\nend\n"),
    ("a ``` b\n", "````\na ``` c\n````", "a ``` c\n"),
    # The reply has other blocks, too.
    ("code\n", "Here:\n```py\ncode()\n```\nRun it with:\n```sh\npython a.py\n```\nBye", "code()\n"),
    ("# x\n```sh\nls\n```\n", "```md\n# y\n```sh\nls\n```\n```\nRun:\n```sh\nls\n```\n", "# y\n```sh\nls\n```\n"),
    # Bare blocks of the file look like the end of the reply's.
    ("# x\n```\nls\n```\nend\n", "```md\n# y\n```\nls\n```\nend\n```\n", "# y\n```\nls\n```\nend\n"),
    # Nothing closes the block: the last line that may do so.
    ("# x\n", "```md\n# x\n```sh\nls\n```\nend", "# x\n```sh\nls\n"),
])
def test_an_edited_file_is_taken_whole(page, file, answer, found):
    take = """async ([file, answer]) => {
      const { editOf, fileIn } = await import('/page/edit.js');
      return [fileIn(answer, file), editOf(file, 'Change it.').messages[0].content];
    }"""
    taken, asked = page.evaluate(take, [file, answer])
    assert taken == found
    fence = re.search(r"\n(`+)$", asked)[1]
    assert asked == f"Change it.\n\n{fence}\n{file}{fence}" and fence not in file


def test_the_old_file_is_used_where_it_is_right(page):
    """A real model's tokens, with its own text as the prediction."""
    configure(page, max_tokens=40, temperature=0)
    text = ask(page, "Write a sentence about the sea.").locator(".answer").inner_text()
    page.route("**/v1/chat/completions", lambda route: route.continue_(
        post_data=json.dumps(json.loads(route.request.post_data) | {"prediction": {"type": "content", "content": text},
                                                                    "speculation": {"drafter": "prediction"}})))
    page.get_by_role("button", name="New chat").click()
    turn = ask(page, "Write a sentence about the sea.")
    assert turn.locator(".answer").inner_text() == text
    assert turn.locator(".token.accepted").count() > 20
    turn.locator(".token.accepted").nth(10).hover()
    assert "drafter prediction" in page.locator("#tip").inner_text()
