"""DFlash (z-lab), forward only: a block of B slots behind the text, filled by one pass.

Slot 0 embeds the newest token, at position p, the others a mask token. The text's positions i < p have the vectors
c_i = hidden_norm(fc(tapped states)), which every layer turns into keys and values, without its norm before attention.
Slot j predicts the token at position p + j, or with `predicts_next` (DSpark, `sample_from_anchor`) at p + j + 1.

Layouts: `z-lab` (dflash_config), `speculators` (nested, with a draft vocabulary), `deepspec` (flat, embedding and LM
head of its own), `gguf` (gguf_heads.py). dspark.py has the Markov head behind it.
"""
import dataclasses

import torch
from torch import nn

from training.reference import layouts
from training.reference.block_drafting import BlockConventions, BlockDrafting
from training.reference.layers import causal
from training.reference.modules import LayerShape, Norm, PlainLayer


@dataclasses.dataclass(frozen=True, kw_only=True)
class DFlashShape(LayerShape):
    layout: str
    taps: tuple                  # in the order in which fc reads them
    vocab_size: int              # of the target
    mask_token: int
    block_size: int = 6
    num_layers: int = 2
    predicts_next: bool = False
    qk_norm: bool = True
    draft_vocab_size: int = 0    # tokens that can be drafted; 0: all of the target's
    own_embedding: bool = False  # otherwise the target's
    own_lm_head: bool = False
    says_taps: bool = True       # otherwise the config implies them
    window: int = 0              # of the last layer; z-lab and gguf: positions up to the slot, speculators: of the text
    window_is_causal: bool = True  # in that layer slots see the slots before them only
    is_fused: bool = False       # the file has queries, keys and values in one matrix
    markov_kind: str = ""        # of DSpark: vanilla, gated, rnn
    markov_rank: int = 0
    has_confidence: bool = False
    confidence_reads_token: bool = False

    @property
    def num_drafted(self):
        return self.draft_vocab_size or self.vocab_size

    @property
    def num_levels(self):
        return self.block_size if self.predicts_next else self.block_size - 1


