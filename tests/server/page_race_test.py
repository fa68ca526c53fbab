"""The page at /: races."""
import json
import re

import canned_reply
from chromium_page import QUESTION, answer_with, configure, needs_page, send, wait_until, write, write_replies_by_hand

pytest_plugins = ["chromium_page"]  # its fixtures
pytestmark = needs_page


def test_a_race_ends_with_the_same_tokens(page):
    configure(page, max_tokens=60, temperature=0.8)
    page.locator("#tab_race").click()
    page.locator("#race_prompt").fill(QUESTION)
    sent = []
    page.on("request", lambda request: sent.append(json.loads(request.post_data)) if request.method == "POST" else None)
    page.get_by_role("button", name="Race", exact=True).click()
    page.locator("#race_result strong").wait_for(timeout=60_000)
    result = page.locator("#race_result").inner_text()
    found = re.match(r"identical: (\d+) of (\d+) tokens; [\d.]+ times as fast \([\d.]+ s plain, [\d.]+ s speculative; seed (\d+)", result)
    assert found and found[1] == found[2] != "0", result
    plain, fast = sent
    assert plain["speculation"] == {"drafter": "none"} and "speculation" not in fast and plain["seed"] == fast["seed"] == int(found[3])
    assert plain["cache_salt"] != fast["cache_salt"], "neither finds what the other has computed"
    lanes = [page.locator(f"#{name}") for name in ("lane_plain", "lane_fast")]
    texts = [lane.locator(".race_text").inner_text() for lane in lanes]
    assert texts[0] == texts[1] != ""
    assert [lane.locator(".count").inner_text() for lane in lanes] == [f"{found[1]} tokens"] * 2
    assert lanes[0].locator(".token.accepted").count() == 0
    page.get_by_role("button", name="Replay").click()
    assert float(lanes[0].locator(".clock").inner_text().split()[0]) < 1
    page.locator("#race_result strong").wait_for(timeout=60_000)


def test_a_race_finds_a_difference(page):
    compare = """async () => {
      const { verdict } = await import('/page/race.js');
      const of = (ids) => ({ tokens: ids.map((id) => ({ id })) });
      return [[[1, 2, 3], [1, 2, 3]], [[1, 2, 3], [1, 5, 3]], [[1, 2], [1, 2, 3]]].map(([a, b]) => verdict(of(a), of(b)));
    }"""
    assert page.evaluate(compare) == ["identical: 3 of 3 tokens", "different: the first 1 of 3 tokens are identical",
                                      "different: the first 2 of 3 tokens are identical"]


def test_nothing_else_is_sent_while_a_race_runs(page):
    write_replies_by_hand(page)
    num_sent = "window.streams.length"
    result, predicted = page.locator("#race_result"), page.locator("#predicted")
    whole = canned_reply.one_of_each()
    send(page, "The first")
    page.locator("#tab_race").click()
    page.get_by_role("button", name="Race", exact=True).click()
    assert result.inner_text() == "A reply still arrives: the race can begin when it is complete."
    page.locator("#tab_edit").click()
    page.locator("#file").fill("x")
    page.locator("#change").fill("y")
    page.get_by_role("button", name="Race this edit").click()
    assert predicted.inner_text() == "A reply still arrives: the race can begin when it is complete." and page.locator("#view_edit").is_visible()
    assert page.evaluate(num_sent) == 1
    write(page, whole)
    wait_until(page, "document.querySelector('#stop').hidden")
    page.get_by_role("button", name="Race this edit").click()
    page.locator("#race_stop").wait_for()
    page.locator("#tab_edit").click()
    page.get_by_role("button", name="Race this edit").click()
    assert predicted.inner_text() == "A race runs: the next one can begin when it is over."
    page.get_by_role("button", name="Edit the file").click()
    assert predicted.inner_text() == "A race runs: the edit can begin when it is over."
    page.locator("#tab_chat").click()
    send(page, "The second")
    assert page.locator("#queue li span").all_inner_texts() == ["Waiting:", "The second"]
    write(page, whole)
    wait_until(page, f"{num_sent} === 3")
    write(page, whole)
    wait_until(page, f"{num_sent} === 4")
    assert page.locator(".turn.user .text").all_inner_texts() == ["The first", "The second"] and page.locator("#queue li").count() == 0
    page.locator("#tab_race").click()
    page.locator("#race_result strong").wait_for()
    assert result.inner_text().startswith("identical: 9 of 9 tokens")
    assert page.locator("#panel_name").inner_text() == "Race, speculative: prediction"
    page.locator("#tab_chat").click()
    write(page, whole)
    wait_until(page, "document.querySelector('#stop').hidden")
    assert page.evaluate(num_sent) == 4


