"""DART (arXiv:2601.19278), forward only, without its n-gram model: an EAGLE-3 head of one layer, of whose mask rows the
attention reads a trained vector, half of which is also their residual. The final norm is applied twice.
"""
import dataclasses

import torch
from torch import nn

from training.reference.drafting import ROOT, Candidates, best
from training.reference.eagle import EagleHead
from training.reference.mask_drafting import MaskConventions, MaskDrafting
from training.reference.row_drafting import Rows

CHILDREN, EXPANDED = 25, 20  # of a node; nodes of a level
LEAST = 1e-10  # added to each share before its logarithm is taken


class DartHead(EagleHead):
    conventions = MaskConventions()

    def __init__(self, shape):
        super().__init__(shape)
        self.max_levels = 1 + shape.num_masks
        self.layers[0].mask_rep = nn.Parameter(torch.zeros(2 * shape.hidden_size))

    def logits_of(self, x):
        return super().logits_of(x if self.conventions.norms_once else self.norm(x))

    @torch.no_grad()
    def mask_rows(self, positions, visible, cache):
        layer, width = self.layers[0], self.shape.hidden_size
        attended, past = layer.self_attn(layer.mask_rep.expand(len(positions), -1), positions, visible, cache[0])
        hidden = (layer.mask_rep[width:] if self.conventions.adds_second_half else layer.mask_rep[:width]) + attended
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return Rows(self.logits_of(self.norm(hidden)), hidden, [past])

    def drafting(self, features, tokens):
        return DartDrafting(self, features, tokens)


def level_weight(depth):
    return (depth + 1) ** -0.7 * 0.9 ** depth


@dataclasses.dataclass
class Scored(Candidates):
    """Scores are sums over the path of the level's weight times ln(p + 1e-10), p a share among a row's 25 best tokens, or
    all of them if there are fewer. A node whose only share is this constant never ranks above its parent.

    A selection before the last one matters only if what it drops could be in the draft: its gap counts if the best that
    was dropped scores no less than the worst node of the draft.
    """

    dropped: list = dataclasses.field(default_factory=list)  # for each selection the gap and the best dropped score
    conventions: MaskConventions = MaskConventions()

    def add_children(self, head, parent, logits, count, borders=()):
        self.logits[parent] = logits
        above = self.scores[parent] if parent != ROOT else 0.0
        weight = level_weight(len(self.path(parent)) + self.conventions.depth_offset)
        order = torch.sort(logits.double(), descending=True, stable=True)
        count = min(count, len(logits))
        among = order.values if self.conventions.shares_of_all else order.values[:count]
        shares = (order.values - among.logsumexp(-1)).exp()
        scores = ((shares + LEAST).log() * weight).clamp(max=0)
        if count < len(scores):
            self.dropped.append((float(order.values[count - 1] - order.values[count]), above + float(scores[count])))
        first = len(self.tokens)
        self.tokens += head.target_ids(order.indices[:count]).tolist()
        self.parents += [parent] * count
        self.scores += (above + scores[:count]).tolist()
        return list(range(first, len(self.tokens)))

    def expanded(self, level):
        """The best nodes of a level, ascending."""
        scores = torch.tensor([self.scores[node] for node in level], dtype=torch.float64)
        chosen, gap = best(scores, min(EXPANDED, len(level)))
        rest = scores.sort(descending=True).values[EXPANDED:]
        if len(rest):
            self.dropped.append((gap, float(rest[0])))
        return sorted(level[one] for one in chosen)

    def draft(self, max_nodes):
        made = super().draft(max_nodes)
        worst = min(self.scores[node] for node in self.most_confident(list(range(len(self.tokens))), max_nodes))
        gaps = [gap for gap, score in self.dropped if score >= worst - 0.1]
        return dataclasses.replace(made, margin=min([made.margin, *gaps]))


class DartDrafting(MaskDrafting):
    def scored(self, base, num_levels, max_nodes):
        """DART's tree."""
        growth, candidates = self.begin(base), Scored(conventions=self.head.conventions)
        level = candidates.add_children(self.head, ROOT, growth.logits, CHILDREN)
        for depth in range(1, num_levels):
            frontier = candidates.expanded(level)
            logits = growth.run(candidates, frontier, depth)
            level = [child for node, row in zip(frontier, logits)
                     for child in candidates.add_children(self.head, node, row, CHILDREN)]
        return candidates.draft(max_nodes)
