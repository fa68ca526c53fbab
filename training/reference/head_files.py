"""The published directories of EAGLE heads: config.json and model.safetensors, written and read.

Dialects: `eagle` (SafeAILab's EAGLE-1 and EAGLE-2), and of EAGLE-3 `reference` (SafeAILab, SpecForge: flat,
`midlayer.`), `speculators` (nested, `layers.0.`) and `deepspec` (flat fields of Qwen3, `layers.0.`).
"""
import torch

from training.reference import layouts
from training.reference.dart import DartHead
from training.reference.eagle import EagleHead
from training.reference.head_shape import HeadShape, default_taps
from training.reference.peagle import PEagleHead

MOST_MASKS = 63  # for P-EAGLE, if the config does not say how many levels it was trained for
DIALECTS = ("eagle", "reference", "speculators", "deepspec")


def layer_fields(shape):
    """The fields that a decoder layer of transformers has."""
    return {"model_type": "qwen3" if shape.qk_norm else "llama", "hidden_size": shape.hidden_size,
            "intermediate_size": shape.intermediate_size, "num_hidden_layers": shape.num_layers,
            "num_attention_heads": shape.num_heads, "num_key_value_heads": shape.num_kv_heads,
            "head_dim": shape.head_dim, "rms_norm_eps": shape.rms_norm_eps, "rope_theta": shape.rope_theta,
            "vocab_size": shape.vocab_size, "hidden_act": "silu", "max_position_embeddings": 2048,
            "attention_bias": shape.qkv_bias and shape.output_bias, "tie_word_embeddings": False,
            "torch_dtype": "float32"} | window_fields(shape)


def window_fields(shape):
    if not any(shape.windows):
        return {}
    return {"layer_types": ["sliding_attention" if window else "full_attention" for window in shape.windows],
            "sliding_window": max(shape.windows)}


def windows_in(layer):
    return tuple(layer["sliding_window"] if kind == "sliding_attention" else 0 for kind in layer.get("layer_types") or ())


