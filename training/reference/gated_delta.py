"""Small random targets with gated delta rules, as in targets.py: Qwen3.5 (`qwen3_5_text`), its mixture of experts (`qwen3_5_moe_text`) and
Qwen3-Next (`qwen3_next`), which stores the same layers in another packing."""
import dataclasses

import torch

from training.reference.layers import attend, causal, rms_norm, rotate
from training.reference.targets import StoredTarget, random_draws

ARCHITECTURES = {"qwen3_5_text": "Qwen3_5ForCausalLM", "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM", "qwen3_next": "Qwen3NextForCausalLM"}


@dataclasses.dataclass(frozen=True)
class GatedDeltaShape:
    """Named like the fields of config.json. Two value heads and more read one key head, so that their order counts."""

    model_type: str = "qwen3_5_text"
    vocab_size: int = 384
    hidden_size: int = 64
    intermediate_size: int = 160
    num_hidden_layers: int = 5
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    partial_rotary_factor: float = 0.25
    rms_norm_eps: float = 1e-6
    rope_theta: float = 50000.0
    max_position_embeddings: int = 2048
    layer_types: tuple = ("linear_attention", "linear_attention", "full_attention", "linear_attention", "full_attention")
    linear_conv_kernel_dim: int = 4
    linear_num_key_heads: int = 2
    linear_num_value_heads: int = 6
    linear_key_head_dim: int = 16
    linear_value_head_dim: int = 24
    num_experts: int = 8                       # of mixtures, as are the next
    num_experts_per_tok: int = 2
    moe_intermediate_size: int = 48
    shared_expert_intermediate_size: int = 56
    norm_topk_prob: bool = True                # qwen3_next
    mlp_only_layers: tuple = ()                # qwen3_next: layers without experts
    tie_word_embeddings: bool = False

    @property
    def is_mixture(self):
        return self.model_type != "qwen3_5_text"

    def has_experts(self, layer):
        return self.is_mixture and layer not in self.mlp_only_layers


