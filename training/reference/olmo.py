"""Small random OLMo 2 and 3 targets (norms behind blocks only, and in OLMo 3 windows), as in targets.py."""
import dataclasses

from training.reference import rotations
from training.reference.layers import attend
from training.reference.targets import Target, TargetShape, random_draws, random_target

ARCHITECTURES = {"olmo2": "Olmo2ForCausalLM", "olmo3": "Olmo3ForCausalLM"}
# The text of the tests passes the original context seven times. The magnitude is not that of the factor, 1.208.
YARN = {"rope_type": "yarn", "rope_theta": 50000.0, "factor": 8.0, "original_max_position_embeddings": 32, "beta_fast": 4.0, "beta_slow": 1.0,
        "attention_factor": 1.35}
PLAIN = {"rope_type": "default", "rope_theta": 50000.0}
# The window, 24, is smaller than the text, too.
LAYER_TYPES = ("sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention",
               "full_attention", "sliding_attention")
# Fields of the base that these families' files do not have.
ONLY_TARGETS = ("rope_theta", "rope_local_base_freq", "sliding_window_pattern", "query_pre_attn_scalar", "num_experts", "num_experts_per_tok",
                "moe_intermediate_size", "norm_topk_prob", "mlp_only_layers", "global_rope", "local_rope")


@dataclasses.dataclass(frozen=True)
class OlmoShape(TargetShape):
    """Named like the fields of config.json, except the rotary settings, of which there are two spellings."""

    model_type: str = "olmo3"
    rms_norm_eps: float = 1e-4
    attention_bias: bool = False
    layer_types: tuple | None = LAYER_TYPES  # olmo3, as are the next; None: as the class has them
    global_rope: dict = dataclasses.field(default_factory=lambda: dict(YARN))   # of layers without a window
    local_rope: dict | None = dataclasses.field(default_factory=lambda: dict(PLAIN))  # None: the older spelling, with one base for all

    def is_local(self, layer):
        if self.model_type != "olmo3":
            return False
        return self.layer_types[layer] == "sliding_attention" if self.layer_types else (layer + 1) % 4 != 0

    def rope_of(self, layer):
        if not self.is_local(layer):
            return self.global_rope
        return self.local_rope or PLAIN | {"rope_theta": self.global_rope["rope_theta"]}


class OlmoTarget(Target):
    def config(self):
        return config_of(self.shape)

    def _layer(self, layer, hidden, positions, visible):
        name = f"model.layers.{layer}."
        hidden = hidden + self._norm(name + "post_attention_layernorm", self._attention(layer, hidden, positions, visible))
        return hidden + self._norm(name + "post_feedforward_layernorm", self._feed_forward(name + "mlp.", hidden))

    def _attention(self, layer, x, positions, visible):
        shape, name = self.shape, f"model.layers.{layer}.self_attn."
        query, key = (self._norm(f"{name}{one}_norm", self._linear(f"{name}{one}_proj", x)) for one in "qk")
        query, key, value = (whole.unflatten(-1, (-1, shape.head_dim)) for whole in (query, key, self._linear(name + "v_proj", x)))
        if shape.is_local(layer):
            visible = visible & (positions[:, None] - positions < shape.sliding_window)
        frequencies, factor = rotation_of(shape.rope_of(layer), shape.head_dim)
        query, key = (rotations.rotate_by(heads, positions, frequencies, factor) for heads in (query, key))
        return self._linear(name + "o_proj", attend(query, key, value, visible, shape.head_dim ** -0.5))


def rotation_of(rope, head_dim):
    """Frequencies and magnitude."""
    if rope["rope_type"] == "default":
        return rotations.plain(rope["rope_theta"], head_dim), 1.0
    frequencies = rotations.yarn(rope["rope_theta"], head_dim, rope["factor"], rope["original_max_position_embeddings"],
                                 rope.get("beta_fast", 32.0), rope.get("beta_slow", 1.0))
    return frequencies, rope.get("attention_factor", rotations.magnitude(rope["factor"]))


def config_of(shape):
    fields = {name: value for name, value in dataclasses.asdict(shape).items() if name not in ONLY_TARGETS and value is not None}
    if shape.model_type == "olmo2":
        del fields["layer_types"], fields["sliding_window"]
        fields["rope_parameters"] = shape.global_rope
    elif shape.local_rope is not None:
        fields["rope_parameters"] = {"full_attention": shape.global_rope, "sliding_attention": shape.local_rope}
    else:
        fields["rope_theta"] = shape.global_rope["rope_theta"]
        fields["rope_scaling"] = {name: value for name, value in shape.global_rope.items() if name != "rope_theta"}
    return fields | {"architectures": [ARCHITECTURES[shape.model_type]], "torch_dtype": "float32", "hidden_act": "silu",
                     "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}


def random_olmo(shape, seed):
    """The weights of a random target of llama's form, with other norms."""
    weights = random_target(shape, seed).weights
    normal, _, norm = random_draws(seed + 1)
    sizes = {"q": shape.num_attention_heads * shape.head_dim, "k": shape.num_key_value_heads * shape.head_dim}
    for layer in range(shape.num_hidden_layers):
        name = f"model.layers.{layer}."
        del weights[name + "input_layernorm.weight"]
        weights[name + "post_feedforward_layernorm.weight"] = norm(shape.hidden_size)
        weights |= {f"{name}self_attn.{one}_norm.weight": norm(size) for one, size in sizes.items()}
        if shape.attention_bias:
            rows = sizes | {"v": sizes["k"], "o": shape.hidden_size}
            weights |= {f"{name}self_attn.{one}_proj.bias": normal(0.2, size) for one, size in rows.items()}
    return OlmoTarget(shape, weights)
