#!/usr/bin/env python3
"""Writes a draft head of random weights as wide as a target, to measure its speed with `paceline bench cost --draft-head`.

  tools/make_synthetic_head.py --model qwen.gguf --kind reference --set draft_vocab_size=16000 --out eagle3/
  tools/make_synthetic_head.py --model qwen.gguf --kind dflash --set num_layers=3 --set block_size=8 --out dflash/

Kinds are those of training/reference/made_heads.py, and --set changes fields of a kind's shape. Needs torch, safetensors and gguf.
"""
import argparse
import ast
import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from training.reference import gguf_targets, made_heads  # noqa: E402


def shape_fields(settings):
    """The values of `name=value` texts, which are Python literals."""
    return {name: ast.literal_eval(value) for name, value in (one.split("=", 1) for one in settings)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="GGUF file of the target")
    parser.add_argument("--kind", required=True, choices=sorted(made_heads.KINDS))
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a field of the head's shape")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()

    shape = gguf_targets.shape_of(arguments.model)
    unread = torch.zeros(1, 1)  # some layouts hold copies of the target's weights, which the loader ignores
    target = SimpleNamespace(shape=shape, embedding=unread, lm_head=unread, embedding_scale=1, weights={})
    plain = made_heads.plain_head(arguments.kind, target, {}).shape
    has_attention = any(field.name == "num_kv_heads" for field in dataclasses.fields(plain))
    layer = gguf_targets.sizes_of_head_layer(shape) if has_attention else {}
    head = made_heads.random_head(arguments.kind, target, arguments.seed, **layer | shape_fields(arguments.set))
    made_heads.save(head.to(getattr(torch, arguments.dtype)), arguments.kind, arguments.out, target)


if __name__ == "__main__":
    main()