def flat_config(shape, num_target_layers):
    fields = layer_fields(shape) | {"architectures": ["LlamaForCausalLMEagle3"]}
    if shape.qkv_bias and not shape.output_bias:
        fields["qkv_bias"] = True
    if shape.draft_vocab_size:
        fields["draft_vocab_size"] = shape.draft_vocab_size
    if shape.target_hidden_size != shape.hidden_size:
        fields["target_hidden_size"] = shape.target_hidden_size
    if shape.family == "dart":
        fields["draft_length"] = shape.num_masks
    elif shape.num_masks:
        fields |= {"ptd_token_id": shape.mask_token, "para_depths": 1 + shape.num_masks}
    if shape.taps != default_taps(num_target_layers):  # as Model-Optimizer has it: outputs of layers
        fields["eagle_config"] = {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": list(shape.taps)}
    return fields


def speculators_config(shape, num_target_layers):
    is_default = shape.taps == default_taps(num_target_layers)
    inputs_of_layers = None if is_default else [tap + 1 for tap in shape.taps]
    kind, name = ("peagle", "PEagleSpeculator") if shape.num_masks else ("eagle3", "Eagle3Speculator")
    masks = {"mask_token_id": shape.mask_token} if shape.num_masks else {}
    proposal = {"proposal_type": "greedy", "speculative_tokens": 1 + shape.num_masks if shape.num_masks else 5}
    return {"speculators_model_type": kind, "architectures": [name], "speculators_version": "0.3.0",
            "speculators_config": {"algorithm": kind, "default_proposal_method": "greedy",
                                   "proposal_methods": [proposal],
                                   "verifier": {"name_or_path": "target", "architectures": []}},
            "transformer_layer_config": layer_fields(shape), "draft_vocab_size": shape.num_drafted,
            "target_hidden_size": shape.target_hidden_size, "norm_before_residual": shape.norm_before_residual,
            "eagle_aux_hidden_state_layer_ids": inputs_of_layers, "norm_before_fc": shape.norm_before_fc,
            "fc_norm": shape.fc_norm, "norm_output": shape.norm_output, "embed_requires_grad": shape.own_embedding,
            "tie_word_embeddings": False, "torch_dtype": "float32"} | masks


def deepspec_config(shape, num_target_layers):
    return layer_fields(shape) | {"architectures": ["Qwen3Eagle3Model"], "target_layer_ids": list(shape.taps),
                                  "num_target_layers": num_target_layers, "draft_num_hidden_layers": shape.num_layers,
                                  "ttt_length": 7}


def eagle_config(shape, _num_target_layers):
    return layer_fields(shape) | {"architectures": ["LlamaForCausalLM"], "bias": shape.fc_bias,
                                  "qkv_bias": shape.qkv_bias}


def save(head, directory, dialect, num_target_layers):
    """Writes a head. The dialect must be able to express its shape."""
    shape = head.shape
    make_config = {"eagle": eagle_config, "reference": flat_config, "speculators": speculators_config,
                   "deepspec": deepspec_config}[dialect]
    tensors = head.state_dict()
    if dialect == "reference":
        tensors = {name.replace("layers.0.", "midlayer."): value for name, value in tensors.items()}
    if shape.draft_vocab_size:
        is_drafted = torch.zeros(shape.vocab_size, dtype=torch.bool)
        is_drafted[head.target_ids(torch.arange(shape.draft_vocab_size))] = True
        tensors["t2d"] = is_drafted
    layouts.write(directory, make_config(shape, num_target_layers), tensors)


def masks_in(fields, tensors):
    """Number and token of mask rows."""
    if "layers.0.mask_rep" in tensors:
        return fields["draft_length"], 0
    if "mask_hidden" not in tensors:
        return 0, 0
    named = [fields[key] for key in ("mask_token_id", "pard_token", "ptd_token_id") if fields.get(key) is not None]
    proposals = (fields.get("speculators_config") or {}).get("proposal_methods") or [{}]
    trained = proposals[0].get("speculative_tokens", 1 + MOST_MASKS)
    return fields.get("para_depths", trained) - 1, named[0]


def taps_in(fields, num_target_layers):
    """Taps of an EAGLE-3 head, of whatever dialect."""
    nested = fields.get("eagle_config") or {}
    if fields.get("target_layer_ids") is not None:
        return tuple(fields["target_layer_ids"])
    if nested.get("eagle_aux_hidden_state_layer_ids"):
        return tuple(nested["eagle_aux_hidden_state_layer_ids"])
    if fields.get("eagle_aux_hidden_state_layer_ids"):
        return tuple(layer - 1 for layer in fields["eagle_aux_hidden_state_layer_ids"])
    return default_taps(num_target_layers)


def rope_theta_in(layer):
    parameters = layer.get("rope_parameters") or {}
    parameters = parameters.get("sliding_attention") or parameters.get("full_attention") or parameters
    for place in (layer, parameters, layer.get("rope_scaling") or {}):
        if place.get("rope_theta") is not None:
            return place["rope_theta"]
    return 10000.0


def shape_in(fields, tensors, family, num_target_layers, target_hidden_size):
    """The shape that a config and the tensors beside it describe; what tensors show is read from them."""
    layer = fields.get("transformer_layer_config") or fields
    width, heads = layer["hidden_size"], layer["num_attention_heads"]
    is_eagle3 = family in ("eagle3", "dart")
    num_masks, mask_token = masks_in(fields, tensors)
    has_map = is_eagle3 and "d2t" in tensors
    numbers = {name.split(".")[1] for name in tensors if name.startswith("layers.")}
    return HeadShape(
        family=family, taps=taps_in(fields, num_target_layers) if is_eagle3 else (num_target_layers,),
        vocab_size=layer["vocab_size"], hidden_size=width, target_hidden_size=target_hidden_size,
        intermediate_size=layer["intermediate_size"], num_layers=len(numbers), num_heads=heads,
        num_kv_heads=layer.get("num_key_value_heads", heads), head_dim=layer.get("head_dim") or width // heads,
        draft_vocab_size=len(tensors["d2t"]) if has_map else 0, rms_norm_eps=layer.get("rms_norm_eps", 1e-6),
        rope_theta=rope_theta_in(layer), qkv_bias="layers.0.self_attn.q_proj.bias" in tensors,
        output_bias="layers.0.self_attn.o_proj.bias" in tensors, fc_bias="fc.bias" in tensors,
        qk_norm="layers.0.self_attn.q_norm.weight" in tensors,
        norm_before_residual=fields.get("norm_before_residual", False),
        norm_before_fc="input_norm.weight" in tensors, fc_norm="fc_norm.0.weight" in tensors,
        norm_output=fields.get("norm_output", False), own_embedding="embed_tokens.weight" in tensors,
        own_lm_head="lm_head.weight" in tensors, num_masks=num_masks, mask_token=mask_token,
        windows=windows_in(layer))


def head_of(shape):
    """The head of a shape."""
    if shape.family == "dart":
        return DartHead(shape)
    return PEagleHead(shape) if shape.num_masks else EagleHead(shape)


def load(directory, family, target):
    """A head out of a directory, with the target's embedding and LM head where it has none."""
    fields, tensors = layouts.read(directory)
    tensors = {name.removeprefix("model.").replace("midlayer.", "layers.0."): value for name, value in tensors.items()}
    tensors.pop("t2d", None)
    shape = shape_in(fields, tensors, family, target.shape.num_hidden_layers, target.shape.hidden_size)
    return layouts.fill(head_of(shape), tensors, str).borrow(target.embedding, target.lm_head)
