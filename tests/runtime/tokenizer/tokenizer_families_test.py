"""Each family's tokenizer, from GGUF by the name of its pre-tokenizer and from tokenizer.json, against the Python package
with the model's own pattern, normalizer, vocabulary and special tokens.

Where the family's vocabulary is published the ids are those of the model. A vocabulary of bytes and all their pairs shows
where text is cut whatever the vocabulary is. docs/models.md has the table. PACELINE_ORACLE_TEXTS chooses how many random
texts."""

import dataclasses
import functools
import json

import pytest

from rank_vocabulary import divide, merges_of, read_ranks, spell
from tokenizer_json_oracle_test import (BYTES, GPT2, LLAMA3, O200K, QWEN2, QWEN35, SPM_CASES, SPM_DECODER, TEKKEN,
                                        VOCABULARIES, Vocabulary)
from tokenizer_oracle import NUM_TEXTS, SEED, Tokenizer, random_text, run_tool, seeded, split

gguf = pytest.importorskip("gguf")

from tokenizers import AddedToken, decoders, models  # noqa: E402
from tokenizers import normalizers as N  # noqa: E402
from tokenizers import pre_tokenizers as P  # noqa: E402

pytestmark = pytest.mark.skipif(not VOCABULARIES.is_dir(), reason=f"no vocabularies in {VOCABULARIES}")

TEXTS = [
    "", " ", "  ", "\n", "\r\n", "\n\n\n", " \n \n", "\t\ttab", "a  b   c    d\n", "end  ",
    "x \u00a0y\u3000z\u2003\u200b!\u0085", "I'm you're he's we'VE I'LL it'D don'T 'S 's'",
    "it\u2019s ROCK'N'ROLL 's\u017f '\u017f", "1 12 123 1234 12345 1234567890 3.14159 -1e-7 0xFF 1,000,000",
    "\u0663\u0664\u0665 \u0967\u0968\u0969 \u2167 \u00bd\u00b2 \u2460",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca \uc548\ub155\ud558\uc138\uc694 "
    "\u6f22\u5b57kanji\u6f22",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea\u2764\ufe0f",
    "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627 "
    "\u0628\u0650\u0627\u0644\u0652\u0639\u064e\u0627\u0644\u064e\u0645\u0650",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0939\u093f\u0928\u094d\u0926\u0940 \u0915\u094d\u0937",
    "e\u0301t\u00e9 a\u0308 o\u0323\u0302 \u1ec7 e\u0302\u0323 \u212b \u1100\u1161\u11a8",
    "vi\u1ec7c h\u1ee3p nhi\u1ec1u \u0111i\u1ec1u Vi\u1ec7t ngo\u00e0i; edebilmektedir, olmaktad\u0131r",
    "camelCase PascalCase HTTPServer XMLHttpRequest2 \u00c9COLE\u00e9cole \u01c5ez \u02b0a\u02b0 STRASSE",
    "def f(x):\n    return x**2  # a/b\n\n\tif x != y or (not z):\n\t\tprint(f\"{x!r}\\n\")\n",
    "//// ... !!!\n\n?? /*/ <|>|\r\n\r\n=>", "<a href=\"http://x.y/z?a=b&c=%20\">link</a>",
    "snake_case __init__ $var @decorator #tag -- ---\n",
]


@dataclasses.dataclass(frozen=True)
class Family:
    pre: str  # GGUF's name of it
    vocabulary: str
    split: object  # the model's own pre-tokenizer
    normalizer: object = None
    whole_words: bool = False  # a word that is a token is that token, even if no merges make it
    control: tuple = ()
    user_defined: tuple = ()


CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
THOUGHTS_AND_CALLS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
GRANITE = ("<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>")
FAMILIES = {
    "qwen35": Family("qwen35", "qwen2", [split(QWEN35), BYTES], N.NFC(), control=CHATML, user_defined=THOUGHTS_AND_CALLS),
    "qwen3moe": Family("qwen2", "qwen2", [split(QWEN2), BYTES], N.NFC(), control=CHATML, user_defined=THOUGHTS_AND_CALLS),
    "lfm2": Family("lfm2", "llama-bpe", [split(LLAMA3), BYTES], whole_words=True,
                   control=("<|startoftext|>", "<|im_start|>", "<|im_end|>", "<|tool_list_start|>")),
    "smollm3": Family("smaug-bpe", "llama-bpe", [split(LLAMA3), BYTES], whole_words=True,
                      control=("<|im_start|>", "<|im_end|>"), user_defined=THOUGHTS_AND_CALLS),
    "mistral3": Family("tekken", "tekken.json", [split(TEKKEN), BYTES], whole_words=True,
                       control=("<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[THINK]", "[/THINK]")),
    "phi4-mini": Family("gpt-4o", "o200k.ranks.gz", [split(O200K), BYTES],
                        control=("<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>", "<|tool|>", "<|/tool|>")),
    "olmo2 and granite4": Family("dbrx", "cl100k.ranks.gz", [split(LLAMA3), BYTES], control=CHATML + GRANITE),
    "granite3": Family("refact", "starcoder", [P.Digits(True), GPT2], control=GRANITE[:3]),
}


