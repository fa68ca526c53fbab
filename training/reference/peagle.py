"""P-EAGLE (arXiv:2602.01469), forward only: an EAGLE-3 head of several layers whose mask rows have a token of their
own, and a trained vector in place of the target's hidden states.
"""
import torch
from torch import nn

from training.reference.eagle import EagleHead
from training.reference.mask_drafting import MaskConventions, MaskDrafting


class PEagleHead(EagleHead):
    conventions = MaskConventions()

    def __init__(self, shape):
        super().__init__(shape)
        self.max_levels = 1 + shape.num_masks
        self.mask_hidden = nn.Parameter(torch.zeros(1, 1, shape.feature_width))

    def mask_rows(self, positions, visible, cache):
        count = len(positions)
        features = self.project(self.mask_hidden[0].expand(count, -1))
        return self(torch.full((count,), self.shape.mask_token), features, positions, visible, cache)

    def drafting(self, features, tokens):
        return MaskDrafting(self, features, tokens)
