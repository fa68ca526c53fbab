"""Modules of multi-token prediction (DeepSeek-V3 report, section 2.2): a decoder layer over a projection of two
normalised halves, the embedding of token i + 1 and the hidden state of position i. Rows, positions and cache as EAGLE
has them. Embedding and LM head are the target's.

Layouts, which are families: `mimo`, `speculators`, `next` (Qwen3-Next), `qwen35` (Qwen3.5, whose config is nested),
`gguf` (the same in a GGUF file: gguf_modules.py), `speculators-next` (a module of those in speculators' format) and
`deepseek` (its names around a dense layer).
"""
import dataclasses

import torch
from torch import nn

from training.reference import expert_files, layouts
from training.reference.modules import LayerShape, Norm, PlainLayer, sizes_of
from training.reference.row_drafting import Conventions, RowDrafting, Rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class MtpShape(LayerShape):
    layout: str
    taps: tuple               # the one behind the target's final norm
    vocab_size: int           # of the target
    hidden_first: bool        # order of the halves
    norm_output: bool         # what is fed back has passed the final norm
    packs_experts: bool = False  # files have gate and up of all experts in one tensor

    @property
    def num_drafted(self):
        return self.vocab_size


class MtpHead(nn.Module):
    kind = "mtp"
    conventions = Conventions()
    max_levels = 64

    def __init__(self, shape):
        super().__init__()
        self.shape, width, epsilon = shape, shape.hidden_size, shape.rms_norm_eps
        self.embedding_norm, self.hidden_norm = Norm(width, epsilon), Norm(width, epsilon)
        self.fc = nn.Linear(2 * width, width, bias=False)
        self.layer, self.norm = PlainLayer(shape), Norm(width, epsilon)

    def borrow(self, target):
        self.borrowed_embedding, self.borrowed_lm_head = target.embedding, target.lm_head
        return self

    def target_ids(self, drafted):
        return drafted

    def project(self, features):
        return features

    def empty_cache(self):
        return [self.layer.self_attn.empty_past()]

    def drafting(self, features, tokens):
        return RowDrafting(self, features, tokens)

    @torch.no_grad()
    def forward(self, tokens, features, positions, visible, cache):
        """One pass over rows: tokens, positions [R], features [R, H], visible [R, C + R] over cached and new rows."""
        halves = [self.embedding_norm(self.borrowed_embedding[tokens]), self.hidden_norm(features)]
        if self.shape.hidden_first:
            halves.reverse()
        hidden, past = self.layer(self.fc(torch.cat(halves, dim=-1)), positions, visible, cache[0])
        normalised = self.norm(hidden)
        return Rows(normalised @ self.borrowed_lm_head.T, normalised if self.shape.norm_output else hidden, [past])


@dataclasses.dataclass(frozen=True)
class Layout:
    prefix: str
    names: dict             # of the parts around the layer
    layer: str = ""         # prefix of the layer's names
    hidden_first: bool = False
    norm_output: bool = True
    norm_offset: int = 0    # norms in the file hold the factor minus this
    is_nested: bool = False  # the config's sizes are within transformer_layer_config


_MIMO = {"embedding_norm": "token_layernorm", "hidden_norm": "hidden_layernorm", "fc": "input_proj",
         "norm": "final_layernorm"}
_NEXT = {"embedding_norm": "pre_fc_norm_embedding", "hidden_norm": "pre_fc_norm_hidden", "fc": "fc", "norm": "norm"}
_DEEPSEEK = {"embedding_norm": "enorm", "hidden_norm": "hnorm", "fc": "eh_proj", "norm": "shared_head.norm"}
LAYOUTS = {
    "mimo": Layout("model.mtp_layers.0.", _MIMO, hidden_first=True),
    "speculators": Layout("mtp_layers.0.", _MIMO, is_nested=True),
    "speculators-next": Layout("mtp_layers.0.", _MIMO, norm_offset=1, is_nested=True),
    "next": Layout("mtp.", _NEXT, layer="layers.0.", norm_offset=1),
    "qwen35": Layout("mtp.", _NEXT, layer="layers.0.", norm_offset=1),
    "gguf": Layout("", {}),
    "deepseek": Layout("model.layers.{}.", _DEEPSEEK, norm_output=False),
}


def stored_name(layout, num_target_layers):
    """A function from a parameter's name to that in the file."""
    prefix = layout.prefix.format(num_target_layers)

    def name_of(name):
        part, rest = name.split(".", 1)
        return prefix + (layout.layer if part == "layer" else layout.names[part] + ".") + rest

    return name_of


