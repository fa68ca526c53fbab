"""Small random targets of the dense families whose layers differ a little from llama's, as in targets.py."""
import dataclasses

import torch

from training.reference.layers import attend, rotate
from training.reference.targets import Target, TargetShape, random_target

ARCHITECTURES = {"smollm3": "SmolLM3ForCausalLM"}
ONLY_TARGETS = ("rope_local_base_freq", "sliding_window", "sliding_window_pattern", "query_pre_attn_scalar", "num_experts",
                "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob", "mlp_only_layers")


@dataclasses.dataclass(frozen=True)
class DenseShape(TargetShape):
    """Named like the fields of config.json."""

    attention_bias: bool = False
    no_rope_layers: tuple | None = (1, 0, 1, 1, 0, 0, 1, 1)  # smollm3: 0 for those without rotation
    no_rope_layer_interval: int = 4                          # smollm3: without that list

    def rotates(self, layer):
        if self.model_type != "smollm3":
            return True
        return self.no_rope_layers[layer] == 1 if self.no_rope_layers else (layer + 1) % self.no_rope_layer_interval != 0


class DenseTarget(Target):
    def config(self):
        return config_of(self.shape)

    def _attention(self, layer, x, positions, visible):
        shape, name = self.shape, f"model.layers.{layer}.self_attn."
        query, key, value = (self._linear(name + part, x).unflatten(-1, (-1, shape.head_dim))
                             for part in ("q_proj", "k_proj", "v_proj"))
        if shape.rotates(layer):
            query, key = (rotate(heads, positions, shape.rope_theta) for heads in (query, key))
        attended = attend(query, key, value, visible, shape.head_dim ** -0.5)
        return self._linear(name + "o_proj", attended)


def config_of(shape):
    fields = {name: value for name, value in dataclasses.asdict(shape).items() if name not in ONLY_TARGETS}
    if shape.model_type != "smollm3":
        del fields["no_rope_layers"], fields["no_rope_layer_interval"]
    elif shape.no_rope_layers is None:
        del fields["no_rope_layers"]
    return fields | {"architectures": [ARCHITECTURES[shape.model_type]], "torch_dtype": "float32", "hidden_act": "silu",
                     "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}


def random_dense(shape, seed):
    """The weights of a random target of llama's form, and what the family has beside them."""
    weights = random_target(shape, seed).weights
    generator = torch.Generator().manual_seed(seed + 1)
    width, queries = shape.hidden_size, shape.num_attention_heads * shape.head_dim
    keys = shape.num_key_value_heads * shape.head_dim
    for layer in range(shape.num_hidden_layers):
        for part, rows in (("q", queries), ("k", keys), ("v", keys), ("o", width)):
            if shape.attention_bias:
                weights[f"model.layers.{layer}.self_attn.{part}_proj.bias"] = torch.randn(rows, generator=generator) * 0.2
    return DenseTarget(shape, weights)
