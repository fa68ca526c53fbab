"""Drafts of heads that fill a block of slots in one pass (DFlash, DSpark). Such a head has `context`, `block`,
`logits_of_level` and `confidence_of_level`.
"""
import dataclasses

import torch

from training.reference.drafting import Draft, Drafting, Growth


@dataclasses.dataclass(frozen=True)
class BlockConventions:
    """What a head reads, as far as the head does not determine it. Other values than these are mutants."""

    context_through_norm: bool = False  # keys and values of the text pass the layer's norm first
    is_causal: bool = False             # slots see the slots before them only
    position_offset: int = 0            # added to the positions of the slots
    mask_offset: int = 0                # added to the positions of all slots but the first
    slot_offset: int = 0                # added to the slot that gives a level's logits
    token_offset: int = 0               # DSpark: added to the place of the token before a slot
    reads_draft_ids: bool = False       # DSpark: the token before a slot is numbered as in the draft vocabulary
    forgets_state: bool = False         # DSpark, rnn: every slot begins with the state of the first


class BlockDrafting(Drafting):
    def __init__(self, head, features, tokens):
        """features [n, T * H] of the positions 0 .. n - 1 of `tokens`, of which there are at least n + 1."""
        super().__init__(head)
        self.tokens, self.context = tokens, head.context(features)

    def begin(self, base):
        return _BlockGrowth(self, base)

    def cut(self, draft, base, threshold):
        """A chain up to the first token for which the head is not confident."""
        growth, margin = self.begin(base), draft.margin
        for level in range(len(draft.tokens)):
            confidence = self.head.confidence_of_level(growth.hidden, growth.before(draft.tokens[:level]))
            margin = min(margin, abs(confidence - threshold))
            if confidence < threshold:
                return Draft(draft.tokens[:level], draft.parents[:level], margin)
        return Draft(draft.tokens, draft.parents, margin)


class _BlockGrowth(Growth):
    """`hidden` [B, H]: what the slots' logits are made from."""

    def __init__(self, drafting, base):
        self.head, self.anchor = drafting.head, drafting.tokens[base - 1]
        past = [(key[:base - 1], value[:base - 1]) for key, value in drafting.context]
        self.hidden = self.head.block(self.anchor, base - 1, past)
        self.logits = self.head.logits_of_level(self.hidden, self.before([]))

    def before(self, path):
        """The tokens before each slot up to the one behind `path`."""
        return [self.anchor, *path]

    def run(self, candidates, frontier, depth):
        return torch.stack([self.head.logits_of_level(self.hidden, self.before(candidates.path(node)))
                            for node in frontier])
