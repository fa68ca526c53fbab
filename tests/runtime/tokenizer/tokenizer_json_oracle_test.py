"""Our reader of tokenizer.json against the Python package it was written for, on random text.

Each case makes a tokenizer.json with other components from a real vocabulary (.cache/tokenizer_vocabularies) and
compares ids, special tokens parsed or not, and decoded text. The last test compares a GGUF file with its tokenizer.json.
"""

import copy
import json
import os
import pathlib

import pytest

from tokenizer_oracle import NUM_TEXTS, SEED, SOURCE, check_against_oracle, random_text, run_tool, seeded, split

gguf = pytest.importorskip("gguf")

from tokenizers import Regex, Tokenizer, decoders, models  # noqa: E402
from tokenizers import normalizers as N  # noqa: E402
from tokenizers import pre_tokenizers as P  # noqa: E402

VOCABULARIES = pathlib.Path(os.environ.get("PACELINE_TOKENIZER_DIR", SOURCE / ".cache/tokenizer_vocabularies"))

pytestmark = pytest.mark.skipif(not VOCABULARIES.is_dir(), reason=f"no vocabularies in {VOCABULARIES}")


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
        if normalizer is not None:  # a sequence is false
            tokenizer.normalizer = normalizer
        if pre is not None:
            tokenizer.pre_tokenizer = pre
        tokenizer.decoder = decoder
        document = json.loads(tokenizer.to_str())
        document["added_tokens"] = self.added_tokens()
        path.write_text(json.dumps(document))
        return path

    def added_tokens(self):
        """The vocabulary's own, a few of each kind turned into what stresses the search, and three beyond it."""
        control, user_defined = (2, 3), 4
        added = [
            {"id": i, "content": token, "single_word": kind == user_defined and i % 11 == 5,
             "lstrip": i % 7 == 3, "rstrip": i % 5 == 4, "normalized": kind == user_defined and i % 2 == 0,
             "special": kind in control}
            for i, (token, kind) in enumerate(zip(self.tokens, self.types)) if kind in control or kind == user_defined]
        beyond = [("<file", False, True), ("w\u00f6rd", True, False), ("\u00e9\u00e8", False, False)]
        return added + [
            {"id": len(self.tokens) + i, "content": content, "single_word": single_word, "lstrip": False, "rstrip": False,
             "normalized": not special, "special": special} for i, (content, single_word, special) in enumerate(beyond)]


def merges_by_score(tokens, types, scores):
    """A SentencePiece vocabulary's merges: every way to put an entry together, best score first."""
    known = set(tokens)
    found = [(-scores[i], token[:at], token[at:]) for i, token in enumerate(tokens) if types[i] == 1
             for at in range(1, len(token)) if token[:at] in known and token[at:] in known]
    return [(left, right) for _, left, right in sorted(found, key=lambda merge: merge[0])]


def shortened(whole, num_tokens):
    """Only the first tokens. The comparison does not need the others, which take long to read."""
    vocabulary = copy.copy(whole)
    vocabulary.tokens, vocabulary.types = vocabulary.tokens[:num_tokens], vocabulary.types[:num_tokens]
    known = set(vocabulary.tokens)
    vocabulary.merges = [merge for merge in vocabulary.merges if {*merge, "".join(merge)} <= known]
    return vocabulary


@pytest.fixture(scope="module")
def whole_byte_level():
    return Vocabulary("starcoder")


@pytest.fixture(scope="module")
def byte_level(whole_byte_level):
    return shortened(whole_byte_level, 12000)


@pytest.fixture(scope="module")
def sentencepiece():
    return Vocabulary("llama-spm")


BYTES = P.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = P.ByteLevel(add_prefix_space=False, use_regex=True)
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
          r"|\s+(?!\S)|\s")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
HANLESS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?" + HANLESS[0] + "*" + HANLESS[1] + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?" + HANLESS[0] + "+" + HANLESS[1] + r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
             r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
