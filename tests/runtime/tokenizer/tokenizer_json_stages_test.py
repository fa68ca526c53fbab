"""Single stages of tokenizer.json against the Python package: every character, and random patterns.

The vocabulary is the 256 bytes, so ids say what text reaches the model; merges of random pairs of them say where it is
cut. PACELINE_ORACLE_PATTERNS chooses how many random patterns."""


import os

import pytest

from tokenizer_oracle import (NUM_TEXTS, SEED, Regex, Tokenizer, is_known, random_text, run_tool, seeded, split, try_tool)

from tokenizers import models  # noqa: E402
from tokenizers import normalizers as N  # noqa: E402
from tokenizers import pre_tokenizers as P  # noqa: E402

NUM_PATTERNS = int(os.environ.get("PACELINE_ORACLE_PATTERNS", "150"))
BYTES = P.ByteLevel(add_prefix_space=False, use_regex=False)
ALPHABET = sorted(P.ByteLevel.alphabet())


def write(path, pre=None, normalizer=None, merges=()):
    vocab = {symbol: i for i, symbol in enumerate(ALPHABET)}
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    tokenizer = Tokenizer(models.BPE(vocab, list(merges)))
    tokenizer.pre_tokenizer = P.Sequence([pre, BYTES] if pre is not None else [BYTES])
    if normalizer is not None:  # a sequence is false
        tokenizer.normalizer = normalizer
    path.write_text(tokenizer.to_str())
    return tokenizer


def spelt(tokenizer, ids):
    return "".join(tokenizer.id_to_token(i) for i in ids)


def check(path, tokenizer, texts, why=""):
    for text, ids in zip(texts, run_tool(path, texts), strict=True):
        expected = tokenizer.encode(text).ids
        assert ids == expected, (f"seed {SEED}{why}: {text!a}: {spelt(tokenizer, ids)!a} instead of "
                                 f"{spelt(tokenizer, expected)!a}")


def every_character():
    """Blocks of text with every character by itself, between letters and under a mark, but for most of the ideographs
    and syllables, which are alike."""
    alike = [range(0x3500, 0x4D00), range(0x4F00, 0x9F00), range(0xAD00, 0xD700), range(0x17100, 0x18700),
             range(0x18900, 0x18C00), range(0x20100, 0x30000), range(0x30010, 0x110000)]
    known = [chr(c) for c in range(0x20, 0x110000) if not any(c in part for part in alike) and is_known(c)]
    blocks = [known[i:i + 128] for i in range(0, len(known), 128)]
    return [" ".join(f"a{c}b" for c in block) + "".join(f"e{c}\u0323\u0345" for c in block) for block in blocks]


EVERYTHING = every_character()
CLASSES = [r"\w", r"\s", r"\d", r"\h", r"\p{L}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{M}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}",
           r"\p{Lo}", r"\p{Z}", r"\p{C}", r"\p{Han}", r"\p{Hiragana}", r"\p{Cyrillic}", r"\p{Letter}", r"\p{Other_Punctuation}",
           r"\p{Alphabetic}", r"\p{^Greek}", r"\P{L}", r"[[:alpha:]]", r"[[:punct:]]", r"[[:upper:]]", r"[[:^alnum:]]", r"[^\W_]",
           r"[\S&&\P{L}]", r"[\p{L}&&[^\p{Han}a-c]]", r"\b.", r"\B.", r"(?i:[ks'])"]


@pytest.mark.parametrize("pattern", CLASSES)
def test_a_class_has_the_same_members(pattern, tmp_path):
    check(tmp_path / "t.json", write(tmp_path / "t.json", split(pattern, "removed")), EVERYTHING)


MARKED = P.Metaspace("|", "always", False)  # the mark shows where pieces begin
PRE_TOKENIZERS = {
    "whitespace": P.Whitespace(), "whitespace_split": P.WhitespaceSplit(), "bert": P.BertPreTokenizer(),
    "punctuation": P.Punctuation("isolated"), "punctuation_removed": P.Punctuation("removed"),
    "digits": P.Digits(False), "digit": P.Digits(True), "byte_level": P.ByteLevel(False, use_regex=True),
}


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_a_pre_tokenizer_cuts_alike_at_every_character(name, tmp_path):
    check(tmp_path / "t.json", write(tmp_path / "t.json", P.Sequence([PRE_TOKENIZERS[name], MARKED])), EVERYTHING)


