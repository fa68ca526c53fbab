"""The heads of EAGLE-1, EAGLE-2 and EAGLE-3 (Li et al. 2024, 2024, 2025), forward only.

Row i pairs the target's feature of position i with token i + 1, stands at position i, and predicts token i + 2. A draft
row pairs the head's own output with a drafted token. Names of parameters are those of published files; EAGLE-3's first
layer is `layers.0` here and `midlayer` in some of them.
"""
import torch
from torch import nn

from training.reference.modules import Attention, Mlp, Norm, PlainLayer
from training.reference.row_drafting import Conventions, RowDrafting, Rows


class WideLayer(nn.Module):
    """EAGLE-3's first layer: its attention reads embedding and feature side by side."""

    def __init__(self, shape):
        super().__init__()
        width, self.shape = shape.hidden_size, shape
        self.input_layernorm = Norm(width, shape.rms_norm_eps)  # of the embedding
        self.hidden_norm = Norm(width, shape.rms_norm_eps)      # of the feature
        self.self_attn = Attention(shape, 2 * width)
        self.post_attention_layernorm = Norm(width, shape.rms_norm_eps)
        self.mlp = Mlp(width, shape.intermediate_size)

    def forward(self, embedding, feature, positions, visible, past):
        normalised = self.hidden_norm(feature)
        x = torch.cat([self.input_layernorm(embedding), normalised], dim=-1)
        attended, past = self.self_attn(x, positions, visible, past)
        hidden = (normalised if self.shape.norm_before_residual else feature) + attended
        return hidden + self.mlp(self.post_attention_layernorm(hidden)), past


class EagleHead(nn.Module):
    """A head of either family. `borrow` gives it the target's embedding and LM head where it has none."""

    conventions = Conventions()
    max_levels = 64

    def __init__(self, shape):
        super().__init__()
        self.shape, width, epsilon = shape, shape.hidden_size, shape.rms_norm_eps
        self.borrowed_embedding = self.borrowed_lm_head = None
        if shape.own_embedding:
            self.embed_tokens = nn.Embedding(shape.vocab_size, width)
        if shape.own_lm_head:
            self.lm_head = nn.Linear(width, shape.num_drafted, bias=False)
        if shape.is_eagle3:
            self.fc = nn.Linear(shape.feature_width, width, bias=shape.fc_bias)
            if shape.norm_before_fc:
                self.input_norm = Norm(shape.feature_width, epsilon)
            if shape.fc_norm:
                self.fc_norm = nn.ModuleList(Norm(shape.target_hidden_size, epsilon) for _ in shape.taps)
            first, self.norm = WideLayer(shape), Norm(width, epsilon)
            if shape.draft_vocab_size:
                self.register_buffer("d2t", torch.zeros(shape.draft_vocab_size, dtype=torch.int64))
        else:
            self.fc = nn.Linear(2 * width, width, bias=shape.fc_bias)
            first = PlainLayer(shape, has_input_norm=False)
        further = (PlainLayer(shape, has_input_norm=True) for _ in range(1, shape.num_layers))
        self.layers = nn.ModuleList([first, *further])

    def borrow(self, embedding, lm_head):
        self.borrowed_embedding, self.borrowed_lm_head = embedding, lm_head
        return self

    def embed(self, tokens):
        return self.embed_tokens(tokens) if self.shape.own_embedding else self.borrowed_embedding[tokens]

    def logits_of(self, x):
        return self.lm_head(x) if self.shape.own_lm_head else x @ self.borrowed_lm_head.T

    def target_ids(self, drafted):
        """Draft ids as ids of the target: d2t holds differences."""
        return drafted + self.d2t[drafted] if self.shape.draft_vocab_size else drafted

    def project(self, features):
        """Target features [R, T * Ht] as features of rows; EAGLE-1 takes them as they are."""
        if not self.shape.is_eagle3:
            return features
        if self.shape.norm_before_fc:
            features = self.input_norm(features)
        if self.shape.fc_norm:
            parts = features.split(self.shape.target_hidden_size, dim=-1)
            features = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts)], dim=-1)
        return self.fc(features)

    def empty_cache(self):
        return [layer.self_attn.empty_past() for layer in self.layers]

    def drafting(self, features, tokens):
        return RowDrafting(self, features, tokens)

    def within(self, layer, visible, positions):
        """What rows see of `visible` in a layer. Columns of committed rows are their positions; a window is longer than a draft."""
        window = self.shape.windows[layer] if layer < len(self.shape.windows) else 0
        return visible & (torch.arange(visible.shape[1]) > positions[:, None] - window) if window else visible

    @torch.no_grad()
    def forward(self, tokens, features, positions, visible, cache):
        """One pass over rows: tokens, positions [R], features [R, H], visible [R, C + R] over cached and new rows."""
        cache, embedding = list(cache), self.embed(tokens)
        if self.shape.is_eagle3:
            hidden, cache[0] = self.layers[0](embedding, features, positions, self.within(0, visible, positions), cache[0])
        else:
            joined = self.fc(torch.cat([embedding, features], dim=-1))
            hidden, cache[0] = self.layers[0](joined, positions, visible, cache[0])
        for number, layer in enumerate(self.layers[1:], 1):
            hidden, cache[number] = layer(hidden, positions, self.within(number, visible, positions), cache[number])
        normalised = self.norm(hidden) if self.shape.is_eagle3 else hidden
        return Rows(self.logits_of(normalised), normalised if self.shape.norm_output else hidden, cache)