BYTE_LEVEL_CASES = {
    "gpt2": (GPT2, None),
    "prefix": (P.ByteLevel(add_prefix_space=True, use_regex=True), None),
    "digits": (P.Sequence([P.Digits(True), GPT2]), N.NFC()),
    "llama3": (P.Sequence([split(LLAMA3), BYTES]), None),
    "qwen2": (P.Sequence([split(QWEN2), BYTES]), N.NFC()),
    "qwen35": (P.Sequence([split(QWEN35), BYTES]), N.NFC()),
    "cl100k": (P.Sequence([split(CL100K, "removed", True), BYTES]), None),
    "o200k": (P.Sequence([split(O200K), BYTES]), N.NFKC()),
    "tekken": (P.Sequence([split(TEKKEN), BYTES]), None),
    "kimi": (P.Sequence([split(KIMI), BYTES]), None),
    "bloom": (P.Sequence([split(BLOOM), BYTES]), None),
    "falcon": (P.Sequence([P.Punctuation("contiguous"), GPT2, P.Digits(False), split("[0-9][0-9][0-9]")]), None),
    "deepseek": (P.Sequence([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(r"\s+$"), P.Digits(True),
                             BYTES]), None),
    "deepseek3": (P.Sequence([split(r"\p{N}{1,3}"), split(r"[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK3), BYTES]), None),
    "lower": (P.Sequence([P.WhitespaceSplit(), P.Punctuation("isolated"), BYTES]),
              N.Sequence([N.NFKD(), N.Lowercase(), N.Strip()])),
    "bert": (P.Sequence([P.BertPreTokenizer(), BYTES]), N.Sequence([N.NFD(), N.StripAccents()])),
    "whitespace": (P.Sequence([P.Whitespace(), BYTES]), N.NFD()),
    "punctuation": (P.Sequence([P.Punctuation("merged_with_previous"), P.Digits(False),
                                P.Punctuation("merged_with_next"), BYTES]), None),
    "delimiter": (P.Sequence([P.CharDelimiterSplit("e"), BYTES]), N.Sequence([N.Replace(Regex(r"\s+"), " "), N.NFC()])),
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
    "never": (P.Metaspace(MARK, "never", False), N.NFKC()),
    "gemma": (P.Split(" ", "merged_with_previous", False), N.Replace(" ", MARK)),
    "pattern": (None, N.Sequence([N.Replace(Regex(r"\s+"), " "), N.Replace(" ", MARK)])),
    # not "first": that asks whether the piece stood first before white space was stripped
    "stripped": (P.Metaspace(MARK, "always", False), N.Sequence([N.Strip(), N.Replace(Regex(" {2,}"), " ")])),
}


def random_texts(path):
    rng = seeded(path.parent.name)
    specials = [token["content"] for token in json.loads(path.read_text())["added_tokens"]]
    return [random_text(rng, specials) for _ in range(NUM_TEXTS)]


@pytest.mark.parametrize("case", BYTE_LEVEL_CASES)
def test_byte_level_files_give_the_same_ids_and_texts(case, byte_level, tmp_path):
    pre, normalizer = BYTE_LEVEL_CASES[case]
    vocab = {token: i for i, token in enumerate(byte_level.tokens)}
    model = models.BPE(vocab, byte_level.merges, ignore_merges=case == "llama3")
    path = byte_level.write(tmp_path / "tokenizer.json", model, pre, normalizer, decoders.ByteLevel())
    check_against_oracle(path, random_texts(path))


@pytest.mark.parametrize("case", SPM_CASES)
def test_sentencepiece_files_give_the_same_ids_and_texts(case, sentencepiece, tmp_path):
    pre, normalizer = SPM_CASES[case]
    vocab = {token: i for i, token in enumerate(sentencepiece.tokens)}
    model = models.BPE(vocab, sentencepiece.merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    path = sentencepiece.write(tmp_path / "tokenizer.json", model, pre, normalizer, SPM_DECODER)
    check_against_oracle(path, random_texts(path))


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_unigram_files_give_the_same_ids_and_texts(byte_fallback, sentencepiece, tmp_path):
    rng = seeded()
    pieces = [(token, -rng.uniform(3, 12)) for token, kind in zip(sentencepiece.tokens, sentencepiece.types)
              if byte_fallback or kind != 6]
    tokenizer = Tokenizer(models.Unigram(pieces, 0, byte_fallback))
    tokenizer.pre_tokenizer = P.Metaspace(MARK, "always", True)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()])
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    check_against_oracle(path, random_texts(path))


def test_a_gguf_file_gives_the_ids_of_its_tokenizer_json(whole_byte_level, tmp_path):
    byte_level = whole_byte_level
    pre, _ = BYTE_LEVEL_CASES["digits"]
    vocab = {token: i for i, token in enumerate(byte_level.tokens)}
    path = byte_level.write(tmp_path / "tokenizer.json", models.BPE(vocab, byte_level.merges), pre, None,
                            decoders.ByteLevel())
    document = json.loads(path.read_text())
    document["added_tokens"] = [{**token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
                                for token in document["added_tokens"][:-3]]
    path.write_text(json.dumps(document))
    rng = seeded("gguf")
    texts = [random_text(rng, byte_level.tokens[:17]) for _ in range(NUM_TEXTS * 25)]
    assert run_tool(path, texts, "--no-special") == run_tool(byte_level.path, texts, "--no-special"), f"seed {SEED}"
