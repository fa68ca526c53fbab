"""Modules that heads are made of. Names of parameters are those of transformers' decoder layers."""
import dataclasses

import torch
from torch import nn

from training.reference.layers import attend, rms_norm, rotate


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerShape:
    """The numbers of a decoder layer."""

    hidden_size: int = 64
    intermediate_size: int = 96
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 16
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    rotated_share: float = 1.0    # of a head's values, from the first one
    qkv_bias: bool = False
    output_bias: bool = False     # of o_proj
    qk_norm: bool = False         # layers of Qwen3: query and key are normalised by head
    output_gate: bool = False     # layers of Qwen3-Next: q_proj has for each head the rows of the query, then of a gate
    num_experts: int = 0          # in place of the feed-forward block, as are the next; 0: none
    used_experts: int = 2         # of a row
    expert_size: int = 48
    shared_size: int = 56         # of the expert that every row uses
    normalises_experts: bool = True  # the weights of the used experts are divided by their sum


def sizes_of(target_shape):
    """Fields of LayerShape for a layer like those of a target."""
    same = ("hidden_size", "intermediate_size", "head_dim", "rms_norm_eps", "rope_theta")
    return {name: getattr(target_shape, name) for name in same} | {
        "num_heads": target_shape.num_attention_heads, "num_kv_heads": target_shape.num_key_value_heads}


class Norm(nn.Module):
    def __init__(self, size, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(size)), epsilon

    def forward(self, x):
        return rms_norm(x, self.weight, self.epsilon)


class Attention(nn.Module):
    def __init__(self, shape, width):
        super().__init__()
        self.shape = shape
        queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        self.q_proj = nn.Linear(width, (1 + shape.output_gate) * queries, bias=shape.qkv_bias)
        self.k_proj = nn.Linear(width, keys, bias=shape.qkv_bias)
        self.v_proj = nn.Linear(width, keys, bias=shape.qkv_bias)
        self.o_proj = nn.Linear(queries, shape.hidden_size, bias=shape.output_bias)
        if shape.qk_norm:
            self.q_norm = Norm(shape.head_dim, shape.rms_norm_eps)
            self.k_norm = Norm(shape.head_dim, shape.rms_norm_eps)

    def forward(self, x, positions, visible, past):
        """x [R, width]; `past`: keys and values [C, K, D]; visible [R, C + R]. Returns [R, H] and the longer past."""
        shape, size = self.shape, self.shape.head_dim
        query = self.q_proj(x).unflatten(-1, (shape.num_heads, -1))
        query, gate = query[..., :size], query[..., size:]
        key, value = (part(x).unflatten(-1, (shape.num_kv_heads, size)) for part in (self.k_proj, self.v_proj))
        if shape.qk_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        num_rotated = int(shape.rotated_share * size)
        query, key = (rotate(part, positions, shape.rope_theta, num_rotated) for part in (query, key))
        key, value = torch.cat([past[0], key]), torch.cat([past[1], value])
        attended = attend(query, key, value, visible, size ** -0.5)
        if shape.output_gate:
            attended = attended * gate.flatten(1).sigmoid()
        return self.o_proj(attended), (key, value)

    def empty_past(self):
        none = torch.zeros(0, self.shape.num_kv_heads, self.shape.head_dim)
        return none, none


class Mlp(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Mixture(nn.Module):
    """Experts, of which each row uses those with the largest probabilities, weighted by these, and one that all rows use, by a
    factor of its own."""

    def __init__(self, shape):
        super().__init__()
        self.shape, width = shape, shape.hidden_size
        self.gate = nn.Linear(width, shape.num_experts, bias=False)
        self.experts = nn.ModuleList([Mlp(width, shape.expert_size) for _ in range(shape.num_experts)])
        self.shared_expert = Mlp(width, shape.shared_size)
        self.shared_expert_gate = nn.Linear(width, 1, bias=False)

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(self.shape.used_experts, dim=-1)
        if self.shape.normalises_experts:
            weights = weights / weights.sum(-1, keepdim=True)
        out = self.shared_expert(x) * self.shared_expert_gate(x).sigmoid()
        for number, expert in enumerate(self.experts):
            rows, slots = (chosen == number).nonzero(as_tuple=True)
            out = out.index_add(0, rows, weights[rows, slots, None] * expert(x[rows]))
        return out


class PlainLayer(nn.Module):
    """A decoder layer. EAGLE-1's first one has no input norm."""

    def __init__(self, shape, has_input_norm=True):
        super().__init__()
        width = shape.hidden_size
        self.input_layernorm = Norm(width, shape.rms_norm_eps) if has_input_norm else nn.Identity()
        self.self_attn = Attention(shape, width)
        self.post_attention_layernorm = Norm(width, shape.rms_norm_eps)
        self.mlp = Mixture(shape) if shape.num_experts else Mlp(width, shape.intermediate_size)

    def forward(self, hidden, positions, visible, past):
        attended, past = self.self_attn(self.input_layernorm(hidden), positions, visible, past)
        hidden = hidden + attended
        return hidden + self.mlp(self.post_attention_layernorm(hidden)), past
