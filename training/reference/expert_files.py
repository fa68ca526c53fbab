"""The matrices of a layer's experts in files: a tensor for each of them, or those of all experts in one."""
import torch

PARTS = ("gate_proj", "up_proj", "down_proj")


def _num_experts(tensors, prefix):
    numbers = {int(name[len(prefix):].split(".")[0]) for name in tensors if name.startswith(prefix)}
    return len(numbers)


def stacked(tensors, prefix, names=PARTS):
    """The tensors without those of single experts, which are named `PREFIX5.gate_proj.weight`, and those of all experts: gate,
    up and down [E, rows, columns]."""
    others = {name: value for name, value in tensors.items() if not name.startswith(prefix)}
    count = _num_experts(tensors, prefix)
    return others, *(torch.stack([tensors[f"{prefix}{expert}.{part}.weight"] for expert in range(count)]) for part in names)


def packed(tensors, prefix, names=PARTS):
    """With the experts in two tensors, as newer files of Hugging Face have them."""
    others, gate, up, down = stacked(tensors, prefix, names)
    return others | {prefix + "gate_up_proj": torch.cat([gate, up], dim=1), prefix + "down_proj": down}


def unpacked(tensors, prefix):
    """The reverse of `packed`."""
    gate, up = tensors[prefix + "gate_up_proj"].chunk(2, dim=1)
    return separate(tensors, prefix, gate, up, tensors[prefix + "down_proj"])


def separate(tensors, prefix, *all_experts):
    """A tensor for each expert and part, in place of those that begin with the prefix."""
    others = {name: value for name, value in tensors.items() if not name.startswith(prefix)}
    return others | {f"{prefix}{expert}.{part}.weight": value
                     for part, values in zip(PARTS, all_experts) for expert, value in enumerate(values)}
