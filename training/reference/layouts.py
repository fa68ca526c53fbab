"""Directories of heads: config.json beside one file of tensors."""
import json
from pathlib import Path

from safetensors.torch import load_file, save_file


def write(directory, fields, tensors, file="model.safetensors"):
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(fields, indent=1))
    # Clones: the format has no tensors that share memory.
    save_file({name: value.detach().contiguous().clone() for name, value in tensors.items()}, directory / file,
              {"format": "pt"})


def read(directory):
    """The fields of config.json, and the tensors by name."""
    file, = Path(directory).glob("*.safetensors")
    return json.loads((Path(directory) / "config.json").read_text()), load_file(file)


def published(head, stored_name):
    """A head's parameters and buffers under the names that they have in files."""
    return {stored_name(name): value for name, value in head.state_dict().items()}


def fill(head, tensors, stored_name):
    """The reverse of `published`. Each tensor must be of the head."""
    own = {name: stored_name(name) for name in head.state_dict()}
    unknown = tensors.keys() - own.values()
    if unknown:
        raise ValueError(f"tensors without a meaning: {sorted(unknown)}")
    values = {name: tensors[stored] for name, stored in own.items()}
    head.load_state_dict({name: value.float() if value.is_floating_point() else value
                          for name, value in values.items()})
    return head.requires_grad_(False)


def count(tensors, name):
    """How many of the names `name(0)`, `name(1)`, ... there are."""
    number = 0
    while name(number) in tensors:
        number += 1
    return number
