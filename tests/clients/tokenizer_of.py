"""The tokenizer in a GGUF file as a folder that transformers reads, for load generators that count tokens themselves."""
import json
import pathlib

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITTERS = {
    "smollm": [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)],
    "qwen2": [pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)],
}


def write_tokenizer(model: pathlib.Path, folder: pathlib.Path):
    """Byte-level BPE of the two models that deploy/clients.sh is meant for."""
    fields = gguf.GGUFReader(model).fields
    value = lambda name: fields[f"tokenizer.{name}"].contents()
    tokens, kinds = value("ggml.tokens"), value("ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in value("ggml.merges")]
    made = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(SPLITTERS[value("ggml.pre")])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token, kind in zip(tokens, kinds) if kind == gguf.TokenType.CONTROL])
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": tokens[value("ggml.eos_token_id")], "chat_template": value("chat_template")}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