class GatedDeltaTarget(StoredTarget):
    def config(self):
        return config_of(self.shape)

    def _norm(self, name, x):
        """Files store the factors minus one."""
        return rms_norm(x, 1 + self.weights[name + ".weight"], self.shape.rms_norm_eps)

    def _layer(self, layer, hidden):
        name = f"model.layers.{layer}."
        x = self._norm(name + "input_layernorm", hidden)
        is_linear = self.shape.layer_types[layer] == "linear_attention"
        hidden = hidden + (self._delta_rule(name + "linear_attn.", x) if is_linear else self._attention(name + "self_attn.", x))
        x, name = self._norm(name + "post_attention_layernorm", hidden), name + "mlp."
        return hidden + (self._mixture(name, x) if self.shape.has_experts(layer) else self._feed_forward(name, x))

    def _projections(self, name, x):
        """Queries, keys and values [R, 2 K + V], gates [R, value heads, dim], beta and alpha [R, value heads]."""
        shape = self.shape
        keys, values = shape.linear_num_key_heads * shape.linear_key_head_dim, shape.linear_num_value_heads * shape.linear_value_head_dim
        if shape.model_type != "qwen3_next":
            parts = [self._linear(name + part, x) for part in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")]
            return parts[0], parts[1].unflatten(-1, (shape.linear_num_value_heads, -1)), parts[2], parts[3]
        shared = shape.linear_num_value_heads // shape.linear_num_key_heads  # value heads of a key head
        of_group = [shape.linear_key_head_dim] * 2 + [shared * shape.linear_value_head_dim] * 2
        groups = self._linear(name + "in_proj_qkvz", x).unflatten(-1, (shape.linear_num_key_heads, -1)).split(of_group, dim=-1)
        query, key, value, gate = (part.flatten(1) for part in groups)
        assert query.shape[1] == keys and value.shape[1] == values
        beta, alpha = self._linear(name + "in_proj_ba", x).unflatten(-1, (shape.linear_num_key_heads, -1)).split(shared, dim=-1)
        return torch.cat([query, key, value], -1), gate.unflatten(-1, (shape.linear_num_value_heads, -1)), beta.flatten(1), alpha.flatten(1)

    def _delta_rule(self, name, x):
        """Row by row, in double precision."""
        shape, rows = self.shape, len(x)
        mixed, gate, beta, alpha = self._projections(name, x)
        taps = self.weights[name + "conv1d.weight"][:, 0]  # [C, L]
        size = taps.shape[1]
        before = torch.cat([torch.zeros(size - 1, mixed.shape[1]), mixed])
        mixed = torch.nn.functional.silu(sum(taps[:, j] * before[j:j + rows] for j in range(size)))
        keys = shape.linear_num_key_heads * shape.linear_key_head_dim
        query, key, value = (part.unflatten(-1, (-1, dim)) for part, dim in zip(
            mixed.split([keys, keys, mixed.shape[1] - 2 * keys], dim=-1),
            (shape.linear_key_head_dim, shape.linear_key_head_dim, shape.linear_value_head_dim)))
        repeats = shape.linear_num_value_heads // shape.linear_num_key_heads
        query, key = (of_length_one(part).repeat_interleave(repeats, dim=1).double() for part in (query, key))
        pace = torch.nn.functional.softplus(alpha + self.weights[name + "dt_bias"])
        decay = (-self.weights[name + "A_log"].exp() * pace).exp().double()
        beta, value = beta.sigmoid().double(), value.double()
        state = torch.zeros(shape.linear_num_value_heads, shape.linear_key_head_dim, shape.linear_value_head_dim, dtype=torch.float64)
        out = []
        for row in range(rows):
            state = decay[row, :, None, None] * state
            change = beta[row, :, None] * (value[row] - torch.einsum("hij,hi->hj", state, key[row]))
            state = state + key[row, :, :, None] * change[:, None]
            out.append(torch.einsum("hij,hi->hj", state, query[row]) * shape.linear_key_head_dim ** -0.5)
        out = rms_norm(torch.stack(out).float(), self.weights[name + "norm.weight"], shape.rms_norm_eps)
        return self._linear(name + "out_proj", (out * torch.nn.functional.silu(gate)).flatten(1))

    def _attention(self, name, x):
        """The rows of a head's gate follow those of its query."""
        shape = self.shape
        positions, rotated = torch.arange(len(x)), int(shape.partial_rotary_factor * shape.head_dim)
        query, gate = self._linear(name + "q_proj", x).unflatten(-1, (-1, 2 * shape.head_dim)).chunk(2, dim=-1)
        key, value = (self._linear(name + part, x).unflatten(-1, (-1, shape.head_dim)) for part in ("k_proj", "v_proj"))
        query, key = self._norm(name + "q_norm", query), self._norm(name + "k_norm", key)
        attended = attend(rotate(query, positions, shape.rope_theta, rotated), rotate(key, positions, shape.rope_theta, rotated), value,
                          causal(len(x)), shape.head_dim ** -0.5)
        return self._linear(name + "o_proj", attended * gate.flatten(1).sigmoid())

    def _feed_forward(self, name, x):
        return self._linear(name + "down_proj", torch.nn.functional.silu(self._linear(name + "gate_proj", x)) * self._linear(name + "up_proj", x))

    def _mixture(self, name, x):
        """Adds the expert that every row uses, with its own factor."""
        shape = self.shape
        weights, chosen = self._linear(name + "gate", x).softmax(-1).topk(shape.num_experts_per_tok, dim=-1)
        if shape.model_type != "qwen3_next" or shape.norm_topk_prob:
            weights = weights / weights.sum(-1, keepdim=True)
        shared = self._linear(name + "shared_expert_gate", x).sigmoid() * self._feed_forward(name + "shared_expert.", x)
        return self._mix(name, x, chosen, weights) + shared


def of_length_one(x):
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)


