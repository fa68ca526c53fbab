"""Drafts by rows with trained inputs in the target's own pass: PaSS (Monea et al. 2023, section 3) and parallel prompt
decoding (Chen et al. 2024, section 3).

Behind a token at position t stand rows 0 .. L - 1 at positions t + 1 .. t + L. Row j sees the text up to that token and
the rows before it, and its logits are those of the token at t + 2 + j. The token at t + 1 is the target's own, so that
row j gives level j of the draft behind it.
"""
import dataclasses

import torch
from torch import nn

from training.reference.drafting import Drafting, Growth
from training.reference.layers import causal


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowsShape:
    taps: tuple       # unused: the rows are the target's
    vocab_size: int
    hidden_size: int = 64
    num_rows: int = 3
    trees: tuple = ()  # of PPD: for s = 1, 2, .. levels the nodes (path, rows behind it); empty: a rule

    @property
    def num_drafted(self):
        return self.vocab_size


@dataclasses.dataclass(frozen=True)
class RowsConventions:
    """What a row sees, and its position. Other values than these are mutants."""

    first_draft_position: int = 0  # added to the position of every row
    row_gap: int = 0               # added to the position of every row but the first of a group
    level_offset: int = 0          # added to the row that gives a level
    text_offset: int = 0           # added to the length of the text before the rows
    sees_group: bool = True        # rows see the rows before them
    sees_sibling: bool = False     # rows see another token at the position of the one that they stand behind
    is_scaled: bool = False        # inputs are scaled as embeddings are


class RowsHead(nn.Module):
    """Input vectors, and the target that they were trained for."""

    conventions = RowsConventions()

    def __init__(self, shape):
        super().__init__()
        self.shape, self.max_levels = shape, shape.num_rows
        self.inputs = nn.Embedding(shape.num_rows, shape.hidden_size)

    def borrow(self, target):
        self.target = (target,)  # in a tuple: not a part of this module
        return self

    def target_ids(self, drafted):
        return drafted

    def drafting(self, _features, tokens):
        return RowsDrafting(self, tokens)

    @torch.no_grad()
    def logits(self, text):
        """[L, V] of the rows behind the last token of `text`."""
        conventions, target = self.conventions, self.target[0]
        count = len(text)
        inputs = self.inputs.weight
        if conventions.is_scaled:
            inputs = inputs * target.embedding_scale
        tokens, positions = list(text), list(range(count))
        if conventions.sees_sibling:
            tokens, positions = [*tokens, (tokens[-1] + 1) % self.shape.vocab_size], [*positions, count - 1]
        first = count + conventions.first_draft_position
        positions = torch.tensor(positions + list(range(first, first + len(inputs))))
        positions[len(tokens) + 1:] += conventions.row_gap
        visible = causal(len(positions))
        if not conventions.sees_group:
            visible[len(tokens):, len(tokens):] = torch.eye(len(inputs), dtype=torch.bool)
        hidden = torch.cat([target.embed(tokens), inputs])
        return target.run(hidden, positions, visible).logits[len(tokens):]


class RowsDrafting(Drafting):
    def __init__(self, head, tokens):
        super().__init__(head)
        self.tokens = tokens

    def begin(self, base):
        """The rows stand behind the token before the newest one."""
        length = max(base - 1 + self.head.conventions.text_offset, 1)
        return _RowsGrowth(self.head.logits(self.tokens[:length]), self.head.conventions.level_offset)


class _RowsGrowth(Growth):
    def __init__(self, logits, offset):
        self.levels = logits.roll(-offset, dims=0)
        self.logits = self.levels[0]

    def run(self, candidates, frontier, depth):
        return self.levels[depth].expand(len(frontier), -1)
