"""Hydra and Hydra++ (Ankner et al. 2024, section 3): head i predicts the token i + 1 places behind the newest one, from
the hidden state that decided the newest token, and the embeddings of that token and of the drafted ones on the path.

Architectures: `mlp`, and `prefix-mlp` (Hydra++), where the state has been through a decoder layer over the whole text.
"""
import dataclasses
import re

import torch
from torch import nn

from training.reference import layouts
from training.reference.layers import causal
from training.reference.modules import LayerShape, Norm, PlainLayer, sizes_of
from training.reference.path_drafting import PathConventions, PathDrafting

PREFIX = "prefix_embeding_layer."  # spelt so in the files


@dataclasses.dataclass(frozen=True, kw_only=True)
class HydraShape(LayerShape):
    """The layer's numbers are those of the target, and of use in `prefix-mlp` only."""

    taps: tuple           # the one behind the target's final norm
    vocab_size: int       # of the target
    num_levels: int = 4
    num_layers: int = 1   # of each head
    has_prefix: bool = False

    @property
    def num_drafted(self):
        return self.vocab_size


class Level(nn.Module):
    """v [F, (level + 2) H]: y = R v + silu(W v), then y = y + silu(W' y) for each further layer. All further layers have the same weights."""

    def __init__(self, shape, level):
        super().__init__()
        width, inputs = shape.hidden_size, (level + 2) * shape.hidden_size
        self.res_connection = nn.Linear(inputs, width)
        further = [nn.Linear(width, width)] * (shape.num_layers - 1) if shape.num_layers > 1 else []
        self.linear = nn.ModuleList([nn.Linear(inputs, width), *further])

    def forward(self, v):
        y = self.res_connection(v) + nn.functional.silu(self.linear[0](v))
        for linear in self.linear[1:]:
            y = y + nn.functional.silu(linear(y))
        return y


class Prefix(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layer, self.norm = PlainLayer(shape), Norm(shape.hidden_size, shape.rms_norm_eps)

    def forward(self, features):
        num_rows = len(features)
        hidden, _ = self.layer(features, torch.arange(num_rows), causal(num_rows), self.layer.self_attn.empty_past())
        return self.norm(hidden)


class HydraHead(nn.Module):
    kind = "hydra"
    conventions = PathConventions()

    def __init__(self, shape):
        super().__init__()
        self.shape, self.max_levels = shape, shape.num_levels
        self.levels = nn.ModuleList(Level(shape, level) for level in range(shape.num_levels))
        self.lm_heads = nn.ModuleList(nn.Linear(shape.hidden_size, shape.vocab_size) for _ in range(shape.num_levels))
        self.prefix = Prefix(shape) if shape.has_prefix else None

    def borrow(self, target):
        self.borrowed_embedding = target.embedding
        return self

    def target_ids(self, drafted):
        return drafted

    @torch.no_grad()
    def states(self, features):
        return self.prefix(features) if self.prefix is not None else features

    @torch.no_grad()
    def behind(self, states, paths):
        """Logits [F, V] for states [F, H] and tokens [F, 1 + level]: the text's newest one, then the drafted ones."""
        level = paths.shape[1] - 1
        v = torch.cat([states, self.borrowed_embedding[paths].flatten(1)], dim=-1)
        return self.lm_heads[level](self.levels[level](v))

    def drafting(self, features, tokens):
        return PathDrafting(self, features, tokens)


def stored_name(shape):
    """A function from a parameter's name to that in the file. Hydra++ has dropout before each part, which counts."""
    def index(layer):
        return 2 * layer + 1 if shape.has_prefix else layer

    def name_of(name):
        name = re.sub(r"^levels\.(\d+)\.linear\.(\d+)\.",
                      lambda found: f"hydra_mlp.{found[1]}.{index(int(found[2]))}.linear.", name)
        name = re.sub(r"^levels\.(\d+)\.res_connection\.", rf"hydra_mlp.\1.{index(0)}.res_connection.", name)
        name = re.sub(r"^lm_heads\.(\d+)\.", r"hydra_lm_head.\1.1." if shape.has_prefix else r"hydra_lm_head.\1.", name)
        return name.replace("prefix.layer.", PREFIX + "layers.0.").replace("prefix.norm.", PREFIX + "norm.")

    return name_of


def offset_of(tap, target):
    """0 means the state after the final norm, and k the state that k further layers follow."""
    last = target.shape.num_hidden_layers
    return 0 if tap == last else last - 1 - tap


def tap_of(offset, target):
    last = target.shape.num_hidden_layers
    return last if offset == 0 else last - 1 - offset


def save(head, directory, target):
    shape = head.shape
    tensors = layouts.published(head, stored_name(shape))
    if shape.has_prefix:
        tensors[PREFIX + "embed_tokens.weight"] = target.embedding  # unused, but present
        tensors[PREFIX + "layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(shape.head_dim // 2)  # likewise
    tensors["input_embed_fn.weight"] = target.embedding  # the authors' modules share it with the base model
    fields = {"hydra_num_heads": shape.num_levels, "hydra_num_layers": shape.num_layers,
              "hydra_head_arch": "prefix-mlp" if shape.has_prefix else "mlp", "grounded_heads": True,
              "hidden_state_offset": offset_of(shape.taps[0], target), "dropout_rate": 0.2 if shape.has_prefix else 0.0,
              "base_model_name_or_path": "target"}
    layouts.write(directory, fields, tensors, "hydra_lm_head.safetensors")


def load(directory, target):
    fields, tensors = layouts.read(directory)
    has_prefix = fields["hydra_head_arch"] == "prefix-mlp"
    first = "1" if has_prefix else "0"
    num_layers = layouts.count(tensors, lambda j: f"hydra_mlp.0.{2 * j + 1 if has_prefix else j}.linear.weight")
    shape = HydraShape(taps=(tap_of(fields["hidden_state_offset"], target),), vocab_size=target.shape.vocab_size,
                       num_levels=layouts.count(tensors, lambda i: f"hydra_mlp.{i}.{first}.linear.weight"),
                       num_layers=num_layers, has_prefix=has_prefix, **sizes_of(target.shape))
    for shared in (PREFIX + "embed_tokens.weight", PREFIX + "layers.0.self_attn.rotary_emb.inv_freq", "input_embed_fn.weight"):
        tensors.pop(shared, None)
    return layouts.fill(HydraHead(shape), tensors, stored_name(shape)).borrow(target)
