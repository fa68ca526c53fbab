"""Drafts of heads without attention among drafted tokens (Medusa, blockwise, Hydra, MLP speculators): the logits behind
a node depend on one state of the text and on the tokens of the node's path. Such a head has `states` and `behind`.
"""
import dataclasses

import torch

from training.reference.drafting import ROOT, Drafting, Growth


@dataclasses.dataclass(frozen=True)
class PathConventions:
    """What a head reads, as far as the head does not determine it. Other values than these are mutants."""

    state_offset: int = 0  # added to the row whose state it reads
    token_offset: int = 0  # added to the place of every token that it reads
    reads_best_path: bool = False  # the tokens of the best node of each level instead of those of its own path


class PathDrafting(Drafting):
    def __init__(self, head, features, tokens):
        """features [n, H] of the positions 0 .. n - 1 of `tokens`, of which there are at least n + 1."""
        super().__init__(head)
        self.states, self.tokens = head.states(features), tokens

    def begin(self, base):
        """The state is that of the row that decided the newest token."""
        row = max(base - 2 + self.head.conventions.state_offset, 0)
        return _PathGrowth(self.head, self.states[row], self.tokens[:base])


class _PathGrowth(Growth):
    def __init__(self, head, state, text):
        self.head, self.state, self.text = head, state, text
        self.logits = head.behind(state[None], torch.tensor([self.tokens_read([])]))[0]

    def tokens_read(self, path):
        """The newest token of the text, then those of the path."""
        begin = len(self.text) - 1 + self.head.conventions.token_offset
        return (self.text + path)[max(begin, 0):][:1 + len(path)]

    def run(self, candidates, frontier, depth):
        paths = [candidates.path(node) for node in frontier]
        if self.head.conventions.reads_best_path:
            elders = candidates.path(_best_leaf(candidates))[:depth - 1]
            paths = [elders + path[len(elders):] for path in paths]
        read = torch.tensor([self.tokens_read(path) for path in paths])
        return self.head.behind(self.state.expand(len(frontier), -1), read)


def _best_leaf(candidates):
    """The best child of the root, its best child, and so on."""
    node = ROOT
    while node in candidates.parents:
        node = candidates.parents.index(node)
    return node
