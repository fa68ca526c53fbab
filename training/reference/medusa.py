"""Medusa (Cai et al. 2024, section 2.1): head i predicts the token i + 1 places behind the newest one, from the hidden
state that decided that token.

Layouts: `reference` (FasterDecoding: `0.0.linear.weight`; the layers of a head are one, stored several times) and
`vllm` (`blocks.0.layers.0.weight`, `lm_heads.0.weight`, `token_map`), whose names the parameters have here.
"""
import dataclasses
import re

import torch
from torch import nn

from training.reference import layouts
from training.reference.path_drafting import PathConventions, PathDrafting


@dataclasses.dataclass(frozen=True, kw_only=True)
class MedusaShape:
    layout: str
    taps: tuple               # the one behind the target's final norm
    vocab_size: int           # of the target
    hidden_size: int = 64
    num_heads: int = 4
    num_layers: int = 1       # of each head
    bias: bool = True         # of the layers
    num_lm_heads: int = 4     # one for each head, or 1 for all, or 0: the target's
    draft_vocab_size: int = 0  # tokens that can be drafted; 0: all of the target's
    logit_scale: float = 1.0   # vllm
    prefix: str = ""          # of names in the file

    @property
    def num_drafted(self):
        return self.draft_vocab_size or self.vocab_size


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        width, is_one = shape.hidden_size, shape.layout == "reference"
        layers = [nn.Linear(width, width, bias=shape.bias) for _ in range(1 if is_one else shape.num_layers)]
        self.layers = nn.ModuleList(layers * shape.num_layers if is_one else layers)

    def forward(self, x):
        for layer in self.layers:
            x = x + nn.functional.silu(layer(x))
        return x


class MedusaHead(nn.Module):
    kind = "medusa"
    conventions = PathConventions()

    def __init__(self, shape):
        super().__init__()
        self.shape, self.max_levels = shape, shape.num_heads
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.num_heads))
        self.lm_heads = nn.ModuleList(nn.Linear(shape.hidden_size, shape.num_drafted, bias=False)
                                      for _ in range(shape.num_lm_heads))
        if shape.draft_vocab_size:
            self.register_buffer("token_map", torch.zeros(shape.draft_vocab_size, dtype=torch.int64))

    def borrow(self, target):
        self.borrowed_lm_head = target.lm_head
        return self

    def target_ids(self, drafted):
        """Draft ids as ids of the target: token_map holds them."""
        return self.token_map[drafted] if self.shape.draft_vocab_size else drafted

    def states(self, features):
        return features

    @torch.no_grad()
    def behind(self, states, paths):
        """Logits [F, Vd] for states [F, H] and tokens [F, 1 + level], of which only the number counts."""
        level = paths.shape[1] - 1
        x = self.blocks[level](states)
        if not self.lm_heads:
            return self.shape.logit_scale * (x @ self.borrowed_lm_head.T)
        return self.shape.logit_scale * self.lm_heads[level if len(self.lm_heads) > 1 else 0](x)

    def drafting(self, features, tokens):
        return PathDrafting(self, features, tokens)


def stored_name(shape):
    """A function from a parameter's name to that in the file."""
    def reference(name):
        name = re.sub(r"^blocks\.(\d+)\.layers\.(\d+)\.", r"\1.\2.linear.", name)
        return shape.prefix + re.sub(r"^lm_heads\.(\d+)\.", rf"\1.{shape.num_layers}.", name)

    return reference if shape.layout == "reference" else lambda name: shape.prefix + name


def save(head, directory, _target):
    shape = head.shape
    tensors = layouts.published(head, stored_name(shape))
    if shape.layout == "reference":
        fields = {"medusa_num_heads": shape.num_heads, "medusa_num_layers": shape.num_layers,
                  "base_model_name_or_path": "target"}
        return layouts.write(directory, fields, tensors, "medusa_lm_head.safetensors")
    fields = {"model_type": "medusa", "architectures": ["MedusaModel"], "num_heads": shape.num_heads,
              "num_hidden_layers": shape.num_layers, "hidden_size": shape.hidden_size, "vocab_size": shape.vocab_size,
              "truncated_vocab_size": shape.num_drafted, "medusa_fc_bias": shape.bias,
              "original_lm_head": shape.num_lm_heads == 1, "logit_scale": shape.logit_scale}
    return layouts.write(directory, fields, tensors)


def load(directory, target):
    fields, tensors = layouts.read(directory)
    prefix = next(one for one in ("medusa_heads.", "medusa_head.", "") if next(iter(tensors)).startswith(one))
    layout = "vllm" if "num_heads" in fields else "reference"
    num_layers = fields["num_hidden_layers" if layout == "vllm" else "medusa_num_layers"]
    name_of = stored_name(MedusaShape(layout=layout, taps=(), vocab_size=0, num_layers=num_layers, prefix=prefix))
    shape = MedusaShape(
        layout=layout, taps=(target.shape.num_hidden_layers,), vocab_size=target.shape.vocab_size,
        hidden_size=target.shape.hidden_size, num_layers=num_layers, prefix=prefix,
        num_heads=layouts.count(tensors, lambda i: name_of(f"blocks.{i}.layers.0.weight")),
        num_lm_heads=layouts.count(tensors, lambda i: name_of(f"lm_heads.{i}.weight")),
        bias=name_of("blocks.0.layers.0.bias") in tensors,
        draft_vocab_size=len(tensors.get(prefix + "token_map", ())), logit_scale=fields.get("logit_scale", 1.0))
    return layouts.fill(MedusaHead(shape), tensors, name_of).borrow(target)