class Plain:
    """A vocabulary without its special tokens: the entries that text can become, and the merges."""

    def __init__(self, name):
        if name.endswith((".gz", ".json")):
            self.bytes = read_ranks(VOCABULARIES / name)
            self.tokens = [spell(token) for token in self.bytes]
            self.merges = [(spell(left), spell(right)) for left, right in merges_of(self.bytes)]
        else:
            whole = Vocabulary(name)
            self.bytes = None
            self.tokens = [token for token, kind in zip(whole.tokens, whole.types) if kind == 1]
            self.merges = whole.merges


plain = functools.lru_cache(maxsize=1)(Plain)


def write_gguf(path, family, tokens, merges):
    added = family.control + family.user_defined
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(family.pre)
    writer.add_token_list(tokens + list(added))
    writer.add_token_types([1] * len(tokens) + [3] * len(family.control) + [4] * len(family.user_defined))
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_eos_token_id(len(tokens))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def write_tokenizer_json(path, family, tokens, merges):
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=family.whole_words))
    tokenizer.pre_tokenizer = P.Sequence(family.split)
    if family.normalizer is not None:
        tokenizer.normalizer = family.normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(content, normalized=False) for content in family.control])
    tokenizer.add_tokens([AddedToken(content, normalized=False) for content in family.user_defined])
    tokenizer.save(str(path), pretty=False)
    return tokenizer


def compare(files, oracle, texts):
    for parsed in (True, False):
        oracle.encode_special_tokens = not parsed
        expected = [oracle.encode(text, add_special_tokens=False).ids for text in texts]
        for file in files:
            ours = run_tool(file, texts, "--no-special", *([] if parsed else ["--plain"]))
            for text, ids, wanted in zip(texts, ours, expected, strict=True):
                assert ids == wanted, (f"{file.name}, seed {SEED}, special tokens {parsed}: {text!a}: "
                                       f"{[oracle.id_to_token(i) for i in ids]} instead of "
                                       f"{[oracle.id_to_token(i) for i in wanted]}")


def by_ranks(known, pre_tokenizer, text):
    """Ids by the list of merges itself, in which a word that is a token is that token."""
    ranks = {token: rank for rank, token in enumerate(known.bytes)}
    words = [word.encode() for word, _ in pre_tokenizer.pre_tokenize_str(text)]
    return [ranks[part] for word in words for part in ([word] if word in ranks else divide(word, ranks))]


def make_files(directory, family, tokens, merges):
    files = directory / "vocabulary.gguf", directory / "tokenizer.json"
    write_gguf(files[0], family, tokens, merges)
    return files, write_tokenizer_json(files[1], family, tokens, merges)


def texts_for(name, specials):
    rng = seeded(name)
    return TEXTS + [random_text(rng, specials) for _ in range(NUM_TEXTS)] + [f"a {x}  b{x}\n{x}\t" for x in specials]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_familys_files_cut_text_where_its_own_pattern_does(name, tmp_path):
    symbols = [spell(bytes([byte])) for byte in range(256)]
    pairs = [(left, right) for left in symbols for right in symbols]
    seeded(name).shuffle(pairs)
    tokens = symbols + [left + right for left, right in pairs]
    family = FAMILIES[name]
    files, oracle = make_files(tmp_path, family, tokens, pairs)
    compare(files, oracle, texts_for(name, family.control + family.user_defined))


@pytest.mark.parametrize("name", sorted(FAMILIES, key=lambda name: FAMILIES[name].vocabulary))
def test_a_familys_files_give_the_ids_of_its_own_tokenizer(name, tmp_path):
    family = FAMILIES[name]
    known = plain(family.vocabulary)
    files, oracle = make_files(tmp_path, family, known.tokens, known.merges)
    compare(files, oracle, texts_for(name, family.control + family.user_defined))
    if known.bytes:
        for text in TEXTS:
            assert oracle.encode(text).ids == by_ranks(known, family.split[0], text), ascii(text)


def test_phi3s_files_give_the_ids_of_its_own_tokenizer(tmp_path):
    """SentencePiece with special tokens that include the spaces after them. The GGUF files do not say this."""
    phi3 = Vocabulary("phi-3")
    vocab = {token: i for i, token in enumerate(phi3.tokens)}
    model = models.BPE(vocab, phi3.merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    pre, normalizer = SPM_CASES["legacy"]
    path = phi3.write(tmp_path / "tokenizer.json", model, pre, normalizer, SPM_DECODER)
    document = json.loads(path.read_text())
    document["added_tokens"] = [
        {"id": i, "content": token, "single_word": False, "lstrip": False, "normalized": False,
         "rstrip": token not in ("<unk>", "<s>", "<|endoftext|>"), "special": kind in (2, 3)}
        for i, (token, kind) in enumerate(zip(phi3.tokens, phi3.types)) if kind in (2, 3, 4)]
    path.write_text(json.dumps(document))
    specials = [token["content"] for token in document["added_tokens"]]
    texts = texts_for("phi3", specials)
    compare([phi3.path, path], Tokenizer.from_file(str(path)), texts)
