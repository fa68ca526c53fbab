"""Drafts of a head: the greedy chain, the dynamic tree of EAGLE-2 (Li et al. 2024, section 4), and static trees (Cai et
al. 2024, section 2.1.2).

Levels and nodes are counted as in the engine's configuration: `draft_length` levels, at most `max_tree_nodes` drafted
nodes, `tree_top_k` nodes expanded in a level and children of each.
"""
import dataclasses

import torch

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


def best(values, count, borders=()):
    """Indices of the `count` largest values, largest first and ties to the lower index, and the gap to the next one.

    `borders`: if not only the set of them matters, the ranks that must not change places with the next one; the gap is
    the smallest of theirs.
    """
    order = torch.sort(values, descending=True, stable=True)
    gaps = [float(order.values[rank] - order.values[rank + 1]) for rank in borders or (count - 1,)
            if rank + 1 < len(values)]
    return order.indices[:count].tolist(), min(gaps, default=float("inf"))


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

    def add_children(self, head, parent, logits, count, borders=()):
        """The best tokens of a row [Vd]; returns the numbers of the new candidates."""
        self.logits[parent] = logits
        log_probs = logits.log_softmax(-1)
        drafted, gap = best(log_probs, count, borders)
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


class Growth:
    """The rows of one round: `logits` [Vd] behind the text, and what `run` computes behind candidates."""

    logits = None

    def run(self, candidates, frontier, depth):
        """Logits [F, Vd] behind the candidates of `frontier`, which are `depth` tokens long."""
        raise NotImplementedError


class Drafting:
    """A head over one request's text: rounds draft behind a prefix of it, of at least 2 tokens."""

    def __init__(self, head):
        self.head = head

    def begin(self, base):
        """The Growth of a draft behind the first `base` tokens."""
        raise NotImplementedError

    def chain(self, base, length):
        """The likeliest token `length` times."""
        return self.tree(base, 1, length, length)

    def tree(self, base, top_k, num_levels, max_nodes):
        """EAGLE-2: expansion by levels, then the `max_nodes` most confident candidates of all levels."""
        return self.grow(base, top_k, num_levels, max_nodes).draft(max_nodes)

    def grow(self, base, top_k, num_levels, max_nodes):
        """All candidates of a tree."""
        growth, candidates = self.begin(base), Candidates()
        count = min(top_k, max_nodes, self.head.shape.num_drafted)
        level = candidates.add_children(self.head, ROOT, growth.logits, count)
        for depth in range(1, num_levels):
            frontier = candidates.most_confident(level, top_k)
            logits = growth.run(candidates, frontier, depth)
            level = [child for node, row in zip(frontier, logits)
                     for child in candidates.add_children(self.head, node, row, count)]
        return candidates

    def fixed(self, base, template):
        """The tree that has a node for each path of ranks in `template`: rank r is the r-th likeliest child from 0."""
        growth, candidates = self.begin(base), Candidates()
        node_of, level = {(): ROOT}, [()]
        for depth in range(max(len(path) for path in template)):
            frontier = [path for path in level if num_ranks(template, path)]
            nodes = [node_of[path] for path in frontier]
            rows = growth.run(candidates, nodes, depth) if depth > 0 else [growth.logits]
            level = []
            for path, node, row in zip(frontier, nodes, rows):
                count, borders = num_ranks(template, path), borders_in(template, path)
                children = candidates.add_children(self.head, node, row, count, borders)
                level += [(*path, rank) for rank in range(count)]
                node_of |= zip(level[-count:], children)
        kept = [node for path, node in node_of.items() if path in template]  # parents first
        number = {ROOT: ROOT} | {node: place for place, node in enumerate(kept)}
        return Draft([candidates.tokens[node] for node in kept], [number[candidates.parents[node]] for node in kept],
                     candidates.margin)


def num_ranks(template, path):
    """One more than the highest rank below `path`. Published lists omit some ranks."""
    return max((one[-1] + 1 for one in template if len(one) == len(path) + 1 and one[:len(path)] == path), default=0)


def borders_in(template, path):
    """The children's ranks whose subtree is unlike that of the next rank: if they change places, the tree changes."""
    def below(rank):
        root = (*path, rank)
        return {one[len(root):] for one in template if one[:len(root)] == root}

    return [rank for rank in range(num_ranks(template, path)) if below(rank) != below(rank + 1)]
