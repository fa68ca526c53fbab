"""Vocabularies published as tokens in the order of their merges (.cache/tokenizer_vocabularies), and how their own
tokenizers divide a word: the two neighbours that make the first token of the list, until none do."""

import base64
import gzip
import json

NUM_TEKKEN_TOKENS = 131072 - 1000  # of the published list; the model's other 1000 are special tokens


def read_ranks(path):
    """Bytes of each token, in order."""
    if path.suffix == ".json":
        return [base64.b64decode(entry["token_bytes"])
                for entry in json.loads(path.read_text())["vocab"][:NUM_TEKKEN_TOKENS]]
    with gzip.open(path, "rt", encoding="ascii") as file:
        lines = [line.split() for line in file]
    assert [int(rank) for _, rank in lines] == list(range(len(lines)))
    return [base64.b64decode(token) for token, _ in lines]


def divide(word, ranks, below=None):
    """The tokens of `word`, by merges to tokens whose rank is less than `below`."""
    parts = [word[i:i + 1] for i in range(len(word))]
    while True:
        joined = [(ranks[left + right], at) for at, (left, right) in enumerate(zip(parts, parts[1:]))
                  if left + right in ranks]
        rank, at = min(joined, default=(None, 0))
        if rank is None or (below is not None and rank >= below):
            return parts
        parts[at:at + 2] = [parts[at] + parts[at + 1]]


def merges_of(tokens):
    """The last merge that makes each token, in order; a tokenizer that knows these only has the same words."""
    ranks = {token: rank for rank, token in enumerate(tokens)}
    merges = [divide(token, ranks, rank) for rank, token in enumerate(tokens) if len(token) > 1]
    assert all(len(merge) == 2 for merge in merges)
    return merges


def byte_spelling():
    """The character that stands for each byte in byte-level vocabularies: its own where it is visible."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    return {**{byte: chr(byte) for byte in visible}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


SPELT = byte_spelling()


def spell(token):
    return "".join(SPELT[byte] for byte in token)
