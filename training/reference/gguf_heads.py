"""Heads as GGUF files of llama.cpp's architectures `eagle3` and `dflash`, written and read. DSpark's architecture is
`dflash`, too. Not written are Markov heads but `vanilla` ones, and heads of EAGLE-3 with biases, QK norms or further
layers: these files have none.
"""
import gguf
import torch

from training.reference import layouts
from training.reference.dflash import DFlashHead, DFlashShape
from training.reference.dspark import DSparkHead
from training.reference.eagle import EagleHead
from training.reference.head_shape import HeadShape

_LAYER = {"input_layernorm": "attn_norm", "hidden_norm": "attn_norm_2", "self_attn.q_proj": "attn_q",
          "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
          "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
          "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
          "mlp.down_proj": "ffn_down"}
_OUTER = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "input_norm": "enc.output_norm",
          "markov_head.markov_w1": "markov_w1", "markov_head.markov_w2": "markov_w2",
          "confidence_head.proj": "conf_proj"}
_SIZES = {"embedding_length": "hidden_size", "feed_forward_length": "intermediate_size", "block_count": "num_layers",
          "attention.head_count": "num_heads", "attention.head_count_kv": "num_kv_heads",
          "attention.key_length": "head_dim", "attention.value_length": "head_dim", "rope.dimension_count": "head_dim",
          "vocab_size": "vocab_size"}


def stored_name(architecture, name):
    """The name of a parameter in GGUF files: `blk.0.attn_q.weight` for `layers.0.self_attn.q_proj.weight`."""
    path, dot, last = name.rpartition(".")
    if path.startswith("layers."):
        _, layer, part = path.split(".", 2)
        return f"blk.{layer}.{_LAYER[part]}.{last}"
    if architecture == "dflash" and path == "hidden_norm":
        return f"enc.output_norm.{last}"
    return _OUTER.get(path, path) + dot + last


def interleaved(rows, head_dim):
    """Rows of queries or keys, the halves of each head in turn, as in files of Llama."""
    return rows.unflatten(0, (-1, 2, head_dim // 2)).transpose(1, 2).flatten(0, 2)


def half_split(rows, head_dim):
    """The reverse."""
    return rows.unflatten(0, (-1, head_dim // 2, 2)).transpose(1, 2).flatten(0, 2)


def with_layout(architecture, name, value, head_dim, change):
    is_rotated = architecture == "eagle3" and name.endswith(("q_proj.weight", "k_proj.weight"))
    return change(value, head_dim) if is_rotated else value


def fields_of(head):
    """The keys behind the architecture's name."""
    shape = head.shape
    fields = {key: getattr(shape, name) for key, name in _SIZES.items()} | {
        "context_length": 2048, "attention.layer_norm_rms_epsilon": shape.rms_norm_eps,
        "rope.freq_base": shape.rope_theta, "target_layers": [tap + 1 for tap in shape.taps]}
    if isinstance(head, EagleHead):
        return fields | {"target_hidden_size": shape.target_hidden_size, "norm_before_fc": shape.norm_before_fc,
                         "norm_before_residual": shape.norm_before_residual}
    fields["block_size"] = shape.block_size
    if shape.markov_kind or shape.predicts_next:
        fields["sample_from_anchor"] = shape.predicts_next
    if shape.window:
        fields |= {"attention.sliding_window": shape.window, "attention.causal": shape.window_is_causal,
                   "attention.sliding_window_pattern": [False] * (shape.num_layers - 1) + [True]}
    return fields


def save(head, path):
    architecture = "eagle3" if isinstance(head, EagleHead) else "dflash"
    writer = gguf.GGUFWriter(path, architecture)
    add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}
    for key, value in fields_of(head).items():
        add[type(value)](f"{architecture}.{key}", value)
    if architecture == "dflash":
        writer.add_uint32("tokenizer.ggml.mask_token_id", head.shape.mask_token)
    for name, value in head.state_dict().items():
        if name == "d2t":  # ids instead of differences
            writer.add_tensor(name, head.target_ids(torch.arange(len(value))).numpy())
            continue
        value = with_layout(architecture, name, value, head.shape.head_dim, interleaved)
        writer.add_tensor(stored_name(architecture, name), value.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_shape(architecture, reader, stored):
    """The shape that the file describes; what tensors show is read from them."""
    def field(key, default=None, prefix=architecture + "."):
        found = reader.get_field(prefix + key)
        return default if found is None else found.contents()

    sizes = {name: field(key) for key, name in _SIZES.items()}
    common = sizes | {
        "taps": tuple(layer - 1 for layer in field("target_layers")),
        "rms_norm_eps": float(f"{field('attention.layer_norm_rms_epsilon'):.6g}"), "rope_theta": field("rope.freq_base"),
        "draft_vocab_size": len(stored.get("d2t", ())), "own_embedding": "token_embd.weight" in stored,
        "own_lm_head": "output.weight" in stored, "qk_norm": "blk.0.attn_q_norm.weight" in stored}
    if architecture == "eagle3":
        return HeadShape(family="eagle3", target_hidden_size=field("target_hidden_size"),
                         norm_before_fc=field("norm_before_fc"), norm_before_residual=field("norm_before_residual"),
                         **common)
    has_markov, confidence = "markov_w1.weight" in stored, stored.get("conf_proj.weight", torch.zeros(1, 0))
    return DFlashShape(
        layout="gguf", mask_token=field("mask_token_id", prefix="tokenizer.ggml."), block_size=field("block_size"),
        predicts_next=field("sample_from_anchor", has_markov), window=field("attention.sliding_window", 0),
        window_is_causal=field("attention.causal", True), markov_kind="vanilla" if has_markov else "",
        markov_rank=stored["markov_w1.weight"].shape[1] if has_markov else 0, has_confidence=confidence.shape[1] > 0,
        confidence_reads_token=confidence.shape[1] > sizes["hidden_size"], **common)


def load(path, target):
    """A head out of a file, with the target's embedding and LM head where it has none."""
    reader = gguf.GGUFReader(path)
    architecture = reader.get_field("general.architecture").contents()
    stored = {tensor.name: torch.from_numpy(tensor.data.copy()) for tensor in reader.tensors}
    shape = read_shape(architecture, reader, stored)
    kind = EagleHead if architecture == "eagle3" else DSparkHead if shape.has_confidence or shape.markov_kind else DFlashHead
    head = kind(shape)
    if "d2t" in stored:
        stored["d2t"] -= torch.arange(len(stored["d2t"]))
    own = {stored_name(architecture, name): name for name in head.state_dict() if name != "d2t"} | {"d2t": "d2t"}
    tensors = {own[name]: with_layout(architecture, own[name], value, shape.head_dim, half_split)
               for name, value in stored.items()}
    layouts.fill(head, tensors, str)
    return head.borrow(target.embedding, target.lm_head) if architecture == "eagle3" else head.borrow(target)
