"""Blockwise parallel decoding (Stern et al. 2018, section 4): one feed-forward layer makes k vectors of the hidden
state that decided the newest token; each is added to that state and goes through one shared LM head. Vector i (from 0)
predicts the token i + 1 places behind the newest one. docs/drafters.md has the layout, which is this project's own.
"""
import dataclasses

import torch
from torch import nn

from training.reference import layouts
from training.reference.path_drafting import PathConventions, PathDrafting


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockwiseShape:
    taps: tuple          # the one behind the target's final norm
    vocab_size: int      # of the target
    hidden_size: int = 64
    inner_size: int = 48  # of each vector
    num_heads: int = 4
    bias: bool = True
    own_lm_head: bool = False  # otherwise the target's

    @property
    def num_drafted(self):
        return self.vocab_size


class BlockwiseHead(nn.Module):
    kind = "blockwise"
    conventions = PathConventions()

    def __init__(self, shape):
        super().__init__()
        self.shape, self.max_levels, width = shape, shape.num_heads, shape.hidden_size
        self.hidden = nn.Linear(width, shape.num_heads * shape.inner_size, bias=shape.bias)
        self.output = nn.Linear(shape.num_heads * shape.inner_size, shape.num_heads * width, bias=shape.bias)
        if shape.own_lm_head:
            self.lm_head = nn.Linear(width, shape.vocab_size, bias=False)

    def borrow(self, target):
        self.borrowed_lm_head = target.lm_head
        return self

    def target_ids(self, drafted):
        return drafted

    def states(self, features):
        return features

    @torch.no_grad()
    def behind(self, states, paths):
        """Logits [F, V] for states [F, H] and tokens [F, 1 + level], of which only the number counts."""
        level, width = paths.shape[1] - 1, self.shape.hidden_size
        vectors = self.output(self.hidden(states).relu())
        x = states + vectors[:, level * width:(level + 1) * width]
        return self.lm_head(x) if self.shape.own_lm_head else x @ self.borrowed_lm_head.T

    def drafting(self, features, tokens):
        return PathDrafting(self, features, tokens)


def save(head, directory, _target):
    layouts.write(directory, {}, layouts.published(head, str))


def load(directory, target):
    _, tensors = layouts.read(directory)
    width = target.shape.hidden_size
    num_heads = len(tensors["output.weight"]) // width
    shape = BlockwiseShape(taps=(target.shape.num_hidden_layers,), vocab_size=target.shape.vocab_size,
                           hidden_size=width, inner_size=len(tensors["hidden.weight"]) // num_heads,
                           num_heads=num_heads, bias="hidden.bias" in tensors, own_lm_head="lm_head.weight" in tensors)
    return layouts.fill(BlockwiseHead(shape), tensors, str).borrow(target)
