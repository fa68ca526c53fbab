"""What the comparisons with the Python package `tokenizers` share: random text, our tool, the check itself.

PACELINE_ORACLE_SEED and PACELINE_ORACLE_TEXTS choose which texts and how many."""

import json
import os
import pathlib
import random
import subprocess
import unicodedata

import pytest

tokenizers = pytest.importorskip("tokenizers")

from tokenizers import Regex, Tokenizer, pre_tokenizers  # noqa: E402

SOURCE = pathlib.Path(os.environ.get("PACELINE_SOURCE_DIR", pathlib.Path(__file__).parents[3]))
TOOL = pathlib.Path(os.environ.get("PACELINE_BINARY_DIR", SOURCE / "build/release")) / "bin/tokenize_lines"
SEED = int(os.environ.get("PACELINE_ORACLE_SEED", "20240611"))
NUM_TEXTS = int(os.environ.get("PACELINE_ORACLE_TEXTS", "150"))

ALPHABETS = ["abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789",
             "   \n\n\t\r\u00a0\u3000\u2003\u0085\u1680\u180e\u200b\x0b\x0c", "'\"!?.,;:-_()[]{}<>/\\|@#$%^&*+=~`",
             "éèàñÜßçøÉÀØΩ", "привет мир ДОМ", "你好世界一龥々〇", "こんにちはカタカナー", "안녕하세요", "नमस्ते हिन्दी", "ភាសាខ្មែរ",
             "عربي ٣٤٥", "½²Ⅷ٣௧", "😀🚀👨\u200d👩\u200d👧🇩🇪", "e\u0301a\u0308\u0323\u200d\ufeff\u00ad", "ǅİıſKÅﬁ①ｱﾞ가가"]
WORDS = ["the", " The", "don't", "I'LL", " hello", "HelloWorld", "foo_bar", "1234567", "3.14", "http://x.y/z?a=b", "  ",
         "\n\n\n", " \n ", "\t\t", "'s", "'RE", "'ſ", "<s>", "</s>", "def f(x):\n    return x**2\n", "ĠĠ", "▁▁", "<0x0A>",
         "...", "ÉCOLEécole", "camelCaseXMLParser"]


def is_known(code):
    """True if the character is assigned. Other versions of Unicode may have characters that this one does not have."""
    return unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")


def random_character(rng):
    if rng.random() < 0.85:
        return rng.choice(rng.choice(ALPHABETS))
    while True:
        code = rng.randrange(0x20, 0x1F9FF)
        if is_known(code):
            return chr(code)


def random_text(rng, specials=()):
    parts = []
    for _ in range(rng.randrange(1, 20)):
        kind = rng.random()
        if kind < 0.35:
            parts.append(rng.choice(WORDS))
        elif kind < 0.45 and specials:
            parts.append(rng.choice(specials))
        elif kind < 0.7:
            alphabet = rng.choice(ALPHABETS)
            parts.append("".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 9))))
        else:
            parts.append("".join(random_character(rng) for _ in range(rng.randrange(1, 6))))
    return "".join(parts)


def try_tool(vocabulary, lines, *options):
    """(the tool's answers, None) or (None, why it cannot read the vocabulary)."""
    text = "\n".join(json.dumps(line) for line in lines) + "\n"
    done = subprocess.run([TOOL, vocabulary, *options], input=text.encode(), capture_output=True, check=False)
    if done.returncode == 1:
        return None, done.stderr.decode()
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode().rstrip("\n").split("\n")], None


def run_tool(vocabulary, lines, *options):
    answers, refusal = try_tool(vocabulary, lines, *options)
    assert refusal is None, refusal
    return answers


def check_against_oracle(path, texts):
    """Ids with special tokens parsed and not, and the text of the latter."""
    oracle = Tokenizer.from_file(str(path))
    for plain in (False, True):
        oracle.encode_special_tokens = plain
        ours = run_tool(path, texts, *(["--plain"] if plain else []))
        for text, ids in zip(texts, ours, strict=True):
            assert ids == oracle.encode(text).ids, f"seed {SEED}, plain {plain}: {text!a}"
    for ids, text in zip(ours, run_tool(path, ours, "--decode"), strict=True):
        assert text == oracle.decode(ids), f"seed {SEED}: {ids}"


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def seeded(salt=""):
    return random.Random(f"{SEED}{salt}")
