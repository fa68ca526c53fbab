#!/usr/bin/env python3
"""Turns the pickled checkpoint of a draft head into a directory that Paceline reads.

    convert_head.py medusa-vicuna-7b-v1.3/ medusa/          config.json beside medusa_lm_head.pt
    convert_head.py hydra_lm_head.pt hydra/                 without a config
    convert_head.py EAGLE-LLaMA3-Instruct-8B/ eagle/ --type f16

The input is a file of `torch.save` (.bin, .pt, .pth), or a directory with one, or with pytorch_model.bin.index.json
and its shards. Nothing in it is run: a pickle that names anything but tensors and plain containers is refused. The
output directory gets model.safetensors, with the names of the tensors unchanged, and the config.json.

Tensors that share memory (the one layer that Medusa's reference code repeats) are written as often as they occur,
because Paceline's layouts have them so.
"""

import argparse
import json
import os
import pickle
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

SUFFIXES = (".bin", ".pt", ".pth")
INDEX = "pytorch_model.bin.index.json"
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# What Paceline reads; others are converted, if no value changes.
STORED = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)
EXACT = {torch.float64: torch.float32, torch.int32: torch.int64, torch.int16: torch.int64, torch.int8: torch.int64,
         torch.uint8: torch.int64}


class Refusal(Exception):
    """Why a checkpoint is not converted."""


def files_of(source: Path) -> list[Path]:
    """The pickled files of a checkpoint."""
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise Refusal(f"{source}: there is no such file")
    if (source / INDEX).is_file():
        names = sorted(set(json.loads((source / INDEX).read_text())["weight_map"].values()))
        if any(Path(name).name != name for name in names):
            raise Refusal(f"{source / INDEX}: names a file outside the directory")
        return [source / name for name in names]
    found = sorted(file for file in source.iterdir() if file.suffix in SUFFIXES)
    found = [file for file in found if file.name != "training_args.bin"]
    if len(found) != 1:
        raise Refusal(f"{source}: {len(found)} files of {', '.join(SUFFIXES)}, one is needed; name the file")
    return found


def unpickled(file: Path):
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as problem:
        raise Refusal(f"{file}: is refused: it names more than tensors: {str(problem).splitlines()[0]}") from problem
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, AttributeError, IndexError, TypeError) as problem:
        raise Refusal(f"{file}: cannot be read: {str(problem).splitlines()[0]}") from problem


def state_dict(file: Path) -> dict:
    """The tensors of a file, by name."""
    loaded = unpickled(file)
    for wrapper in ("state_dict", "model_state_dict"):
        if isinstance(loaded, dict) and isinstance(loaded.get(wrapper), dict):
            loaded = loaded[wrapper]
    if not isinstance(loaded, dict) or not loaded:
        raise Refusal(f"{file}: holds {type(loaded).__name__}, not tensors by name")
    for name, value in loaded.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise Refusal(f"{file}: {name!r} is {type(value).__name__}, not a tensor")
    return loaded


def stored(name: str, value: torch.Tensor, to: torch.dtype | None) -> torch.Tensor:
    """The tensor as it is written: contiguous, in memory of its own."""
    if value.layout != torch.strided or value.is_quantized or value.device.type == "meta":
        raise Refusal(f"tensor {name!r}: is sparse, quantised or without values")
    kind = to if to is not None and value.is_floating_point() else value.dtype
    kind = kind if kind in STORED else EXACT.get(kind)
    if kind is None:
        raise Refusal(f"tensor {name!r}: type {value.dtype} is not supported")
    converted = value.detach().to(kind)
    if to is None and kind != value.dtype and not torch.equal(converted.to(value.dtype), value):
        raise Refusal(f"tensor {name!r}: {value.dtype} does not fit {kind}; choose a --type")
    return converted.contiguous().clone()


def read(source: Path, to: torch.dtype | None) -> dict:
    tensors = {}
    for file in files_of(source):
        for name, value in state_dict(file).items():
            if name in tensors:
                raise Refusal(f"{file}: tensor {name!r} is in an earlier file, too")
            tensors[name] = stored(name, value, to)
    return tensors


def convert(source: Path, target: Path, to: torch.dtype | None = None) -> dict:
    """Writes the directory `target`; returns the tensors."""
    tensors = read(source, to)
    config = (source if source.is_dir() else source.parent) / "config.json"
    target.mkdir(parents=True, exist_ok=True)
    written = target / "model.safetensors"
    if config.is_file() and config.resolve() != (target / "config.json").resolve():
        shutil.copyfile(config, target / "config.json")
    unfinished = written.with_suffix(".part")
    save_file(tensors, unfinished, {"format": "pt"})
    os.replace(unfinished, written)
    return tensors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="file or directory")
    parser.add_argument("target", type=Path, help="directory")
    parser.add_argument("--type", choices=TYPES, help="of floating-point tensors; default: as they are")
    arguments = parser.parse_args()
    try:
        tensors = convert(arguments.source, arguments.target, TYPES.get(arguments.type))
    except (Refusal, OSError, json.JSONDecodeError) as problem:
        print(f"convert_head.py: {problem}", file=sys.stderr)
        return 1
    size = sum(value.numel() * value.element_size() for value in tensors.values())
    print(f"{arguments.target}: {len(tensors)} tensors, {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
