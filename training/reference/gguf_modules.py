"""Modules of multi-token prediction as GGUF files of llama.cpp's architecture `qwen35`, written and read: files with nothing else of their
model. The module is the layer behind the model's last one."""
import gguf
import torch

from training.reference import layouts
from training.reference.gguf_heads import _LAYER
from training.reference.mtp import MtpHead, MtpShape

ARCHITECTURE = "qwen35"
_AROUND = {"embedding_norm": "nextn.enorm", "hidden_norm": "nextn.hnorm", "fc": "nextn.eh_proj", "norm": "nextn.shared_head_norm"}
_SIZES = {"embedding_length": "hidden_size", "feed_forward_length": "intermediate_size", "attention.head_count": "num_heads",
          "attention.head_count_kv": "num_kv_heads", "attention.key_length": "head_dim", "attention.value_length": "head_dim",
          "vocab_size": "vocab_size"}


def stored_name(layer):
    """A function from a parameter's name to that in the file."""
    def name_of(name):
        part, _, rest = name.partition(".")
        if part in _AROUND:
            return f"blk.{layer}.{_AROUND[part]}.{rest}"
        path, _, last = rest.rpartition(".")
        path = "post_attention_norm" if path == "post_attention_layernorm" else _LAYER[path]
        return f"blk.{layer}.{path}.{last}"

    return name_of


def save(head, path, target):
    shape, last = head.shape, target.shape.num_hidden_layers
    writer = gguf.GGUFWriter(path, ARCHITECTURE)
    for key, name in _SIZES.items():
        writer.add_uint32(f"{ARCHITECTURE}.{key}", getattr(shape, name))
    for key, value in (("block_count", last + 1), ("nextn_predict_layers", 1), ("context_length", 2048),
                       ("rope.dimension_count", int(shape.rotated_share * shape.head_dim))):
        writer.add_uint32(f"{ARCHITECTURE}.{key}", value)
    writer.add_float32(ARCHITECTURE + ".attention.layer_norm_rms_epsilon", shape.rms_norm_eps)
    writer.add_float32(ARCHITECTURE + ".rope.freq_base", shape.rope_theta)
    writer.add_tensor("token_embd.weight", target.embedding.numpy())
    name_of = stored_name(last)
    for name, value in head.state_dict().items():
        writer.add_tensor(name_of(name), value.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def load(path, target):
    reader = gguf.GGUFReader(path)

    def field(key):
        return reader.get_field(f"{ARCHITECTURE}.{key}").contents()

    last = target.shape.num_hidden_layers
    sizes = {name: field(key) for key, name in _SIZES.items()}
    shape = MtpShape(layout="gguf", taps=(last,), hidden_first=False, norm_output=True, qk_norm=True, output_gate=True,
                     rms_norm_eps=float(f"{field('attention.layer_norm_rms_epsilon'):.6g}"), rope_theta=field("rope.freq_base"),
                     rotated_share=field("rope.dimension_count") / sizes["head_dim"], **sizes)
    head, name_of = MtpHead(shape), stored_name(last)
    own = {name_of(name): name for name in head.state_dict()}
    tensors = {own[tensor.name]: torch.from_numpy(tensor.data.copy()) for tensor in reader.tensors if tensor.name in own}
    return layouts.fill(head, tensors, str).borrow(target)
