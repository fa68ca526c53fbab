#!/usr/bin/env python3
"""Log-probabilities of small random models of every architecture against a reference in PyTorch.

    tests/e2e/architecture_parity.py --dump build/release/bin/logit_dump [--transformers] [--converter llama.cpp/convert_hf_to_gguf.py] [--seed N]

The models are those of architecture_cases.py, with float32 weights and KV cells. A text of 240 tokens is computed in passes of 24 rows and
of one row. Its length exceeds every window, except in phi3-whole-heads, which has a window longer than the text. The reference is
training/reference/targets.py, or with --transformers the model class of that library, which also saves the files that are read. With
--converter the GGUF file that llama.cpp's script makes of them is read instead. Exit code 1 if the mean difference exceeds 1e-4, or that
of a row 1e-3, or if the rows of a pass change a bit.
"""
import argparse
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from architecture_cases import CASES, NOT_CONVERTED  # noqa: E402
from training.reference import made_targets, targets  # noqa: E402

BOUND = 1e-4
NUM_TOKENS = 240
VISION = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}


def dumped(dump, model, tokens, rows, folder):
    """Logits [n, V] of a pass of so many rows after the other."""
    (folder / "tokens").write_bytes(struct.pack(f"<{len(tokens)}i", *tokens))
    subprocess.run([dump, model, folder / "tokens", str(rows), folder / "out"], check=True)
    return torch.frombuffer(bytearray((folder / "out").read_bytes()), dtype=torch.float32).view(len(tokens), -1)


def put_beside_vision(folder, packs):
    """Makes a saved model the language model of one that sees: gemma3 in the published form, or packed in the newer one, ministral3 in the former, qwen35 in the latter;
    all with a tensor of the vision part."""
    text = json.loads((folder / "config.json").read_text())
    config = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "mm_tokens_per_image": 4, "text_config": text,
              "vision_config": {"model_type": "siglip_vision_model"} | VISION}
    if text["model_type"] == "qwen3_5_text":
        packs = True
        config = {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": text,
                  "vision_config": {"model_type": "qwen3_5_vision", "depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 64}}
    if text["model_type"] == "ministral3":
        config = {"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"], "text_config": text, "tie_word_embeddings": False,
                  "vision_config": {"model_type": "pixtral", "head_dim": 8} | VISION}
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(folder / "model.safetensors")
    nested = {("language_model." + name if not packs else name.replace("model.", "model.language_model.", 1)): weight for name, weight in weights.items()}
    nested[("model." if packs else "") + "vision_tower.vision_model.embeddings.patch_embedding.weight"] = torch.zeros(16, 3, 14, 14)
    save_file(nested, folder / "model.safetensors", {"format": "pt"})


def saved_by_transformers(target, folder, sees, packs):
    """The target's weights as that library saves them, and its logits."""
    import transformers

    target.save(folder / "ours")
    if sees:
        put_beside_vision(folder / "ours", packs)
    kind = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(folder / "ours", dtype=torch.float32, attn_implementation="eager").eval()
    model.save_pretrained(folder / "theirs", **({"save_original_format": False} if packs else {}))
    return folder / "theirs", model


# The converter knows vocabularies by a hash of what they make of a text, and these are of no published model.
CONVERT = """
import json, runpy, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/gguf-py"]
import conversion.base as base
def vocabulary(self):
    words = list(json.loads((self.dir_model / "tokenizer.json").read_text())["model"]["vocab"])
    return words, [1] * len(words), "gpt-2"
base.TextModel.get_vocab_base = vocabulary
base.TextModel._set_vocab_sentencepiece = base.TextModel._set_vocab_gpt2
sys.argv = ["convert_hf_to_gguf.py", *sys.argv[2:]]
runpy.run_path(sys.path[0] + "/convert_hf_to_gguf.py", run_name="__main__")
"""


def converted(converter, model, folder):
    """The GGUF file of a saved directory."""
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "t1\u0120", "bos_token": "t0\u0120"}
    config = json.loads((model / "config.json").read_text())
    if config["model_type"] == "phi3":  # of others of its family it wants a SentencePiece model
        tokenizer["tokenizer_class"] = "GPT2Tokenizer"
    (model / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    targets.save_tokenizer(model, config.get("text_config", config)["vocab_size"])
    vocabulary = json.loads((model / "tokenizer.json").read_text()) | {"added_tokens": []}
    words = list(vocabulary["model"]["vocab"])[:-1] + ["t0\u0120t1\u0120"]  # a GGUF file needs a merge
    vocabulary["model"] |= {"vocab": {word: token for token, word in enumerate(words)}, "merges": [["t0\u0120", "t1\u0120"]]}
    (model / "tokenizer.json").write_text(json.dumps(vocabulary))
    no_module = ["--no-mtp"] if config.get("text_config", config)["model_type"].startswith(("qwen3_5", "qwen3_next")) else []
    done = subprocess.run([sys.executable, "-c", CONVERT, Path(converter).resolve().parent, model, "--outtype", "f32", "--outfile", folder / "model.gguf", *no_module],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-4000:])
    return folder / "model.gguf"


def difference(name, arguments, folder):
    """The mean difference of log-probability, that of the worst row, and whether one row at a time gives the same bits."""
    model_type, changes = CASES[name]
    shape = made_targets.shape_of(model_type, **changes)
    target = made_targets.random_target(shape, arguments.seed)
    tokens = torch.randint(0, shape.vocab_size, (NUM_TOKENS,), generator=torch.Generator().manual_seed(arguments.seed)).tolist()
    packs = name.endswith("packed")
    sees = "with-vision" in name
    if arguments.transformers:
        model, reference = saved_by_transformers(target, folder, sees, packs)
        with torch.no_grad():
            expected = reference(torch.tensor([tokens])).logits[0]
    else:
        model = folder / "model"
        target.save(model, packs and not sees)
        if sees:
            put_beside_vision(model, packs)
        expected = target.forward(tokens).logits
    if arguments.converter:
        model = converted(arguments.converter, Path(model), folder)
    found = dumped(arguments.dump, model, tokens, 24, folder)
    same = torch.equal(found, dumped(arguments.dump, model, tokens, 1, folder))
    by_row = (found.log_softmax(-1) - expected.float().log_softmax(-1)).abs().mean(-1)
    return by_row.mean().item(), by_row.max().item(), same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", required=True)
    parser.add_argument("--transformers", action="store_true")
    parser.add_argument("--converter", help="llama.cpp's convert_hf_to_gguf.py")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--case", action="append", choices=CASES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    failed = False
    wanted = arguments.case or [name for name in CASES if not arguments.converter or name not in NOT_CONVERTED]
    for name in wanted:
        with tempfile.TemporaryDirectory() as folder:
            mean, worst, same = difference(name, arguments, Path(folder))
        good = mean <= BOUND and worst <= 10 * BOUND and same
        failed |= not good
        print(f"{name}: mean difference {mean:.2e}, of the worst row {worst:.2e}{'' if same else ', rows of a pass change bits'}{'' if good else '  FAILED'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
