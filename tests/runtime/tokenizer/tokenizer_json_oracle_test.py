"""Our reader of tokenizer.json against the Python package it was written for, on random text.

Each case makes a tokenizer.json with other components from a real vocabulary (.cache/tokenizer_vocabularies) and
compares ids, special tokens parsed or not, and decoded text. The last test compares a GGUF file with its tokenizer.json.
"""

import json
import os
import pathlib
import random
import subprocess
import unicodedata

import pytest

gguf = pytest.importorskip("gguf")
tokenizers = pytest.importorskip("tokenizers")

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: E402

SOURCE = pathlib.Path(os.environ.get("PACELINE_SOURCE_DIR", pathlib.Path(__file__).parents[3]))
TOOL = pathlib.Path(os.environ.get("PACELINE_BINARY_DIR", SOURCE / "build/release")) / "bin/tokenize_lines"
VOCABULARIES = pathlib.Path(os.environ.get("PACELINE_TOKENIZER_DIR", SOURCE / ".cache/tokenizer_vocabularies"))
SEED = 20240611
NUM_TEXTS = int(os.environ.get("PACELINE_ORACLE_TEXTS", "400"))

pytestmark = pytest.mark.skipif(not VOCABULARIES.is_dir(), reason=f"no vocabularies in {VOCABULARIES}")

ALPHABETS = ["abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789",
             "   \n\n\t\r\u00a0\u3000\u2003\u0085\u1680", "'\"!?.,;:-_()[]{}<>/\\|@#$%^&*+=~`", "éèàñÜßçøÉÀØΩ",
             "привет мир ДОМ", "你好世界一龥々〇", "こんにちはカタカナー", "안녕하세요", "नमस्ते हिन्दी", "ភាសាខ្មែរ",
             "عربي ٣٤٥", "½²Ⅷ٣௧", "😀🚀👨\u200d👩\u200d👧🇩🇪", "e\u0301a\u0308\u200d\ufeff\u00ad"]
WORDS = ["the", " The", "don't", "I'LL", " hello", "HelloWorld", "foo_bar", "1234567", "3.14", "http://x.y/z?a=b", "  ",
         "\n\n\n", " \n ", "\t\t", "'s", "'RE", "<s>", "</s>", "def f(x):\n    return x**2\n", "ĠĠ", "▁▁", "<0x0A>",
         "...", "ÉCOLEécole", "camelCaseXMLParser"]


def random_character(rng):
    if rng.random() < 0.85:
        return rng.choice(rng.choice(ALPHABETS))
    while True:
        code = rng.randrange(0x20, 0x1F9FF)
        # What a Unicode version does not know yet, another may.
        if unicodedata.category(chr(code)) not in ("Cn", "Cs"):
            return chr(code)


def random_text(rng, specials):
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


def run_tool(vocabulary, lines, *options):
    text = "\n".join(json.dumps(line) for line in lines) + "\n"
    done = subprocess.run([TOOL, vocabulary, *options], input=text.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode().rstrip("\n").split("\n")]


class Vocabulary:
    def __init__(self, name):
        self.path = VOCABULARIES / f"ggml-vocab-{name}.gguf"
        fields = gguf.GGUFReader(self.path).fields
        self.tokens = fields["tokenizer.ggml.tokens"].contents()
        self.types = fields["tokenizer.ggml.token_type"].contents()
        if "tokenizer.ggml.merges" in fields:
            self.merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
        else:
            self.merges = merges_by_score(self.tokens, self.types, fields["tokenizer.ggml.scores"].contents())

    def write(self, path, model, pre, normalizer, decoder):
        tokenizer = Tokenizer(model)
        if normalizer:
            tokenizer.normalizer = normalizer
        if pre:
            tokenizer.pre_tokenizer = pre
        tokenizer.decoder = decoder
        document = json.loads(tokenizer.to_str())
        control, user_defined = (2, 3), 4
        document["added_tokens"] = [
            {"id": i, "content": token, "single_word": False, "lstrip": kind == user_defined and i % 7 == 3,
             "rstrip": kind == user_defined and i % 5 == 4, "normalized": kind == user_defined and i % 2 == 0,
             "special": kind in control}
            for i, (token, kind) in enumerate(zip(self.tokens, self.types)) if kind in control or kind == user_defined]
        path.write_text(json.dumps(document))
        return path


def merges_by_score(tokens, types, scores):
    """A SentencePiece vocabulary's merges: every way to put an entry together, best score first."""
    known = set(tokens)
    found = [(-scores[i], token[:at], token[at:]) for i, token in enumerate(tokens) if types[i] == 1
             for at in range(1, len(token)) if token[:at] in known and token[at:] in known]
    return [(left, right) for _, left, right in sorted(found, key=lambda merge: merge[0])]


@pytest.fixture(scope="module")
def byte_level():
    return Vocabulary("starcoder")


