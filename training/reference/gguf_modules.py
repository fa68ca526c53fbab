"""Modules of multi-token prediction as GGUF files of llama.cpp's architectures `qwen35` and `qwen35moe`, written and read: files with nothing
else of their model. The module is the layer behind the model's last one."""
import gguf
import torch

from training.reference import expert_files, layouts
from training.reference.gguf_heads import _LAYER
from training.reference.mtp import MtpHead, MtpShape

_AROUND = {"embedding_norm": "nextn.enorm", "hidden_norm": "nextn.hnorm", "fc": "nextn.eh_proj", "norm": "nextn.shared_head_norm"}
_EXPERTS = {"mlp.gate": "ffn_gate_inp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
            "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp"}
_EXPERT_SIZES = {"expert_count": "num_experts", "expert_used_count": "used_experts", "expert_feed_forward_length": "expert_size",
                 "expert_shared_feed_forward_length": "shared_size"}
_DENSE_SIZES = {"feed_forward_length": "intermediate_size"}
_SIZES = {"embedding_length": "hidden_size", "attention.head_count": "num_heads",
          "attention.head_count_kv": "num_kv_heads", "attention.key_length": "head_dim", "attention.value_length": "head_dim",
          "vocab_size": "vocab_size"}


def stored_name(layer):
    """A function from a parameter's name to that in the file."""
    def name_of(name):
        part, _, rest = name.partition(".")
        if part in _AROUND:
            return f"blk.{layer}.{_AROUND[part]}.{rest}"
        path, _, last = rest.rpartition(".")
        path = "post_attention_norm" if path == "post_attention_layernorm" else (_LAYER | _EXPERTS)[path]
        return f"blk.{layer}.{path}.{last}"

    return name_of


def architecture_of(shape):
    return "qwen35moe" if shape.num_experts else "qwen35"


def sizes_of(shape):
    return _SIZES | (_EXPERT_SIZES if shape.num_experts else _DENSE_SIZES)


def stored_tensors(head, layer):
    """Matrices of experts, those of all in one tensor, and the rest; the factor of the shared expert is a vector."""
    tensors, prefix, name_of = dict(head.state_dict()), f"blk.{layer}.ffn_", stored_name(layer)
    experts = {}
    if head.shape.num_experts:
        tensors, gate, up, down = expert_files.stacked(tensors, "layer.mlp.experts.")
        experts = {"gate_up": torch.cat([gate, up], dim=1)} if head.shape.packs_experts else {"gate": gate, "up": up}
        experts["down"] = down
        tensors["layer.mlp.shared_expert_gate.weight"] = tensors["layer.mlp.shared_expert_gate.weight"][0]
    return {name_of(name): value for name, value in tensors.items()} | {
        f"{prefix}{part}_exps.weight": value for part, value in experts.items()}


def save(head, path, target):
    shape, last = head.shape, target.shape.num_hidden_layers
    architecture = architecture_of(shape)
    writer = gguf.GGUFWriter(path, architecture)
    for key, name in sizes_of(shape).items():
        writer.add_uint32(f"{architecture}.{key}", getattr(shape, name))
    if shape.num_experts:
        writer.add_bool(architecture + ".expert_weights_norm", shape.normalises_experts)
    for key, value in (("block_count", last + 1), ("nextn_predict_layers", 1), ("context_length", 2048),
                       ("rope.dimension_count", int(shape.rotated_share * shape.head_dim))):
        writer.add_uint32(f"{architecture}.{key}", value)
    writer.add_float32(architecture + ".attention.layer_norm_rms_epsilon", shape.rms_norm_eps)
    writer.add_float32(architecture + ".rope.freq_base", shape.rope_theta)
    writer.add_tensor("token_embd.weight", target.embedding.numpy())
    for name, value in stored_tensors(head, last).items():
        writer.add_tensor(name, value.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def load(path, target):
    reader = gguf.GGUFReader(path)
    architecture = reader.get_field("general.architecture").contents()

    def field(key):
        return reader.get_field(f"{architecture}.{key}").contents()

    last, prefix = target.shape.num_hidden_layers, "layer.mlp.experts."
    is_mixture = architecture == "qwen35moe"
    keys = _SIZES | (_EXPERT_SIZES if is_mixture else _DENSE_SIZES)
    sizes = {"intermediate_size": target.shape.intermediate_size} | {name: field(key) for key, name in keys.items()}
    stored = {tensor.name: torch.from_numpy(tensor.data.copy()) for tensor in reader.tensors}
    packs = f"blk.{last}.ffn_gate_up_exps.weight" in stored
    shape = MtpShape(layout="gguf", taps=(last,), hidden_first=False, norm_output=True, qk_norm=True, output_gate=True,
                     rms_norm_eps=float(f"{field('attention.layer_norm_rms_epsilon'):.6g}"), rope_theta=field("rope.freq_base"),
                     rotated_share=field("rope.dimension_count") / sizes["head_dim"], packs_experts=packs,
                     **({"normalises_experts": field("expert_weights_norm")} if is_mixture else {}), **sizes)
    head, name_of = MtpHead(shape), stored_name(last)
    own = {name_of(name): name for name in head.state_dict() if not name.startswith(prefix)}
    tensors = {own[name]: value for name, value in stored.items() if name in own}
    if is_mixture:
        gate_up = stored[f"blk.{last}.ffn_gate_up_exps.weight"].chunk(2, dim=1) if packs else [
            stored[f"blk.{last}.ffn_{part}_exps.weight"] for part in ("gate", "up")]
        tensors = expert_files.separate(tensors, prefix, *gate_up, stored[f"blk.{last}.ffn_down_exps.weight"])
        tensors["layer.mlp.shared_expert_gate.weight"] = tensors["layer.mlp.shared_expert_gate.weight"][None]
    return layouts.fill(head, tensors, str).borrow(target)
