"""Small random LFM2 targets (short convolutions, attention, and with `lfm2_moe` a mixture of experts), as in targets.py."""
import dataclasses

import torch

from training.reference.layers import attend, causal, rms_norm, rotate
from training.reference.targets import StoredTarget, random_draws

ARCHITECTURES = {"lfm2": "Lfm2ForCausalLM", "lfm2_moe": "Lfm2MoeForCausalLM"}


@dataclasses.dataclass(frozen=True)
class Lfm2Shape:
    """Named like the fields of config.json."""

    model_type: str = "lfm2"
    vocab_size: int = 384
    hidden_size: int = 64
    intermediate_size: int = 240  # with the adjustment below: 160
    num_hidden_layers: int = 6
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    norm_eps: float = 1e-5
    rope_theta: float = 50000.0
    max_position_embeddings: int = 2048
    conv_L_cache: int = 3
    conv_bias: bool = True
    layer_types: tuple = ("conv", "full_attention", "conv", "conv", "full_attention", "conv")
    block_multiple_of: int = 32              # lfm2, as are the next two
    block_ffn_dim_multiplier: float = 1.0
    block_auto_adjust_ff_dim: bool = True
    moe_intermediate_size: int = 48          # lfm2_moe, as are the next
    num_experts: int = 8
    num_experts_per_tok: int = 2
    num_dense_layers: int = 1
    use_expert_bias: bool = True
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 1.3
    tie_word_embeddings: bool = True

    @property
    def is_mixture(self):
        return self.model_type == "lfm2_moe"

    def has_experts(self, layer):
        return self.is_mixture and layer >= self.num_dense_layers

    @property
    def head_dim(self):
        return self.hidden_size // self.num_attention_heads

    @property
    def inner(self):
        if self.is_mixture or not self.block_auto_adjust_ff_dim:
            return self.intermediate_size
        size = int(self.block_ffn_dim_multiplier * int(2 * self.intermediate_size / 3))
        return self.block_multiple_of * -(-size // self.block_multiple_of)


class Lfm2Target(StoredTarget):
    block = "feed_forward."
    parts = ("w1", "w3", "w2")
    final_norm = "model.embedding_norm"

    def config(self):
        return config_of(self.shape)

    def _norm(self, name, x):
        return rms_norm(x, self.weights[name + ".weight"], self.shape.norm_eps)

    def _layer(self, layer, hidden):
        name = f"model.layers.{layer}."
        x = self._norm(name + "operator_norm", hidden)
        convolves = self.shape.layer_types[layer] == "conv"
        hidden = hidden + (self._convolution(name + "conv.", x) if convolves else self._attention(name + "self_attn.", x))
        x, name = self._norm(name + "ffn_norm", hidden), name + "feed_forward."
        return hidden + (self._mixture(name, x) if self.shape.has_experts(layer) else self._feed_forward(name, x))

    def _convolution(self, name, x):
        """y_t = C_t * sum over j of w_j (B u)_{t - (L-1) + j}, rows before the text being 0."""
        b, c, u = self._linear(name + "in_proj", x).chunk(3, dim=-1)
        taps = self.weights[name + "conv.weight"][:, 0]  # [H, L]
        size = taps.shape[1]
        z = torch.cat([torch.zeros(size - 1, x.shape[1]), b * u])
        y = sum(taps[:, j] * z[j:j + x.shape[0]] for j in range(size))
        if name + "conv.bias" in self.weights:
            y = y + self.weights[name + "conv.bias"]
        return self._linear(name + "out_proj", c * y)

    def _attention(self, name, x):
        shape = self.shape
        positions = torch.arange(len(x))
        query, key, value = (self._linear(name + part, x).unflatten(-1, (-1, shape.head_dim))
                             for part in ("q_proj", "k_proj", "v_proj"))
        query, key = self._norm(name + "q_layernorm", query), self._norm(name + "k_layernorm", key)
        attended = attend(rotate(query, positions, shape.rope_theta), rotate(key, positions, shape.rope_theta), value,
                          causal(len(x)), shape.head_dim ** -0.5)
        return self._linear(name + "out_proj", attended)

    def _feed_forward(self, name, x):
        return self._linear(name + "w2", torch.nn.functional.silu(self._linear(name + "w1", x)) * self._linear(name + "w3", x))

    def _mixture(self, name, x):
        """The bias changes the selection of experts, but not their weights."""
        shape = self.shape
        scores = self._linear(name + "gate", x).sigmoid()
        chosen = (scores + self.weights[name + "expert_bias"] if shape.use_expert_bias else scores).topk(shape.num_experts_per_tok, dim=-1).indices
        weights = scores.gather(1, chosen)
        if shape.norm_topk_prob:
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-6)
        weights = weights * shape.routed_scaling_factor
        return self._mix(name, x, chosen, weights)


