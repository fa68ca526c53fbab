#!/usr/bin/env python3
"""Takes the pictures of docs/page.md: tools/page_pictures.py http://127.0.0.1:8080 [folder]

Needs a daemon with an instruct model that can edit code, such as Qwen2.5-Coder, and drafter ngram with `candidates: 3`, which drafts trees; Debian's
chromium; playwright and Pillow (.cache/venv/bin/pip install pillow). Pictures have at most 256 colours, so that they stay small.
"""
import pathlib
import shutil
import sys

from PIL import Image
from playwright.sync_api import sync_playwright

FILE = '''import json


class Inventory:
    """Items by name, with their number and price."""

    def __init__(self):
        self.items = {}

    def add(self, name, count, price):
        if name in self.items:
            self.items[name]["count"] += count
        else:
            self.items[name] = {"count": count, "price": price}

    def remove(self, name, count):
        item = self.items[name]
        item["count"] -= count
        if item["count"] <= 0:
            del self.items[name]

    def total(self):
        return sum(item["count"] * item["price"] for item in self.items.values())

    def save(self, path):
        with open(path, "w") as file:
            json.dump(self.items, file)
'''
CODE = "Write a Python class Stack with push, pop, peek and is_empty. Then write a class Queue in the same style."
PROSE = "List six proverbs about patience. Then list them again in reverse order."
SIZE = {"width": 1280, "height": 980}


class Pictures:
    def __init__(self, browser, url, folder):
        self.browser, self.url, self.folder = browser, url, folder

    def open(self, **options):
        page = self.browser.new_context(**{"viewport": SIZE} | options).new_page()
        page.set_default_timeout(180_000)
        page.goto(self.url)
        page.locator("#served", has_text="context of").wait_for()
        page.evaluate("document.getElementById('settings_box').open = true")
        for name, value in {"temperature": "0", "max_tokens": "400"}.items():
            page.locator(f"#settings [name={name}]").fill(value)
        return page

    def take(self, page, name):
        page.wait_for_timeout(300)
        path = self.folder / f"{name}.png"
        page.screenshot(path=path)
        Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)
        print(path, path.stat().st_size)

    def chat(self, name, question=CODE, drafter="", **options):
        page = self.open(**options)
        page.locator("#settings [name=drafter]").select_option(drafter)
        page.locator("#settings [name=max_tokens]").fill("260")
        page.evaluate("document.getElementById('settings_box').open = innerWidth > 1120")
        page.locator("#message").fill(question)
        page.locator("#send").click()
        page.get_by_role("button", name="As code").wait_for()
        # The last token that was recovered next to other branches; if there is none, the last one that was recovered.
        recovered = page.locator(".text .token.recovered")
        for number in reversed(range(recovered.count())):
            recovered.nth(number).hover()
            if page.locator("#tip s").count() > 1:
                break
        self.take(page, name)

    def edit_and_race(self):
        page = self.open()
        page.locator("#tab_edit").click()
        page.locator("#file").fill(FILE)
        page.locator("#change").fill("Rename the method total to value and let it round the result to two digits.")
        page.get_by_role("button", name="Edit the file").click()
        page.locator("#predicted", has_text="tokens").wait_for()
        accepted = page.locator(".text .token.accepted")
        accepted.nth(accepted.count() // 3).hover()
        self.take(page, "page_edit")
        page.get_by_role("button", name="Race this edit").click()
        page.mouse.move(0, 0)  # away from tokens that appear
        page.locator("#race_result strong").wait_for()
        self.take(page, "page_race")


def main():
    url = sys.argv[1]
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent / "docs/images")
    folder.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        pictures = Pictures(driver.chromium.launch(executable_path=shutil.which("chromium")), url, folder)
        pictures.chat("page_light", drafter="ngram", color_scheme="light")
        pictures.chat("page_dark", color_scheme="dark")
        pictures.chat("page_phone", question=PROSE, viewport={"width": 390, "height": 844}, has_touch=True)
        pictures.edit_and_race()


if __name__ == "__main__":
    main()