def config_of(shape):
    fields = dataclasses.asdict(shape)
    for name in () if shape.is_mixture else ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size"):
        del fields[name]
    for name in () if shape.model_type == "qwen3_next" else ("norm_topk_prob", "mlp_only_layers"):
        del fields[name]
    theta, share = fields.pop("rope_theta"), fields.pop("partial_rotary_factor")
    fields["rope_parameters"] = {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": share}
    return fields | {"architectures": [ARCHITECTURES[shape.model_type]], "torch_dtype": "float32", "hidden_act": "silu",
                     "bos_token_id": 0, "eos_token_id": 1}


def random_gated_delta(shape, seed):
    """Weights with which every branch changes the residual stream. No factor or bias has its default of 0 or 1."""
    normal, matrix, norm = random_draws(seed)
    width, keys = shape.hidden_size, shape.num_key_value_heads * shape.head_dim
    queries = shape.num_attention_heads * shape.head_dim

    def less_one(size):
        return norm(size) - 0.9

    weights = {"model.embed_tokens.weight": normal(0.3, shape.vocab_size, width), "model.norm.weight": less_one(width)}
    if not shape.tie_word_embeddings:
        weights["lm_head.weight"] = normal(0.3, shape.vocab_size, width)
    for layer in range(shape.num_hidden_layers):
        name = f"model.layers.{layer}."
        weights |= {f"{name}{one}.weight": less_one(width) for one in ("input_layernorm", "post_attention_layernorm")}
        if shape.layer_types[layer] == "linear_attention":
            weights |= random_rule(shape, name + "linear_attn.", normal, matrix, norm)
        else:
            attention = name + "self_attn."
            weights |= {f"{attention}{one}_norm.weight": less_one(shape.head_dim) for one in "qk"}
            weights |= {f"{attention}{part}.weight": matrix(rows, width)
                        for part, rows in (("q_proj", 2 * queries), ("k_proj", keys), ("v_proj", keys))}
            weights[attention + "o_proj.weight"] = matrix(width, queries)
        blocks = {name + "mlp.": shape.intermediate_size}
        if shape.has_experts(layer):
            weights[name + "mlp.gate.weight"] = matrix(shape.num_experts, width)
            weights[name + "mlp.shared_expert_gate.weight"] = matrix(1, width)
            blocks = {f"{name}mlp.experts.{expert}.": shape.moe_intermediate_size for expert in range(shape.num_experts)}
            blocks[name + "mlp.shared_expert."] = shape.shared_expert_intermediate_size
        for block, inner in blocks.items():
            weights |= {f"{block}{part}_proj.weight": matrix(inner, width) for part in ("gate", "up")}
            weights[block + "down_proj.weight"] = matrix(width, inner)
    return GatedDeltaTarget(shape, weights)


def random_rule(shape, name, normal, matrix, norm):
    heads, width = shape.linear_num_value_heads, shape.hidden_size
    values, keys = heads * shape.linear_value_head_dim, shape.linear_num_key_heads * shape.linear_key_head_dim
    packings = (("in_proj_qkvz", 2 * keys + 2 * values), ("in_proj_ba", 2 * heads)) if shape.model_type == "qwen3_next" else (
        ("in_proj_qkv", 2 * keys + values), ("in_proj_z", values), ("in_proj_b", heads), ("in_proj_a", heads))
    weights = {f"{name}{part}.weight": matrix(rows, width) for part, rows in packings}
    return weights | {name + "conv1d.weight": normal(0.6, 2 * keys + values, 1, shape.linear_conv_kernel_dim),
                      name + "A_log": normal(0.7, heads), name + "dt_bias": normal(0.7, heads),
                      name + "norm.weight": norm(shape.linear_value_head_dim), name + "out_proj.weight": matrix(width, values)}
