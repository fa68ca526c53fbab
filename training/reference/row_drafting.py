"""Drafts of heads whose rows attend to each other (EAGLE, MTP): a draft row pairs a drafted token with the output of
the row above it. Such a head has `project`, `empty_cache` and `forward`, which returns Rows.
"""
import dataclasses

import torch

from training.reference.drafting import ROOT, Drafting, Growth
from training.reference.layers import causal


@dataclasses.dataclass(frozen=True)
class Rows:
    """What a pass over rows leaves. `fed_back` is the next row's feature."""

    logits: torch.Tensor    # [R, Vd], over the draft vocabulary
    fed_back: torch.Tensor  # [R, H]
    cache: list             # for each layer keys and values [C + R, K, D]


@dataclasses.dataclass(frozen=True)
class Conventions:
    """What a draft row is, as far as the head does not determine it. Other values than these are mutants."""

    first_draft_position: int = 0  # added to the position of every draft row
    token_of_row: int = 1          # row i holds token i + 1
    feeds_back_input: bool = False  # a draft row gets its parent's feature instead of its parent's output


class RowDrafting(Drafting):
    """The committed rows are computed once, for all rounds."""

    def __init__(self, head, features, tokens):
        """features [n, T * Ht] of the positions 0 .. n - 1 of `tokens`, of which there are at least n + 1."""
        super().__init__(head)
        num_rows, first = len(features), head.conventions.token_of_row
        self.features, self.tokens = head.project(features).detach(), tokens
        self.rows = head(torch.tensor(tokens[first:first + num_rows]), self.features, torch.arange(num_rows),
                         causal(num_rows), head.empty_cache())

    def begin(self, base):
        return _RowGrowth(self, base)


class _RowGrowth(Growth):
    """The draft rows of one round: they read the committed rows and their own ancestors."""

    def __init__(self, drafting, base):
        self.drafting, self.newest = drafting, base - 2
        self.logits = drafting.rows.logits[self.newest]
        self.num_committed = base - 1
        self.cache = [(key[:base - 1], value[:base - 1]) for key, value in drafting.rows.cache]
        self.row_of = {}  # candidate: number of its draft row
        self.ancestry = torch.zeros(0, 0, dtype=torch.bool)  # [rows, rows]: a row's ancestors and itself
        fed_back = drafting.features if drafting.head.conventions.feeds_back_input else drafting.rows.fed_back
        self.outputs = fed_back[self.newest:self.newest + 1]  # [1 + rows, H]; the first is the newest committed row's

    def run(self, candidates, frontier, depth):
        head, conventions = self.drafting.head, self.drafting.head.conventions
        above = [self.row_of.get(candidates.parents[node], ROOT) for node in frontier]
        first, count = len(self.ancestry), len(frontier)
        ancestry = torch.zeros(first + count, first + count, dtype=torch.bool)
        ancestry[:first, :first] = self.ancestry
        for number, (node, parent) in enumerate(zip(frontier, above), first):
            if parent != ROOT:
                ancestry[number] = ancestry[parent]
            ancestry[number, number] = True
            self.row_of[node] = number
        visible = torch.cat([torch.ones(count, self.num_committed, dtype=torch.bool), ancestry[first:]], dim=-1)
        position = self.newest + depth + conventions.first_draft_position
        inputs = self.outputs[[parent + 1 for parent in above]]
        rows = head(torch.tensor([candidates.tokens[node] for node in frontier]), inputs,
                    torch.full((count,), position), visible, self.cache)
        self.cache, self.ancestry = rows.cache, ancestry
        self.outputs = torch.cat([self.outputs, inputs if conventions.feeds_back_input else rows.fed_back])
        return rows.logits