def config_of(shape, target):
    layout, of = LAYOUTS[shape.layout], target.shape
    model_type = {"mimo": "mimo", "qwen35": "qwen3_5_moe_text" if shape.num_experts else "qwen3_5_text", "next": "qwen3_next", "speculators-next": "qwen3_next", "deepseek": "deepseek_v3",
                  "speculators": "qwen3" if shape.qk_norm else "qwen2"}[shape.layout]
    fields = {"model_type": model_type, "hidden_size": shape.hidden_size, "intermediate_size": shape.intermediate_size,
              "num_hidden_layers": of.num_hidden_layers, "num_attention_heads": shape.num_heads,
              "num_key_value_heads": shape.num_kv_heads, "head_dim": shape.head_dim, "hidden_act": "silu",
              "rms_norm_eps": shape.rms_norm_eps, "rope_theta": shape.rope_theta, "vocab_size": shape.vocab_size,
              "attention_bias": shape.qkv_bias, "max_position_embeddings": 2048, "torch_dtype": "float32"}
    if shape.rotated_share != 1:
        fields["partial_rotary_factor"] = shape.rotated_share
    if shape.num_experts:
        fields |= {"num_experts": shape.num_experts, "num_experts_per_tok": shape.used_experts,
                   "moe_intermediate_size": shape.expert_size, "shared_expert_intermediate_size": shape.shared_size}
        if model_type == "qwen3_next":
            fields["norm_topk_prob"] = shape.normalises_experts
        else:  # the class has neither
            del fields["intermediate_size"]
    if shape.layout == "qwen35":
        fields["rope_parameters"] = {"rope_type": "default", "rope_theta": fields.pop("rope_theta"),
                                     "partial_rotary_factor": fields.pop("partial_rotary_factor")}
        return {"model_type": model_type.removesuffix("_text"), "text_config": fields | {"mtp_num_hidden_layers": 1}}
    if layout.is_nested:
        return {"speculators_model_type": "mtp", "architectures": ["MTPDraftModel"], "num_nextn_predict_layers": 1,
                "transformer_layer_config": fields}
    return fields | {"mtp_num_hidden_layers" if shape.layout == "next" else "num_nextn_predict_layers": 1}


def experts_prefix(layout, num_target_layers):
    return layout.prefix.format(num_target_layers) + layout.layer + "mlp.experts."


def stored_tensors(head, layout, num_target_layers):
    name_of = stored_name(layout, num_target_layers)
    tensors = {name_of(name): value - layout.norm_offset if name.endswith("norm.weight") else value
               for name, value in head.state_dict().items()}
    return expert_files.packed(tensors, experts_prefix(layout, num_target_layers)) if head.shape.packs_experts else tensors


def save(head, directory, target):
    """Modules of a model are in its checkpoint, those of speculators in a directory of their own."""
    layout = LAYOUTS[head.shape.layout]
    tensors = stored_tensors(head, layout, target.shape.num_hidden_layers)
    if not layout.is_nested:
        tensors |= target.weights
    if head.shape.layout == "deepseek":
        prefix = layout.prefix.format(target.shape.num_hidden_layers)
        tensors |= {prefix + "embed_tokens.weight": target.embedding,
                    prefix + "shared_head.head.weight": target.lm_head}
    layouts.write(directory, config_of(head.shape, target), tensors)


def add_to_target(head, directory, target):
    """Puts the module into the target's own files, as published checkpoints of Qwen3.5 and Qwen3-Next have it."""
    fields, tensors = layouts.read(directory)
    tensors |= stored_tensors(head, LAYOUTS["qwen35"], target.shape.num_hidden_layers)
    layouts.write(directory, fields | {"mtp_num_hidden_layers": 1}, tensors)


def layer_fields(fields):
    return fields.get("transformer_layer_config") or fields.get("text_config") or fields


def layout_in(fields, tensors):
    layer = layer_fields(fields)
    if layer["model_type"].startswith("qwen3_5"):
        return "qwen35"
    if layer["model_type"] == "qwen3_next":
        return "next" if layer is fields else "speculators-next"
    if "mtp_layers.0.input_proj.weight" in tensors:
        return "speculators"
    return "mimo" if "model.mtp_layers.0.input_proj.weight" in tensors else "deepseek"


def mixture_in(fields):
    """Fields of a shape."""
    if "num_experts" not in fields:
        return {}
    return {"num_experts": fields["num_experts"], "used_experts": fields["num_experts_per_tok"],
            "expert_size": fields["moe_intermediate_size"], "shared_size": fields["shared_expert_intermediate_size"],
            "normalises_experts": fields.get("norm_topk_prob", True)}


def load(directory, target):
    """The order of the halves and what is fed back are in no file: they are those of the family."""
    fields, tensors = layouts.read(directory)
    name = layout_in(fields, tensors)
    layout, layer = LAYOUTS[name], layer_fields(fields)
    layer = layer | layer.get("rope_parameters", {})
    prefix = layout.prefix.format(target.shape.num_hidden_layers)
    copies = {prefix + "embed_tokens.weight", prefix + "shared_head.head.weight"}
    tensors = {key: value for key, value in tensors.items() if key.startswith(prefix) and key not in copies}
    experts = experts_prefix(layout, target.shape.num_hidden_layers)
    packs = experts + "gate_up_proj" in tensors
    if packs:
        tensors = expert_files.unpacked(tensors, experts)
    attention = prefix + layout.layer + "self_attn."
    queries = layer["num_attention_heads"] * layer["head_dim"]
    shape = MtpShape(
        layout=name, taps=(target.shape.num_hidden_layers,), vocab_size=layer["vocab_size"],
        hidden_first=layout.hidden_first, norm_output=layout.norm_output,
        rotated_share=layer.get("partial_rotary_factor", 1.0), qkv_bias=attention + "q_proj.bias" in tensors,
        qk_norm=attention + "q_norm.weight" in tensors,
        output_gate=len(tensors[attention + "q_proj.weight"]) == 2 * queries, packs_experts=packs,
        **sizes_of(target.shape), **mixture_in(layer))
    tensors = {key: value + layout.norm_offset if "norm" in key else value for key, value in tensors.items()}
    return layouts.fill(MtpHead(shape), tensors, stored_name(layout, target.shape.num_hidden_layers)).borrow(target)
