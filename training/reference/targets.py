"""Small random targets of the architectures that run here, as Hugging Face directories, and their forward pass.

The pass is written out instead of taken from `transformers`, so that the tests need no more than torch and safetensors.
tests/training/reference_test.py compares it with `transformers` where that is installed.
"""
import dataclasses
import json
import math
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from training.reference import expert_files
from training.reference.layers import attend, causal, rms_norm, rotate

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
                 "qwen3_moe": "Qwen3MoeForCausalLM", "gemma3_text": "Gemma3ForCausalLM"}


@dataclasses.dataclass(frozen=True)
class TargetShape:
    """Named like the fields of config.json. With eight layers the default taps of EAGLE-3 (1, 3, 4) are distinct."""

    model_type: str = "llama"
    vocab_size: int = 384
    hidden_size: int = 64
    intermediate_size: int = 160
    num_hidden_layers: int = 8
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 16
    rms_norm_eps: float = 1e-6
    rope_theta: float = 50000.0
    rope_local_base_freq: float = 10000.0  # gemma3: of layers with a window
    sliding_window: int = 24               # gemma3
    sliding_window_pattern: int = 3        # gemma3: every so many layers one without a window
    query_pre_attn_scalar: int = 20         # gemma3
    num_experts: int = 8                    # qwen3_moe
    num_experts_per_tok: int = 2            # qwen3_moe
    moe_intermediate_size: int = 48         # qwen3_moe
    norm_topk_prob: bool = True             # qwen3_moe
    mlp_only_layers: tuple = (1,)           # qwen3_moe: layers without experts
    max_position_embeddings: int = 2048
    tie_word_embeddings: bool = False

    @property
    def is_gemma(self):
        return self.model_type == "gemma3_text"

    @property
    def is_mixture(self):
        return self.model_type == "qwen3_moe"

    def has_experts(self, layer):
        return self.is_mixture and layer not in self.mlp_only_layers

    def is_local(self, layer):
        return self.is_gemma and (layer + 1) % self.sliding_window_pattern != 0


@dataclasses.dataclass(frozen=True)
class TargetPass:
    """taps[L]: the residual stream after layer L, [n, H]; taps[N]: after the final norm. logits [n, V]."""

    taps: list
    logits: torch.Tensor

    def features(self, taps):
        """[n, T * H]: the tapped states side by side, in the order of `taps`."""
        return torch.cat([self.taps[tap] for tap in taps], dim=-1)