def usual_taps(num_layers, num_target_layers):
    if num_layers == 1:
        return (num_target_layers // 2,)
    return tuple(round(1 + i * (num_target_layers - 4) / (num_layers - 1)) for i in range(num_layers))


class DFlashHead(nn.Module):
    conventions = BlockConventions()

    def __init__(self, shape):
        super().__init__()
        self.shape, width, epsilon = shape, shape.hidden_size, shape.rms_norm_eps
        self.fc = nn.Linear(len(shape.taps) * width, width, bias=False)
        self.hidden_norm, self.norm = Norm(width, epsilon), Norm(width, epsilon)
        self.layers = nn.ModuleList(PlainLayer(shape) for _ in range(shape.num_layers))
        if shape.own_embedding:
            self.embed_tokens = nn.Embedding(shape.vocab_size, width)
        if shape.own_lm_head:
            self.lm_head = nn.Linear(width, shape.num_drafted, bias=False)
        if shape.draft_vocab_size:
            self.register_buffer("d2t", torch.zeros(shape.draft_vocab_size, dtype=torch.int64))

    @property
    def max_levels(self):
        return self.shape.num_levels

    def borrow(self, target):
        # z-lab calls the target's embedding, which Gemma scales; others read its rows.
        self.target_scale = target.embedding_scale
        scale = self.target_scale if self.shape.layout == "z-lab" and not self.shape.markov_kind else 1
        self.embedding_scale = 1 if self.shape.own_embedding else scale
        self.borrowed_embedding = target.embedding if scale == 1 else target.embedding * scale
        self.borrowed_lm_head = target.lm_head
        return self

    def target_ids(self, drafted):
        """Draft ids as ids of the target: d2t holds differences."""
        return drafted + self.d2t[drafted] if self.shape.draft_vocab_size else drafted

    @torch.no_grad()
    def context(self, features):
        """The keys and values of the text for each layer, [n, K, D]."""
        c, count = self.hidden_norm(self.fc(features)), len(features)
        found = []
        for layer in self.layers:
            x = layer.input_layernorm(c) if self.conventions.context_through_norm else c
            past = layer.self_attn.empty_past()
            found.append(layer.self_attn(x, torch.arange(count), causal(count), past)[1])
        return found

    def visible(self, layer, position):
        """[B, position + B]: what the slots see of text and block."""
        size, window = self.shape.block_size, self.shape.window if layer == self.shape.num_layers - 1 else 0
        places, slots = torch.arange(position + size), torch.arange(size)[:, None]
        seen = torch.ones(size, position + size, dtype=torch.bool)
        if self.conventions.is_causal or window and self.shape.window_is_causal:
            seen &= places <= position + slots
        if window and self.shape.layout == "speculators":
            seen &= places >= position - window
        elif window:
            seen &= (position + slots - places).abs() < window
        return seen

    @torch.no_grad()
    def block(self, anchor, position, past):
        """[B, H]: the slots behind the last norm. `past`: the text's keys and values, [position, K, D]."""
        size = self.shape.block_size
        tokens = torch.tensor([anchor] + [self.shape.mask_token] * (size - 1))
        hidden = self.embed_tokens(tokens) if self.shape.own_embedding else self.borrowed_embedding[tokens]
        positions = position + torch.arange(size) + self.conventions.position_offset
        positions[1:] += self.conventions.mask_offset
        for number, (layer, before) in enumerate(zip(self.layers, past)):
            hidden, _ = layer(hidden, positions, self.visible(number, position), before)
        return self.norm(hidden)

    def slot_of(self, level):
        slot = level + (0 if self.shape.predicts_next else 1) + self.conventions.slot_offset
        return min(max(slot, 0), self.shape.block_size - 1)

    @torch.no_grad()
    def logits_of_level(self, hidden, before):
        """Logits [Vd]. `before`: the newest token and those drafted before the level."""
        x = hidden[self.slot_of(len(before) - 1)]
        return self.lm_head(x) if self.shape.own_lm_head else self.borrowed_lm_head @ x

    def drafting(self, features, tokens):
        return BlockDrafting(self, features, tokens)


def layer_fields(shape):
    fields = {"model_type": "qwen3", "hidden_size": shape.hidden_size, "intermediate_size": shape.intermediate_size,
              "num_hidden_layers": shape.num_layers, "num_attention_heads": shape.num_heads,
              "num_key_value_heads": shape.num_kv_heads, "head_dim": shape.head_dim, "vocab_size": shape.vocab_size,
              "rms_norm_eps": shape.rms_norm_eps, "rope_theta": shape.rope_theta, "hidden_act": "silu",
              "max_position_embeddings": 2048, "attention_bias": shape.qkv_bias, "torch_dtype": "float32"}
    if shape.window:
        fields["sliding_window"] = shape.window
        fields["layer_types"] = ["full_attention"] * (shape.num_layers - 1) + ["sliding_attention"]
        if shape.layout != "speculators" and not shape.window_is_causal:
            fields["is_causal"] = False
    return fields


def markov_fields(shape):
    return {"markov_rank": shape.markov_rank, "markov_head_type": shape.markov_kind or "vanilla",
            "enable_confidence_head": shape.has_confidence, "confidence_head_with_markov": shape.confidence_reads_token}


def config_of(shape, num_target_layers):
    if shape.layout == "speculators":
        return {"speculators_model_type": "dspark" if shape.markov_kind else "dflash",
                "architectures": ["DFlashDraftModel"], "transformer_layer_config": layer_fields(shape),
                "draft_vocab_size": shape.num_drafted, "block_size": shape.block_size,
                "aux_hidden_state_layer_ids": [tap + 1 for tap in shape.taps], "mask_token_id": shape.mask_token,
                "sample_from_anchor": shape.predicts_next, "sliding_window_non_causal": not shape.window_is_causal} | (
                    markov_fields(shape) if shape.markov_kind else {})
    if shape.layout == "deepspec":
        return layer_fields(shape) | markov_fields(shape) | {
            "architectures": ["Qwen3DSparkModel"], "block_size": shape.block_size, "num_anchors": 512,
            "mask_token_id": shape.mask_token, "target_layer_ids": list(shape.taps),
            "num_target_layers": num_target_layers}
    nested = {"mask_token_id": shape.mask_token}
    if shape.says_taps:
        nested["target_layer_ids"] = list(shape.taps)
    if shape.markov_kind:
        nested |= {"projector_type": "dspark", "block_size": shape.block_size} | markov_fields(shape)
    name = "DSparkDraftModel" if shape.markov_kind else "DFlashDraftModel"
    fields = layer_fields(shape) | {"architectures": [name], "dflash_config": nested,
                                    "num_target_layers": num_target_layers}
    return fields if shape.markov_kind else fields | {"block_size": shape.block_size}


PARTS = ("q_proj", "k_proj", "v_proj")


def save(head, directory, target):
    shape, tensors = head.shape, head.state_dict()
    if shape.draft_vocab_size:
        is_drafted = torch.zeros(shape.vocab_size, dtype=torch.bool)
        is_drafted[head.target_ids(torch.arange(shape.draft_vocab_size))] = True
        tensors["t2d"] = is_drafted
    if shape.is_fused:
        for layer in range(shape.num_layers):
            place = f"layers.{layer}.self_attn."
            tensors[place + "qkv_proj.weight"] = torch.cat([tensors.pop(f"{place}{one}.weight") for one in PARTS])
            mlp = f"layers.{layer}.mlp."
            tensors[mlp + "gate_up_proj.weight"] = torch.cat([tensors.pop(f"{mlp}{one}_proj.weight")
                                                              for one in ("gate", "up")])
    layouts.write(directory, config_of(shape, target.shape.num_hidden_layers), tensors)


def split(tensors, shape_of_layer):
    """Divides fused matrices into their parts."""
    queries, keys, inner = shape_of_layer
    apart = {}
    for name, value in tensors.items():
        if name.endswith("qkv_proj.weight"):
            apart |= {name.replace("qkv_proj", one): part
                      for one, part in zip(PARTS, value.split([queries, keys, keys]))}
        elif name.endswith("gate_up_proj.weight"):
            apart |= {name.replace("gate_up", one): part for one, part in zip(("gate", "up"), value.split(inner))}
        else:
            apart[name] = value
    return apart


def taps_in(fields, nested, num_layers, num_target_layers):
    if fields.get("aux_hidden_state_layer_ids") is not None:
        return tuple(layer - 1 for layer in fields["aux_hidden_state_layer_ids"])
    ids = nested.get("target_layer_ids", fields.get("target_layer_ids"))
    return usual_taps(num_layers, num_target_layers) if ids is None else tuple(ids)


def read_shape(fields, tensors, target):
    layer, nested = fields.get("transformer_layer_config") or fields, fields.get("dflash_config") or {}
    layout = ("speculators" if "speculators_model_type" in fields
              else "deepspec" if "DSparkModel" in fields["architectures"][0] else "z-lab")
    both = fields | nested
    num_layers = len({name.split(".")[1] for name in tensors if name.startswith("layers.")})
    rank = both.get("markov_rank", 0)
    return DFlashShape(
        layout=layout, taps=taps_in(fields, nested, num_layers, target.shape.num_hidden_layers),
        vocab_size=layer["vocab_size"], mask_token=both["mask_token_id"], block_size=both["block_size"],
        num_layers=num_layers, predicts_next=both.get("sample_from_anchor", both.get("shift_label", layout == "deepspec" or rank > 0)),
        draft_vocab_size=len(tensors.get("d2t", ())), own_embedding="embed_tokens.weight" in tensors,
        own_lm_head="lm_head.weight" in tensors, says_taps=layout != "z-lab" or "target_layer_ids" in nested,
        window=layer.get("sliding_window", 0),
        window_is_causal=layer.get("is_causal", not fields.get("sliding_window_non_causal", False)), is_fused="layers.0.self_attn.qkv_proj.weight" in tensors,
        markov_kind=both["markov_head_type"] if rank else "", markov_rank=rank,
        has_confidence=both.get("enable_confidence_head", False),
        confidence_reads_token=both.get("confidence_head_with_markov", False),
        hidden_size=layer["hidden_size"], intermediate_size=layer["intermediate_size"],
        num_heads=layer["num_attention_heads"], num_kv_heads=layer["num_key_value_heads"], head_dim=layer["head_dim"],
        rms_norm_eps=layer["rms_norm_eps"], rope_theta=layer["rope_theta"],
        qkv_bias="layers.0.self_attn.q_proj.bias" in tensors, output_bias="layers.0.self_attn.o_proj.bias" in tensors)


def load(directory, target, make=DFlashHead):
    fields, tensors = layouts.read(directory)
    tensors.pop("t2d", None)
    shape = read_shape(fields, tensors, target)
    sizes = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim, shape.intermediate_size
    return layouts.fill(make(shape), split(tensors, sizes), str).borrow(target)