def config_of(shape):
    fields = dataclasses.asdict(shape)
    of_mixture = ("moe_intermediate_size", "num_experts", "num_experts_per_tok", "num_dense_layers", "use_expert_bias", "norm_topk_prob",
                  "routed_scaling_factor")
    of_dense = ("block_multiple_of", "block_ffn_dim_multiplier", "block_auto_adjust_ff_dim")
    for other in of_dense if shape.is_mixture else of_mixture:
        del fields[other]
    return fields | {"architectures": [ARCHITECTURES[shape.model_type]], "torch_dtype": "float32", "bos_token_id": 0, "eos_token_id": 1}


def random_lfm2(shape, seed):
    """Weights with which every branch changes the residual stream. No factor or bias has its default of 0 or 1."""
    normal, matrix, norm = random_draws(seed)
    width, keys = shape.hidden_size, shape.num_key_value_heads * shape.head_dim
    weights = {"model.embed_tokens.weight": normal(0.3, shape.vocab_size, width), "model.embedding_norm.weight": norm(width)}
    if not shape.tie_word_embeddings:
        weights["lm_head.weight"] = normal(0.3, shape.vocab_size, width)
    for layer in range(shape.num_hidden_layers):
        name = f"model.layers.{layer}."
        weights |= {f"{name}{one}.weight": norm(width) for one in ("operator_norm", "ffn_norm")}
        if shape.layer_types[layer] == "conv":
            weights |= {name + "conv.in_proj.weight": matrix(3 * width, width), name + "conv.out_proj.weight": matrix(width, width),
                        name + "conv.conv.weight": normal(0.8, width, 1, shape.conv_L_cache)}
            if shape.conv_bias:
                weights |= {name + "conv.in_proj.bias": normal(0.2, 3 * width), name + "conv.out_proj.bias": normal(0.2, width),
                            name + "conv.conv.bias": normal(0.2, width)}
        else:
            attention = name + "self_attn."
            weights |= {f"{attention}{one}_layernorm.weight": norm(shape.head_dim) for one in "qk"}
            weights |= {f"{attention}{part}.weight": matrix(rows, width)
                        for part, rows in (("q_proj", width), ("k_proj", keys), ("v_proj", keys), ("out_proj", width))}
        inner, blocks = shape.inner, [name + "feed_forward."]
        if shape.has_experts(layer):
            weights[name + "feed_forward.gate.weight"] = matrix(shape.num_experts, width)
            if shape.use_expert_bias:
                weights[name + "feed_forward.expert_bias"] = normal(0.3, shape.num_experts)
            inner = shape.moe_intermediate_size
            blocks = [f"{name}feed_forward.experts.{expert}." for expert in range(shape.num_experts)]
        for block in blocks:
            weights |= {block + "w1.weight": matrix(inner, width), block + "w3.weight": matrix(inner, width), block + "w2.weight": matrix(width, inner)}
    return Lfm2Target(shape, weights)