def test_what_the_server_cancels_is_not_what_the_reader_stops(page):
    cancelled = canned_reply.of_text("a§b").replace('"finish_reason": "stop"', '"finish_reason": "abort"')
    write_replies_by_hand(page)
    send(page, "The first")
    send(page, "The second")
    write(page, cancelled)
    wait_until(page, "document.querySelector('#stop').hidden")
    assert page.locator(".ending").inner_text() == "Cancelled by the server."
    assert page.locator("#message").input_value() == "The second" and page.locator("#queue li").count() == 0
    assert page.evaluate("window.streams.length") == 1, "the server may have no time for the next one, either"
    page.locator("#tab_race").click()
    page.get_by_role("button", name="Race", exact=True).click()
    wait_until(page, "window.streams.length === 2")
    write(page, cancelled)
    page.locator("#race_stop").wait_for(state="hidden")
    assert page.locator("#race_result").inner_text() == "Cancelled by the server."


def test_an_edit_that_still_arrives_says_so(page):
    write_replies_by_hand(page)
    page.locator("#tab_edit").click()
    page.locator("#file").fill("x")
    page.locator("#change").fill("y")
    page.get_by_role("button", name="Edit the file").click()
    page.locator("#change").press("Enter")
    assert page.locator("#predicted").inner_text() == "The file still arrives: Stop ends it."
    assert page.evaluate("window.streams.length") == 1


# Each token comes 20 ms after the one before.
SLOWLY = """async () => {
  const { Reply } = await import('/page/reply.js');
  const { take } = Reply.prototype;
  Reply.prototype.take = function (chunk) { take.call(this, chunk, 20 * this.tokens.length); };
}"""


def test_a_replay_does_not_fight_the_reader(page):
    page.set_viewport_size({"width": 1400, "height": 500})
    answer_with(page, canned_reply.of_text("§".join(f"line {number}\n" for number in range(200))))
    page.evaluate(SLOWLY)
    page.locator("#tab_race").click()
    page.get_by_role("button", name="Race", exact=True).click()
    plain, fast = page.locator("#lane_plain .race_text"), page.locator("#lane_fast .race_text")
    below = "(node) => node.scrollHeight - node.clientHeight - node.scrollTop"
    wait_until(page, "document.querySelector('#lane_plain .race_text').scrollTop > 300")
    plain.evaluate("(node) => { node.scrollTop = 100; }")
    page.locator("#race_result strong").wait_for()
    assert plain.evaluate("(node) => node.scrollTop") == 100 and fast.evaluate(below) < 30


def test_both_requests_of_a_race_are_shown_as_code(page):
    answer_with(page, canned_reply.one_of_each())
    configure(page, drafter="ngram")
    page.locator("#tab_race").click()
    page.get_by_role("button", name="Race", exact=True).click()
    page.locator("#race_result strong").wait_for()
    for lane, drafter in [("#lane_plain", "none"), ("#lane_fast", "ngram")]:
        page.locator(lane).get_by_role("button", name="As code").click()
        body = json.loads(re.search(r"<<'EOF'\n(.*)\nEOF$", page.locator("#snippet").inner_text().strip(), re.DOTALL)[1])
        assert body["speculation"]["drafter"] == drafter and body["cache_salt"].startswith("race-")
        page.keyboard.press("Escape")
