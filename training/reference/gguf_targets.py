"""The properties of a target in a GGUF file that heads depend on."""
from types import SimpleNamespace

import gguf


def shape_of(path):
    """The numbers of a GGUF file that a head's shape depends on, named like fields of config.json."""
    fields = gguf.GGUFReader(path).fields
    arch = bytes(fields["general.architecture"].parts[-1]).decode()
    number = lambda key: int(fields[f"{arch}.{key}"].parts[-1][0])  # noqa: E731
    heads, hidden = number("attention.head_count"), number("embedding_length")
    return SimpleNamespace(num_hidden_layers=number("block_count"), hidden_size=hidden, num_attention_heads=heads,
                           num_key_value_heads=number("attention.head_count_kv"), head_dim=hidden // heads,
                           rms_norm_eps=1e-6, rope_theta=10000.0, intermediate_size=number("feed_forward_length"),
                           vocab_size=len(fields["tokenizer.ggml.tokens"].data))


def sizes_of_head_layer(shape):
    """Fields of a head whose decoder layer is as wide as the target's."""
    return {"num_heads": shape.num_attention_heads, "num_kv_heads": shape.num_key_value_heads,
            "head_dim": shape.head_dim, "intermediate_size": shape.intermediate_size}
