"""Which tree a drafter with look-ahead rows is to draft in each round of a trace: it depends on the rows
after the node that was accepted last."""
from head_requests import DRAFTER

FAMILIES = ("pass", "ppd")


def halving(top_k, num_levels):
    """`top_k` children of the root, half as many of each of those, and so on."""
    paths, last = [], [()]
    for level in range(num_levels):
        last = [(*path, rank) for path in last for rank in range(max(1, top_k >> level))]
        paths += last
    return paths


def trees_of(case, head):
    """For s = 1, 2, .. known levels the nodes (path, rows after it)."""
    shape = head.shape
    if case.tree == "static" and not case.tree_paths and shape.trees:
        return shape.trees
    if case.tree == "chain":
        paths = [(0,) * (level + 1) for level in range(shape.num_rows)]
    elif case.tree_paths:
        paths = [tuple(map(int, path.split("."))) for path in case.tree_paths]
    else:
        paths = halving(case.tree_top_k, shape.num_rows)[:case.max_tree_nodes]
    return [[(path, max(shape.num_rows - sum(path), 0)) for path in paths if len(path) <= state]
            for state in range(1, shape.num_rows + 1)]


def depth_of(traced):
    depths = []
    for parent in traced["parents"]:
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
    return max(depths, default=0)


class RowsOfRounds:
    """Follows the rounds of one answer."""

    def __init__(self, case, head, answer):
        self.case, self.answer, self.num_rows = case, answer, head.shape.num_rows
        self.trees = trees_of(case, head)
        self.known = None  # levels known before the next round; None: that of the prompt may have had rows, or not

    def template(self, traced, levels):
        """The paths that this round should have, of at most `levels` levels, and whether it is short of some known
        levels. Empty: nothing was known. To be called for each round, in order."""
        known, size = self.known, len(traced["draft_tokens"])
        if known is None:
            known = self.num_rows if size > 0 else 0
        state = min(known, levels, depth_of(traced)) if size > 0 else min(known, levels)
        nodes = [node for node in self.trees[known - 1] if len(node[0]) <= state] if known > 0 else []
        is_short = state < min(known, levels)
        if is_short and state > 0:
            nodes = [node for node in self.trees[state - 1] if len(node[0]) <= state]
        self.known = min(self.rows_left(traced, nodes), levels)
        return [path for path, _ in nodes], is_short

    def rows_left(self, traced, nodes):
        """The rows after the node that this round accepted last."""
        if traced["drafter"] != DRAFTER:
            return 0
        if self.case.family == "pass":
            return 0 if traced["draft_tokens"] else self.num_rows
        return nodes[traced["accepted"][-1]][1] if traced["accepted"] else self.num_rows

    def begin(self, traced):
        """The first deciding round is the prompt's, which has rows only if it computed its last token alone."""
        if traced["base_length"] == len(self.answer.prompt):
            self.known = None
