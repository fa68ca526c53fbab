"""The page at /: a model's text as Markdown, and never as anything that runs."""
import canned_reply
from chromium_page import answer_with, ask, needs_page

pytest_plugins = ["chromium_page"]  # its fixtures
pytestmark = needs_page


def test_markdown_is_rendered_and_loses_no_text(page):
    answer_with(page, canned_reply.of_text(canned_reply.MARKDOWN))
    answer = ask(page, "x").locator(".answer")
    count = {name: answer.locator(name).count() for name in ("h4 em", "strong", "del", "p code", "ul ul", "ol li", "blockquote strong", "td", "pre code", "hr")}
    assert count == {"h4 em": 1, "strong": 2, "del": 1, "p code": 1 + 1, "ul ul": 1, "ol li": 2, "blockquote strong": 1, "td": 3, "pre code": 1, "hr": 1}
    assert answer.locator("pre code").inner_text() == "def f(x):  # <b>not markup</b>\n    return x * 2"
    assert answer.locator("a").get_attribute("href") == "https://example.com/x"
    text = answer.inner_text()
    for line in ["A title", "Text with bold, stress, gone, code and a link.", "Second  line with snake_case_name and 2 * 3 * 4.", "continued", "quoted text", "The end."]:
        assert line in text, line
    page.get_by_role("button", name="Show source").click()
    assert page.locator(".turn.assistant .answer").evaluate("node => node.textContent") == canned_reply.MARKDOWN.replace("§", "")


ATTACKS = [
    "<script>window.ran = 1</script>", "<img src=x onerror=window.ran=1>", "[x](javascript:window.ran=1)", "[x](data:text/html,<script>1</script>)",
    "![x](http://127.0.0.1:9/pixel.png)", "<a href='javascript:window.ran=1'>x</a>", "[x](JaVaScRiPt:window.ran=1)", "[x](//127.0.0.1:9/)",
    "[x](java\tscript:window.ran=1)", "`<svg onload=window.ran=1>`", "| <img src=x onerror=window.ran=1> | x |\n| - | - |\n| <b>x</b> | y |",
    "```<img src=x>\n<style>*{display:none}</style>\n```", "[![x](javascript:1)](javascript:1)", "<javascript:window.ran=1>", "[[[[[[[[[[[[" * 40, "*a_`~~[" * 400,
    ">" * 300 + " deep", "- " * 200 + "deep", "$(`'\"", "\u202eabc", "&lt;b&gt;",
]


def test_a_models_text_is_never_markup(page):
    answer_with(page, canned_reply.of_text("\n\n".join(ATTACKS)))
    answer = ask(page, "<img src=x onerror=window.ran=1>").locator(".answer")
    names = set(answer.evaluate("node => [...node.querySelectorAll('*')].map((one) => one.localName)"))
    assert names <= {"p", "span", "a", "code", "pre", "div", "table", "thead", "tbody", "tr", "th", "td", "button", "strong", "em", "del", "ul", "li",
                     "blockquote", "s"}, names
    addresses = answer.evaluate("node => [...node.querySelectorAll('a')].map((one) => one.href)")
    assert set(addresses) <= {"http://127.0.0.1:9/pixel.png"}, addresses
    attributes = set(answer.evaluate("node => [...node.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"))
    assert not [name for name in attributes if name.startswith("on") or name in {"src", "style", "srcdoc"}]
    assert page.evaluate("window.ran") is None
    assert page.locator(".turn.user .text").inner_text() == "<img src=x onerror=window.ran=1>"