@pytest.fixture(scope="module")
def sentencepiece():
    return Vocabulary("llama-spm")


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
N, P = normalizers, pre_tokenizers
BYTE_LEVEL_CASES = {
    "gpt2": (GPT2, None),
    "prefix": (P.ByteLevel(add_prefix_space=True, use_regex=True), None),
    "digits": (P.Sequence([P.Digits(True), GPT2]), N.NFC()),
    "llama3": (P.Sequence([split(LLAMA3), BYTES]), None),
    "o200k": (P.Sequence([split(O200K), BYTES]), N.NFKC()),
    "falcon": (P.Sequence([P.Punctuation("contiguous"), GPT2, P.Digits(False), split("[0-9][0-9][0-9]")]), None),
    "deepseek": (P.Sequence([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(r"\s+$"), P.Digits(True),
                             BYTES]), None),
    "lower": (P.Sequence([P.WhitespaceSplit(), P.Punctuation("isolated"), BYTES]),
              N.Sequence([N.NFKD(), N.Lowercase(), N.Strip()])),
    "whitespace": (P.Sequence([P.Whitespace(), BYTES]), N.NFD()),
    "merged": (P.Sequence([split("[aeiou]", "merged_with_previous"), split(" ", "merged_with_next"),
                           split("[0-9]", "contiguous"), BYTES]), None),
    "inverted": (P.Sequence([split(r"\w+", "removed", True), BYTES]), None),
    "borders": (P.Sequence([P.Split(" ", "removed", False), split("(?=[A-Z])"), BYTES]), None),
    "groups": (P.Sequence([split(r"\d{1,3}(?=(?:\d{3})*\b)"), GPT2]), None),
}
MARK = "\u2581"
SPM_DECODER = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(),
                                 decoders.Strip(" ", 1, 0)])
SPM_CASES = {
    "legacy": (None, N.Sequence([N.Prepend(MARK), N.Replace(" ", MARK)])),
    "first": (P.Metaspace(MARK, "first", False), None),
    "always": (P.Metaspace(MARK, "always", True), None),
    "pattern": (None, N.Sequence([N.Replace(Regex(r"\s+"), " "), N.Replace(" ", MARK)])),
}


def check_against_oracle(path):
    oracle = Tokenizer.from_file(str(path))
    rng = random.Random(SEED)
    specials = [token["content"] for token in json.loads(path.read_text())["added_tokens"]]
    texts = [random_text(rng, specials) for _ in range(NUM_TEXTS)]
    for plain in (False, True):
        oracle.encode_special_tokens = plain
        ours = run_tool(path, texts, *(["--plain"] if plain else []))
        for text, ids in zip(texts, ours):
            assert ids == oracle.encode(text).ids, f"seed {SEED}, plain {plain}: {text!a}"
    for ids, text in zip(ours, run_tool(path, ours, "--decode")):
        assert text == oracle.decode(ids), f"seed {SEED}: {ids}"


@pytest.mark.parametrize("case", BYTE_LEVEL_CASES)
def test_byte_level_files_give_the_same_ids_and_texts(case, byte_level, tmp_path):
    pre, normalizer = BYTE_LEVEL_CASES[case]
    vocab = {token: i for i, token in enumerate(byte_level.tokens)}
    model = models.BPE(vocab, byte_level.merges, ignore_merges=case == "llama3")
    check_against_oracle(byte_level.write(tmp_path / "tokenizer.json", model, pre, normalizer, decoders.ByteLevel()))


@pytest.mark.parametrize("case", SPM_CASES)
def test_sentencepiece_files_give_the_same_ids_and_texts(case, sentencepiece, tmp_path):
    pre, normalizer = SPM_CASES[case]
    vocab = {token: i for i, token in enumerate(sentencepiece.tokens)}
    model = models.BPE(vocab, sentencepiece.merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    check_against_oracle(sentencepiece.write(tmp_path / "tokenizer.json", model, pre, normalizer, SPM_DECODER))


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_unigram_files_give_the_same_ids_and_texts(byte_fallback, sentencepiece, tmp_path):
    rng = random.Random(SEED)
    pieces = [(token, -rng.uniform(3, 12)) for token, kind in zip(sentencepiece.tokens, sentencepiece.types)
              if byte_fallback or kind != 6]
    tokenizer = Tokenizer(models.Unigram(pieces, 0, byte_fallback))
    tokenizer.pre_tokenizer = P.Metaspace(MARK, "always", True)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()])
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    check_against_oracle(path)


def test_a_gguf_file_gives_the_ids_of_its_tokenizer_json(byte_level, tmp_path):
    pre, _ = BYTE_LEVEL_CASES["digits"]
    vocab = {token: i for i, token in enumerate(byte_level.tokens)}
    path = byte_level.write(tmp_path / "tokenizer.json", models.BPE(vocab, byte_level.merges), pre, None,
                            decoders.ByteLevel())
    rng = random.Random(SEED + 1)
    texts = [random_text(rng, byte_level.tokens[:17]) for _ in range(NUM_TEXTS * 25)]
    assert run_tool(path, texts, "--no-special") == run_tool(byte_level.path, texts, "--no-special"), f"seed {SEED + 1}"
