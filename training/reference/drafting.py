"""Drafts of an EAGLE head: the greedy chain, and the dynamic tree of EAGLE-2 (Li et al. 2024, section 4).

Levels and nodes are counted as in the engine's configuration: `draft_length` levels, at most `max_tree_nodes` drafted
nodes, `tree_top_k` nodes expanded in a level and children of each.
"""
import dataclasses

import torch

from training.reference.layers import causal

ROOT = -1


@dataclasses.dataclass(frozen=True)
class Draft:
    """Nodes in the order of the engine, parents first. `margin`: by how much the closest decision was made."""

    tokens: list
    parents: list  # indices of nodes, or ROOT
    margin: float

    def paths(self):
        """The set of its nodes, each as the tokens from the root: two drafts with the same paths are the same tree."""
        return paths_of(self.tokens, self.parents)


def paths_of(tokens, parents):
    paths = []
    for token, parent in zip(tokens, parents):
        paths.append((*(paths[parent] if parent != ROOT else ()), token))
    return set(paths)


def best(values, count):
    """Indices of the `count` largest values, largest first and ties to the lower index, and the gap to the next one."""
    order = torch.sort(values, descending=True, stable=True)
    gap = float(order.values[count - 1] - order.values[count]) if count < len(values) else float("inf")
    return order.indices[:count].tolist(), gap


@dataclasses.dataclass
class Candidates:
    """Tokens considered in one round, in order of creation: siblings together, best first."""

    tokens: list = dataclasses.field(default_factory=list)
    parents: list = dataclasses.field(default_factory=list)
    scores: list = dataclasses.field(default_factory=list)  # logarithm of the product of probabilities from the root
    logits: dict = dataclasses.field(default_factory=dict)  # of the rows that were run: candidate or ROOT -> [Vd]
    margin: float = float("inf")

    def path(self, node):
        """The tokens from the root to a candidate."""
        return [] if node == ROOT else [*self.path(self.parents[node]), self.tokens[node]]

    def add_children(self, head, parent, logits, count):
        """The best tokens of a row [Vd]; returns the numbers of the new candidates."""
        self.logits[parent] = logits
        log_probs = logits.log_softmax(-1)
        drafted, gap = best(log_probs, count)
        self.margin = min(self.margin, gap)
        above = self.scores[parent] if parent != ROOT else 0.0
        first = len(self.tokens)
        self.tokens += head.target_ids(torch.tensor(drafted)).tolist()
        self.parents += [parent] * len(drafted)
        self.scores += [above + float(log_probs[one]) for one in drafted]
        return list(range(first, len(self.tokens)))

    def most_confident(self, nodes, count):
        """The best `count` of `nodes`, ascending."""
        scores = torch.tensor([self.scores[node] for node in nodes], dtype=torch.float64)
        chosen, gap = best(scores, min(count, len(nodes)))
        self.margin = min(self.margin, gap)
        return sorted(nodes[one] for one in chosen)

    def draft(self, max_nodes):
        """The re-ranked tree."""
        kept = self.most_confident(list(range(len(self.tokens))), max_nodes)
        place = {node: number for number, node in enumerate(kept)} | {ROOT: ROOT}
        return Draft([self.tokens[node] for node in kept], [place[self.parents[node]] for node in kept], self.margin)


@dataclasses.dataclass(frozen=True)
class Conventions:
    """What a draft row is, as far as it is not in the head. Other values than these are mutants."""

    first_draft_position: int = 0  # added to the position of every draft row
    token_of_row: int = 1          # row i holds token i + 1
    feeds_back_input: bool = False  # a draft row gets its parent's feature instead of its parent's output


class Drafting:
    """A head over one request's text: its committed rows are computed once, rounds draft behind a prefix of them."""

    def __init__(self, head, features, tokens, conventions=Conventions()):
        """features [n, T * Ht] of the positions 0 .. n - 1 of `tokens`, of which there are at least n + 1."""
        self.head, self.conventions = head, conventions
        num_rows, first = len(features), conventions.token_of_row
        self.features = head.project(features).detach()
        self.rows = head(torch.tensor(tokens[first:first + num_rows]), self.features, torch.arange(num_rows),
                         causal(num_rows), head.empty_cache())

    def chain(self, base, length):
        """The likeliest token `length` times, behind the first `base` tokens (at least 2) of the text."""
        return self.tree(base, 1, length, length)

    def tree(self, base, top_k, num_levels, max_nodes):
        """EAGLE-2: expansion by levels, then the `max_nodes` most confident candidates of all levels."""
        return self.grow(base, top_k, num_levels, max_nodes).draft(max_nodes)

    def grow(self, base, top_k, num_levels, max_nodes):
        """All candidates of a tree."""
        growth = _Growth(self, base)
        candidates = Candidates()
        count = min(top_k, max_nodes, self.head.shape.num_drafted)
        level = candidates.add_children(self.head, ROOT, self.rows.logits[growth.newest], count)
        for depth in range(1, num_levels):
            frontier = candidates.most_confident(level, top_k)
            logits = growth.run(candidates, frontier, depth)
            level = [child for node, row in zip(frontier, logits)
                     for child in candidates.add_children(self.head, node, row, count)]
        return candidates


class _Growth:
    """The draft rows of one round: they read the committed rows and their own ancestors."""

    def __init__(self, drafting, base):
        self.drafting, self.newest = drafting, base - 2
        self.num_committed = base - 1
        self.cache = [(key[:base - 1], value[:base - 1]) for key, value in drafting.rows.cache]
        self.row_of = {}  # candidate: number of its draft row
        self.ancestry = torch.zeros(0, 0, dtype=torch.bool)  # [rows, rows]: a row's ancestors and itself
        fed_back = drafting.features if drafting.conventions.feeds_back_input else drafting.rows.fed_back
        self.outputs = fed_back[self.newest:self.newest + 1]  # [1 + rows, H]; the first is the newest committed row's

    def run(self, candidates, frontier, depth):
        """Logits [F, Vd] behind the candidates of `frontier`."""
        head, conventions = self.drafting.head, self.drafting.conventions
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
