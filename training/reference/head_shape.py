"""The numbers of an EAGLE head. A tap is the target's residual stream after a layer; tap N follows the final norm."""
import dataclasses

from training.reference.modules import LayerShape


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadShape(LayerShape):
    """`family`: eagle (EAGLE-1 and EAGLE-2 have the same weights), eagle3 (P-EAGLE if it has mask rows) or dart, which
    has what eagle3 has."""

    family: str
    taps: tuple                   # the target's hidden states that make a feature, in order
    vocab_size: int               # of the target
    target_hidden_size: int = 64
    num_layers: int = 1
    draft_vocab_size: int = 0     # eagle3: tokens that can be drafted; 0: all of the target's
    fc_bias: bool = False
    norm_before_residual: bool = False  # eagle3: the residual is the normalised feature
    norm_before_fc: bool = False        # eagle3: one norm over all tapped states
    fc_norm: bool = False               # eagle3: one norm for each tapped state
    norm_output: bool = False           # eagle3: what is fed back has passed the last norm
    own_embedding: bool = False   # otherwise the target's
    own_lm_head: bool = True      # otherwise the target's
    num_masks: int = 0            # mask rows behind the newest one: P-EAGLE, DART
    mask_token: int = 0           # P-EAGLE: of mask rows
    windows: tuple = ()           # eagle3: of each layer the positions that a row sees; 0, or no entry: all

    @property
    def is_eagle3(self):
        return self.family in ("eagle3", "dart")

    @property
    def num_drafted(self):
        """Tokens that can be drafted: the width of the head's logits."""
        return self.draft_vocab_size or self.vocab_size

    @property
    def feature_width(self):
        return len(self.taps) * self.target_hidden_size


def default_taps(num_target_layers):
    """EAGLE-3: inputs of layers 2, N/2 and N - 3, as outputs of the layers before them."""
    return 1, num_target_layers // 2 - 1, num_target_layers - 4