class StoredTarget:
    """A target's shape and its weights under their Hugging Face names: what all families have in common."""

    block = "mlp."  # names of a layer's feed-forward block and of its gate, up and down
    parts = ("gate_proj", "up_proj", "down_proj")
    final_norm = "model.norm"

    def __init__(self, shape, weights):
        self.shape, self.weights = shape, weights

    @property
    def embedding(self):
        return self.weights["model.embed_tokens.weight"]

    @property
    def lm_head(self):
        return self.embedding if self.shape.tie_word_embeddings else self.weights["lm_head.weight"]

    def forward(self, tokens):
        """One causal pass over all tokens."""
        return self._pass(self.embedding[torch.tensor(tokens)])

    @torch.no_grad()
    def _pass(self, hidden, *rows):
        """All layers, each with the arguments `rows`, and the logits."""
        taps = []
        for layer in range(self.shape.num_hidden_layers):
            hidden = self._layer(layer, hidden, *rows)
            taps.append(hidden)
        taps.append(self._norm(self.final_norm, hidden))
        return TargetPass(taps, taps[-1] @ self.lm_head.T)

    def _linear(self, name, x):
        return torch.nn.functional.linear(x, self.weights[name + ".weight"], self.weights.get(name + ".bias"))

    def _mix(self, name, x, chosen, weights):
        """The sum over the experts of each row, chosen [n, k], times their weights [n, k]."""
        out = torch.zeros_like(x)
        for expert in range(self.shape.num_experts):
            rows, slots = (chosen == expert).nonzero(as_tuple=True)
            if len(rows):
                out[rows] += weights[rows, slots, None] * self._feed_forward(f"{name}experts.{expert}.", x[rows])
        return out

    def packed(self):
        """The weights with the experts of a layer in two tensors, as newer files have them."""
        shape, weights = self.shape, dict(self.weights)
        for layer in filter(shape.has_experts, range(shape.num_hidden_layers)):
            name = f"model.layers.{layer}.{self.block}experts."
            weights = expert_files.packed(weights, name, self.parts)
        return weights

    def stored(self):
        """The weights under the names of the files."""
        return self.weights

    def save(self, directory, packs_experts=False):
        """config.json, model.safetensors and tokenizer.json."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.json").write_text(json.dumps(self.config(), indent=1))
        save_file(self.packed() if packs_experts else self.stored(), directory / "model.safetensors", {"format": "pt"})
        save_tokenizer(directory, self.shape.vocab_size)


class Target(StoredTarget):
    def config(self):
        return config_of(self.shape)

    @property
    def embedding_scale(self):
        return math.sqrt(self.shape.hidden_size) if self.shape.is_gemma else 1.0

    def embed(self, tokens):
        return self.embedding[torch.tensor(tokens)] * self.embedding_scale

    def forward(self, tokens):
        """One causal pass over all tokens."""
        return self.run(self.embed(tokens), torch.arange(len(tokens)), causal(len(tokens)))

    def run(self, hidden, positions, visible):
        """A pass over rows [n, H] at positions [n], each of which sees the rows in visible [n, n]."""
        return self._pass(hidden, positions, visible)

    def _norm(self, name, x):
        weight = self.weights[name + ".weight"]
        return rms_norm(x, 1 + weight if self.shape.is_gemma else weight, self.shape.rms_norm_eps)

    def _layer(self, layer, hidden, positions, visible):
        name, gemma = f"model.layers.{layer}.", self.shape.is_gemma
        attended = self._attention(layer, self._norm(name + "input_layernorm", hidden), positions, visible)
        if gemma:
            attended = self._norm(name + "post_attention_layernorm", attended)
        hidden = hidden + attended
        x = self._norm(name + ("pre_feedforward_layernorm" if gemma else "post_attention_layernorm"), hidden)
        x = self._mixture(name + "mlp.", x) if self.shape.has_experts(layer) else self._feed_forward(name + "mlp.", x)
        return hidden + (self._norm(name + "post_feedforward_layernorm", x) if gemma else x)

    def _feed_forward(self, name, x):
        gate = self._linear(name + "gate_proj", x)
        gate = torch.nn.functional.gelu(gate, approximate="tanh") if self.shape.is_gemma else torch.nn.functional.silu(gate)
        return self._linear(name + "down_proj", gate * self._linear(name + "up_proj", x))

    def _mixture(self, name, x):
        """For each row, the experts with the largest probabilities, weighted by their probabilities."""
        shape = self.shape
        weights, chosen = self._linear(name + "gate", x).softmax(-1).topk(shape.num_experts_per_tok, dim=-1)
        if shape.norm_topk_prob:
            weights = weights / weights.sum(-1, keepdim=True)
        return self._mix(name, x, chosen, weights)

    def _attention(self, layer, x, positions, visible):
        shape, name = self.shape, f"model.layers.{layer}.self_attn."
        query, key, value = (self._linear(name + part, x).unflatten(-1, (-1, shape.head_dim))
                             for part in ("q_proj", "k_proj", "v_proj"))
        if name + "q_norm.weight" in self.weights:
            query, key = self._norm(name + "q_norm", query), self._norm(name + "k_norm", key)
        theta = shape.rope_local_base_freq if shape.is_local(layer) else shape.rope_theta
        if shape.is_local(layer):
            visible = visible & (positions[:, None] - positions < shape.sliding_window)
        scale = (shape.query_pre_attn_scalar if shape.is_gemma else shape.head_dim) ** -0.5
        attended = attend(rotate(query, positions, theta), rotate(key, positions, theta), value, visible, scale)
        return self._linear(name + "o_proj", attended)


def save_tokenizer(directory, vocab_size):
    """A tokenizer.json in which token i is the word `t<i> `."""
    vocabulary = {f"t{token}\u0120": token for token in range(vocab_size)}
    (Path(directory) / "tokenizer.json").write_text(json.dumps({
        "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "post_processor": None, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}))


def config_of(shape):
    fields = dataclasses.asdict(shape)
    if shape.is_gemma:
        fields["hidden_activation"] = "gelu_pytorch_tanh"
        fields["layer_types"] = ["sliding_attention" if shape.is_local(layer) else "full_attention"
                                 for layer in range(shape.num_hidden_layers)]
    else:
        fields["hidden_act"] = "silu"
        for only_gemma in ("rope_local_base_freq", "sliding_window", "sliding_window_pattern", "query_pre_attn_scalar"):
            del fields[only_gemma]
    if not shape.is_mixture:
        for only_mixture in ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob", "mlp_only_layers"):
            del fields[only_mixture]
    return fields | {"architectures": [ARCHITECTURES[shape.model_type]], "torch_dtype": "float32",
                     "bos_token_id": 0, "eos_token_id": 1}


def load(directory):
    """A target that this module makes."""
    fields = json.loads((Path(directory) / "config.json").read_text())
    known = {field.name for field in dataclasses.fields(TargetShape)}
    fields["mlp_only_layers"] = tuple(fields.get("mlp_only_layers", ()))
    return Target(TargetShape(**{name: value for name, value in fields.items() if name in known}),
                  load_file(Path(directory) / "model.safetensors"))


def random_draws(seed):
    """Three functions that draw weights: normal(std, *size), matrix(num_out, num_in) and norm(size)."""
    generator = torch.Generator().manual_seed(seed)

    def normal(std, *size):
        return torch.randn(*size, generator=generator) * std

    def matrix(num_out, num_in):
        return normal(1.5 / math.sqrt(num_in), num_out, num_in)

    def norm(size):  # of gemma3 stored less 1: its norms double, so that the layers outweigh the scaled embedding
        return normal(0.1, size) + 1.0

    return normal, matrix, norm


def random_target(shape, seed):
    """Weights large enough that every layer moves the residual stream and that the likeliest token varies."""
    normal, matrix, norm = random_draws(seed)
    embedding_std = 0.15 if shape.is_gemma else 0.3
    width, queries = shape.hidden_size, shape.num_attention_heads * shape.head_dim
    keys = shape.num_key_value_heads * shape.head_dim
    weights = {"model.embed_tokens.weight": normal(embedding_std, shape.vocab_size, width),
               "model.norm.weight": norm(width)}
    if not shape.tie_word_embeddings:
        weights["lm_head.weight"] = normal(embedding_std, shape.vocab_size, width)
    for layer in range(shape.num_hidden_layers):
        name = f"model.layers.{layer}."
        norms = ["input_layernorm", "post_attention_layernorm"]
        if shape.is_gemma:
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        weights |= {f"{name}{one}.weight": norm(width) for one in norms}
        attention = name + "self_attn."
        if shape.model_type in ("qwen3", "qwen3_moe", "gemma3_text"):
            weights |= {f"{attention}{one}_norm.weight": norm(shape.head_dim) for one in "qk"}
        for part, rows in (("q", queries), ("k", keys), ("v", keys)):
            weights[f"{attention}{part}_proj.weight"] = matrix(rows, width)
            if shape.model_type == "qwen2":
                weights[f"{attention}{part}_proj.bias"] = normal(0.2, rows)
        weights[attention + "o_proj.weight"] = matrix(width, queries)
        inner, blocks = shape.intermediate_size, [name + "mlp."]
        if shape.has_experts(layer):
            weights[name + "mlp.gate.weight"] = matrix(shape.num_experts, width)
            inner, blocks = shape.moe_intermediate_size, [f"{name}mlp.experts.{expert}." for expert in range(shape.num_experts)]
        for block in blocks:
            weights |= {f"{block}{part}_proj.weight": matrix(inner, width) for part in ("gate", "up")}
            weights[block + "down_proj.weight"] = matrix(width, inner)
    return Target(shape, weights)


def greedy_text(target, prompt, num_tokens):
    """The prompt, and the tokens that the target considers likeliest after it."""
    tokens = list(prompt)
    for _ in range(num_tokens):
        tokens.append(int(target.forward(tokens).logits[-1].argmax()))
    return tokens
