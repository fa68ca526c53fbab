"""Small random targets of the dense families whose layers differ a little from llama's, as in targets.py."""
import dataclasses
import math

import torch

from training.reference import rotations
from training.reference.layers import attend
from training.reference.targets import Target, TargetShape, random_target

ARCHITECTURES = {"smollm3": "SmolLM3ForCausalLM", "granite": "GraniteForCausalLM", "ministral3": "Ministral3ForCausalLM",
                 "phi3": "Phi3ForCausalLM"}
# Fields that only one family has.
OF_FAMILY = {"smollm3": ("no_rope_layers", "no_rope_layer_interval"),
             "granite": ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"),
             "ministral3": ("rope_parameters",),
             "phi3": ("rope_scaling", "partial_rotary_factor", "original_max_position_embeddings", "sliding_window")}
ONLY_TARGETS = ("rope_local_base_freq", "sliding_window_pattern", "query_pre_attn_scalar", "num_experts",
                "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob", "mlp_only_layers")


# The text of the tests passes the original context seven times.
YARN = {"rope_type": "yarn", "rope_theta": 50000.0, "factor": 8.0, "original_max_position_embeddings": 32, "beta_fast": 4.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}


LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "long_factor": [1.0, 1.3, 2.1, 3.4, 5.5, 8.9]}


@dataclasses.dataclass(frozen=True)
class DenseShape(TargetShape):
    """Named like the fields of config.json."""

    attention_bias: bool = False
    no_rope_layers: tuple | None = (1, 0, 1, 1, 0, 0, 1, 1)  # smollm3: 0 for those without rotation
    no_rope_layer_interval: int = 4                          # smollm3: without that list
    embedding_multiplier: float = 5.0                        # granite, as are the next
    attention_multiplier: float = 0.31
    residual_multiplier: float = 0.37
    logits_scaling: float = 0.7
    partial_rotary_factor: float = 0.75                      # phi3, as are the next
    original_max_position_embeddings: int = 60
    rope_scaling: dict | None = dataclasses.field(default_factory=lambda: dict(LONGROPE))
    rope_parameters: dict | None = dataclasses.field(default_factory=lambda: dict(YARN))  # ministral3

    @property
    def attention_scale(self):
        return self.attention_multiplier if self.model_type == "granite" else self.head_dim ** -0.5

    def rotates(self, layer):
        if self.model_type != "smollm3":
            return True
        return self.no_rope_layers[layer] == 1 if self.no_rope_layers else (layer + 1) % self.no_rope_layer_interval != 0


class DenseTarget(Target):
    def config(self):
        return config_of(self.shape)

    def of_family(self, name, others=1.0):
        """A factor that only one family has."""
        return getattr(self.shape, name) if name in OF_FAMILY[self.shape.model_type] else others

    @property
    def embedding_scale(self):
        return self.of_family("embedding_multiplier")

    def run(self, hidden, positions, visible):
        made = super().run(hidden, positions, visible)
        return dataclasses.replace(made, logits=made.logits / self.of_family("logits_scaling"))

    def _layer(self, layer, hidden, positions, visible):
        name, factor = f"model.layers.{layer}.", self.of_family("residual_multiplier")
        hidden = hidden + factor * self._attention(layer, self._norm(name + "input_layernorm", hidden), positions, visible)
        return hidden + factor * self._feed_forward(name + "mlp.", self._norm(name + "post_attention_layernorm", hidden))

    def _attention(self, layer, x, positions, visible):
        shape, name = self.shape, f"model.layers.{layer}.self_attn."
        query, key, value = (self._linear(name + part, x).unflatten(-1, (-1, shape.head_dim))
                             for part in ("q_proj", "k_proj", "v_proj"))
        if shape.model_type == "phi3" and shape.sliding_window is not None:
            visible = visible & (positions[:, None] - positions < shape.sliding_window)
        if shape.rotates(layer):
            query, key = self._rotated(layer, query, key, positions)
        attended = attend(query, key, value, visible, shape.attention_scale)
        return self._linear(name + "o_proj", attended)


    def _rotated(self, layer, query, key, positions):
        shape = self.shape
        count, growth = int(shape.head_dim * self.of_family("partial_rotary_factor")), 1.0
        frequencies, factor = rotations.plain(shape.rope_theta, count), 1.0
        if shape.model_type == "ministral3":
            rope = shape.rope_parameters
            frequencies = rotations.yarn(rope["rope_theta"], count, rope["factor"], rope["original_max_position_embeddings"],
                                         rope["beta_fast"], rope["beta_slow"], rope.get("truncate", True))
            factor = rotations.magnitude(rope["factor"], rope["mscale"]) / rotations.magnitude(rope["factor"], rope["mscale_all_dim"])
            growth = 1 + rope["llama_4_scaling_beta"] * torch.log1p((positions // rope["original_max_position_embeddings"]).double())
        if shape.model_type == "phi3" and shape.rope_scaling is not None:
            original, context = shape.original_max_position_embeddings, shape.max_position_embeddings
            divisors = shape.rope_scaling["long_factor" if context > original else "short_factor"]
            frequencies = frequencies / torch.tensor(divisors, dtype=torch.float64)
            factor = math.sqrt(1 + math.log(context / original) / math.log(original)) if context > original else 1.0
        return rotations.rotate_by(query, positions, frequencies, factor * growth), rotations.rotate_by(key, positions, frequencies, factor)

    def stored(self):
        """Phi-3 has queries, keys and values in one tensor, and gate and up in another."""
        if self.shape.model_type != "phi3":
            return self.weights
        weights = dict(self.weights)
        for layer in range(self.shape.num_hidden_layers):
            name = f"model.layers.{layer}."
            for fused, parts in (("self_attn.qkv_proj", ("q_proj", "k_proj", "v_proj")), ("mlp.gate_up_proj", ("gate_proj", "up_proj"))):
                block = name + fused.split(".")[0]
                weights[f"{name}{fused}.weight"] = torch.cat([weights.pop(f"{block}.{part}.weight") for part in parts])
        return weights


def config_of(shape):
    fields = {name: value for name, value in dataclasses.asdict(shape).items() if name not in ONLY_TARGETS}
    others = {name for family, names in OF_FAMILY.items() if family != shape.model_type for name in names}
    fields = {name: value for name, value in fields.items() if name not in others and value is not None}
    if "rope_parameters" in fields:
        del fields["rope_theta"]
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
