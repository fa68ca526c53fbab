#!/usr/bin/env python3
"""Logits of EAGLE, DFlash and DSpark heads at the width of real targets, against the reference, which reads the features that the engine captured.

    tests/e2e/head_widths.py --dump build/release/bin/head_dump --model smollm2.gguf --model qwen.gguf

The target is quantised, so its hidden states are the engine's own; the head's weights, embedding and LM head are float32, and so are all KV
cells. Compared are the logits of every row of a text and of a chain of draft tokens behind it. Exit code 1 if one differs by 2e-3 or more.
"""
import argparse
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from training.reference import gguf_targets, made_heads  # noqa: E402

BOUND = 2e-3
NUM_TOKENS, NUM_DRAFTED = 70, 6
# For each head: its kind, the multiples of its sizes, and the fields that differ from the plain head.
HEADS = (("eagle", {"own_embedding": True, "own_lm_head": True}), ("reference", {"own_embedding": True, "draft_vocab_size": 8000}),
         ("speculators-3.1", {"draft_vocab_size": 8000}), ("dflash", {"own_embedding": True, "own_lm_head": True}),
        ("dspark-speculators", {"draft_vocab_size": 8000}), ("dspark-deepspec-gated", {}))


def dumped(arguments, model, kind, folder, tokens):
    """The output of head_dump, as one row of float32 values."""
    (folder / "tokens").write_bytes(struct.pack(f"<{len(tokens)}i", *tokens))
    subprocess.run([arguments.dump, model, kind, folder, folder / "tokens", str(NUM_DRAFTED), folder / "out"], check=True)
    return torch.frombuffer(bytearray((folder / "out").read_bytes()), dtype=torch.float32)


def largest_difference(head, tokens, values):
    """Between the dumped logits and the reference's, over the text and the chain."""
    rows = len(tokens) - 1
    features = values[:rows * head.shape.feature_width].view(rows, -1)
    values = values[features.numel():]
    width = head.shape.num_drafted
    visible = torch.ones(rows, rows, dtype=torch.bool).tril()
    out = head(torch.tensor(tokens[1:]), head.project(features), torch.arange(rows), visible, head.empty_cache())
    worst = (out.logits - values[:rows * width].view(rows, width)).abs().max().item()
    values = values[rows * width:]
    for level in range(1, NUM_DRAFTED):
        token, theirs = int(values[0]), values[1:1 + width]
        values = values[1 + width:]
        at = rows - 1 + level
        out = head(torch.tensor([token]), out.fed_back[-1:], torch.tensor([at]), torch.ones(1, at + 1, dtype=torch.bool), out.cache)
        worst = max(worst, (out.logits[0] - theirs).abs().max().item())
    return worst


def largest_difference_in_block(head, tokens, values):
    """Between the dumped logits of a block's levels and the reference's."""
    rows, width = len(tokens) - 1, head.shape.num_drafted
    taps = len(head.shape.taps) * head.shape.hidden_size
    features, theirs = values[:rows * taps].view(rows, -1), values[rows * taps:].view(-1, width)
    hidden = head.block(tokens[-1], rows, head.context(features))
    before, worst = [tokens[-1]], 0.0
    for row in theirs:
        ours = head.logits_of_level(hidden, before)
        worst = max(worst, (ours - row).abs().max().item())
        before.append(int(head.target_ids(row.argmax())))
    return worst if len(theirs) == head.max_levels else float("inf")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dump", required=True)
    parser.add_argument("--model", action="append", help="default: smollm2.gguf of PACELINE_MODEL_DIR; exit code 77 without it")
    arguments = parser.parse_args()
    if not arguments.model:
        arguments.model = [Path(os.environ.get("PACELINE_MODEL_DIR", "")) / "smollm2.gguf"]
        if not arguments.model[0].exists():
            print("head_widths: no model")
            return 77
    torch.set_num_threads(2)
    failed = False
    for model in arguments.model:
        shape = gguf_targets.shape_of(model)
        sizes = gguf_targets.sizes_of_head_layer(shape)
        tokens = torch.randint(0, shape.vocab_size, (NUM_TOKENS,), generator=torch.Generator().manual_seed(1)).tolist()
        for name, changes in HEADS:
            target = SimpleNamespace(shape=shape, embedding=None, lm_head=None, embedding_scale=1)
            head = made_heads.random_head(name, target, 2, **changes, **sizes)
            with tempfile.TemporaryDirectory() as folder:
                made_heads.save(head, name, Path(folder), target)
                values = dumped(arguments, model, made_heads.KINDS[name].family, Path(folder), tokens)
            is_block = made_heads.KINDS[name].family in ("dflash", "dspark")
            worst = (largest_difference_in_block if is_block else largest_difference)(head, tokens, values)
            failed |= not worst < BOUND
            print(f"{Path(model).stem} {name}: largest difference of a logit {worst:.1e}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
