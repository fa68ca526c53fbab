"""Drafts of heads with mask rows (P-EAGLE, DART): one pass over the text and, behind its newest row, one row for each
further token, whose own token is not known. The newest row predicts the first token of a draft, mask row j the one
behind the j-th, whatever tokens are drafted before it. Such a head has what one of row_drafting.py has, and
`mask_rows`.
"""
import dataclasses

import torch

from training.reference.drafting import Growth
from training.reference.row_drafting import Conventions, RowDrafting


@dataclasses.dataclass(frozen=True)
class MaskConventions(Conventions):
    """`first_draft_position` applies to mask rows; nothing is fed back. Other values than these are mutants."""

    first_level_row: int = 0         # the row that gives level 0: 0 is the newest one
    norms_once: bool = False         # DART: one final norm instead of two
    masks_read_newest: bool = False  # mask rows are rows like the newest one
    masks_see_masks: bool = True     # besides the text
    adds_second_half: bool = False   # DART: the other half of the trained vector is a mask row's residual
    depth_offset: int = 0            # DART: added to the depth that a level's weight follows from
    shares_of_all: bool = False      # DART: shares are among all tokens


class MaskDrafting(RowDrafting):
    def begin(self, base):
        return _MaskGrowth(self, base)


class _MaskGrowth(Growth):
    """All rows of one round: mask rows read the committed rows and the mask rows before them."""

    def __init__(self, drafting, base):
        head, newest = drafting.head, base - 2
        count, conventions = head.max_levels - 1 + head.conventions.first_level_row, head.conventions
        cache = [(key[:base - 1], value[:base - 1]) for key, value in drafting.rows.cache]
        own = torch.ones(count, count, dtype=torch.bool).tril()
        if not conventions.masks_see_masks:
            own = torch.eye(count, dtype=torch.bool)
        visible = torch.cat([torch.ones(count, base - 1, dtype=torch.bool), own], dim=-1)
        positions = newest + 1 + conventions.first_draft_position + torch.arange(count)
        if conventions.masks_read_newest:
            tokens = torch.full((count,), drafting.tokens[newest + 1])
            masked = head(tokens, drafting.features[newest].expand(count, -1), positions, visible, cache)
        else:
            masked = head.mask_rows(positions, visible, cache)
        self.rows = torch.cat([drafting.rows.logits[newest:newest + 1], masked.logits])[conventions.first_level_row:]
        self.logits = self.rows[0]

    def run(self, candidates, frontier, depth):
        return self.rows[depth].expand(len(frontier), -1)