NORMALIZERS = {
    "nfc": N.NFC(), "nfd": N.NFD(), "nfkc": N.NFKC(), "nfkd": N.NFKD(), "lowercase": N.Lowercase(),
    "accents": N.StripAccents(), "strip": N.Strip(), "strip_left": N.Strip(True, False),
    "unaccented": N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]),
    "replace": N.Replace("a", "bb"), "replace_pattern": N.Replace(Regex(r"\s+"), " "),
    "prepend": N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")]),
    "mixed": N.Sequence([N.NFKC(), N.Replace(Regex("[\u2018\u2019]"), "'"), N.Strip(), N.Prepend(" "), N.NFC()]),
}


@pytest.mark.parametrize("name", NORMALIZERS)
def test_a_normalizer_writes_the_same(name, tmp_path):
    rng = seeded(name)
    texts = EVERYTHING + [random_text(rng) for _ in range(NUM_TEXTS)] + ["", " ", "\n a \t", "e\u0323\u0301\u0323"]
    check(tmp_path / "t.json", write(tmp_path / "t.json", None, NORMALIZERS[name]), texts)


LETTERS = "abAB1 \n'.é一_½"
ATOMS = ["a", "b", "A", "1", " ", "'", "é", "一", ".", r"\n", r"\s", r"\S", r"\w", r"\W", r"\d", r"\D", r"\h", r"\p{L}", r"\p{Lu}",
         r"\P{L}", r"\p{^N}", r"\p{Han}", "[ab]", "[^ab]", "[a-c&&[^b]]", r"[^\s\p{L}]", r"[\S\n]", r"[^\W_]", "[[:upper:]1]", r"\u0061",
         r"[\p{L}&&\p{Ll}]", "[^a&&b]", "[]a]", "[b^]", r"\x20", r"\x{e9}"]
SUFFIXES = ["", "", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,2}", "{2,}", "{,2}", "{1,2}?", "{2}?", "{1,3}+",
            "{1,2}+"]
BORDERS = [r"\b", r"\B", "^", "$", "(?=a)", "(?!a)", r"(?<=\s)", r"(?<!\w)", r"(?=\d)", r"(?!\S)", "(?<=b)"]


def expected_ids(tokenizer, text):
    """None where the package panics."""
    try:
        return tokenizer.encode(text).ids
    except BaseException as met:  # noqa: BLE001 its panics are no exceptions
        if type(met).__name__ != "PanicException":
            raise
        return None


def random_pattern(rng, depth=0):
    def term():
        kind = rng.random()
        if kind < 0.72 or depth > 2:
            return rng.choice(ATOMS) + rng.choice(SUFFIXES)
        if kind < 0.85:
            return rng.choice(BORDERS)
        if kind < 0.88:  # properties without regard to case are the engines' own affair
            return "(?i:" + "".join(rng.choice(["a", "B", "'", "é", "[ab]"]) for _ in range(2)) + ")" + rng.choice(SUFFIXES)
        opening = rng.choice(["(?:", "(", "(?>"])
        inner = random_pattern(rng, depth + 1)
        # Engines differ in what a loop over nothing does: what is repeated begins with a character.
        return opening + inner + ")" + rng.choice(["", "?"]) if rng.random() < 0.6 else \
            opening + rng.choice("abA1") + "(?:" + inner + "))" + rng.choice(SUFFIXES)

    return "|".join("".join(term() for _ in range(rng.randrange(1, 4))) for _ in range(rng.choice([1, 1, 2, 3])))


def test_random_patterns_cut_alike(tmp_path):
    rng = seeded("patterns")
    path = tmp_path / "t.json"
    (written,) = (spelling for spelling in [P.ByteLevel(False, use_regex=False).pre_tokenize_str(LETTERS)[0][0]])
    pairs = [(left, right) for left in set(written) for right in set(written)]
    pairs.sort()
    refused = []
    for _ in range(NUM_PATTERNS):
        pattern = random_pattern(rng)
        behavior = rng.choice(["isolated", "isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"])
        rng.shuffle(pairs)
        try:
            tokenizer = write(path, split(pattern, behavior, rng.random() < 0.2), merges=pairs)
        except Exception:  # noqa: BLE001 the package refuses the pattern
            continue
        texts = ["".join(rng.choice(LETTERS) for _ in range(rng.randrange(1, 14))) for _ in range(30)]
        ours, refusal = try_tool(path, texts)
        if refusal is not None:
            refused.append(f"{pattern}: {refusal}")
            continue
        for text, ids in zip(texts, ours, strict=True):
            expected = expected_ids(tokenizer, text)
            assert expected is None or ids == expected, (f"seed {SEED}, pattern {pattern!a}, {behavior}: {text!a}: "
                                     f"{[tokenizer.id_to_token(i) for i in ids]} instead of "
                                     f"{[tokenizer.id_to_token(i) for i in expected]}")
    assert len(refused) <= NUM_PATTERNS // 50, "\n".join(refused)
