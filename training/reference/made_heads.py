"""Random heads of every layout."""
import dataclasses
import math

import torch

from training.reference import (blockwise, dflash, dspark, gguf_heads, gguf_modules, head_files, hydra, medusa, mlp_speculator, mtp,
                                pass_lookahead, ppd)
from training.reference.eagle import EagleHead
from training.reference.head_shape import HeadShape, default_taps
from training.reference.lookahead_rows import RowsHead, RowsShape
from training.reference.modules import sizes_of


@dataclasses.dataclass(frozen=True)
class Kind:
    """`family`: as drafters are called in the engine's configuration, but `eagle` for EAGLE-2, too."""

    family: str
    fields: dict = dataclasses.field(default_factory=dict)  # what its shape has that is not the default
    dialect: str = "eagle"  # of EAGLE heads; `gguf` of any head that is a GGUF file


# Nodes (path, prompt tokens) where 1, 2 or 3 levels are known: the published lists have this form, and leave out siblings.
_PPD_TREES = ((((0,), 3), ((3,), 2), ((1,), 0)),
              (((0,), 3), ((1,), 1), ((0, 0), 2), ((2,), 1), ((0, 1), 1), ((1, 0), 0)),
              (((0,), 2), ((0, 0), 3), ((1,), 2), ((0, 0, 0), 3), ((0, 1), 1), ((1, 0), 2), ((2,), 0), ((0, 0, 1), 1)))
_GATED = {"qk_norm": True, "output_gate": True, "rotated_share": 0.25}
_EXPERTS = {"num_experts": 8} | _GATED
_OTHER_EXPERTS = {"num_experts": 12, "used_experts": 3, "expert_size": 40, "shared_size": 24} | _GATED
_OWN = {"own_embedding": True, "own_lm_head": True}
_VANILLA = {"markov_kind": "vanilla", "markov_rank": 16}
KINDS = {
    "eagle": Kind("eagle"),
    "eagle-bias": Kind("eagle", {"fc_bias": True, "qkv_bias": True}),
    "eagle-two-layers": Kind("eagle", {"num_layers": 2, "own_embedding": True}),
    "reference": Kind("eagle3", {"draft_vocab_size": 200}, "reference"),
    "reference-full": Kind("eagle3", {"own_lm_head": False}, "reference"),
    "reference-wide": Kind("eagle3", {"hidden_size": 96, "num_heads": 6, "intermediate_size": 128,
                                      "own_embedding": True, "draft_vocab_size": 160}, "reference"),
    "reference-bias": Kind("eagle3", {"qkv_bias": True, "output_bias": True, "draft_vocab_size": 200}, "reference"),
    "reference-taps": Kind("eagle3", {"draft_vocab_size": 200, "taps": (0, 2, 4, 6)}, "reference"),
    "speculators": Kind("eagle3", {"draft_vocab_size": 200, "norm_before_residual": True}, "speculators"),
    "speculators-3.1": Kind("eagle3", {"draft_vocab_size": 200, "fc_norm": True, "norm_output": True,
                                       "own_embedding": True, "norm_before_residual": True}, "speculators"),
    "speculators-norm-before-fc": Kind("eagle3", {"draft_vocab_size": 200, "norm_before_fc": True, "taps": (0, 5)},
                                       "speculators"),
    "speculators-two-layers": Kind("eagle3", {"draft_vocab_size": 200, "num_layers": 2, "qk_norm": True},
                                   "speculators"),
    "speculators-window": Kind("eagle3", {"draft_vocab_size": 200, "num_layers": 2, "windows": (12, 0)}, "speculators"),
    "deepspec": Kind("eagle3", {"qk_norm": True, "own_embedding": True, "taps": (0, 2, 3, 5, 6)}, "deepspec"),
    "reference-gguf": Kind("eagle3", {"draft_vocab_size": 200, "norm_before_residual": True, "taps": (0, 2, 5)}, "gguf"),
    "reference-gguf-normed": Kind("eagle3", {"own_embedding": True, "norm_before_fc": True}, "gguf"),
    "peagle": Kind("eagle3", {"num_layers": 4, "own_embedding": True, "draft_vocab_size": 200, "num_masks": 7,
                              "mask_token": 11}, "speculators"),
    "peagle-flat": Kind("eagle3", {"num_layers": 2, "own_embedding": True, "qkv_bias": True, "num_masks": 5,
                                   "mask_token": 300, "draft_vocab_size": 200}, "reference"),
    "peagle-normed": Kind("eagle3", {"own_embedding": True, "num_masks": 63, "fc_norm": True, "mask_token": 2,
                                     "norm_before_residual": True, "taps": (0, 5), "qk_norm": True}, "speculators"),
    "peagle-window": Kind("eagle3", {"num_layers": 2, "own_embedding": True, "num_masks": 5, "mask_token": 9,
                                     "windows": (10, 10)}, "speculators"),
    "dart": Kind("dart", {"draft_vocab_size": 200, "num_masks": 6}, "reference"),
    "dart-few": Kind("dart", {"draft_vocab_size": 12, "num_masks": 5}, "reference"),
    "dart-full": Kind("dart", {"num_masks": 4, "qkv_bias": True, "own_embedding": True}, "reference"),
    "medusa": Kind("medusa", {"layout": "reference", "num_heads": 5, "num_lm_heads": 5}),
    "medusa-two-layers": Kind("medusa", {"layout": "reference", "num_layers": 2, "prefix": "medusa_head."}),
    "medusa-vllm": Kind("medusa", {"layout": "vllm", "bias": False, "num_layers": 2}),
    "medusa-vllm-map": Kind("medusa", {"layout": "vllm", "draft_vocab_size": 150, "prefix": "medusa_heads."}),
    "medusa-vllm-one-head": Kind("medusa", {"layout": "vllm", "num_heads": 3, "num_lm_heads": 1}),
    "medusa-vllm-one-head-map": Kind("medusa", {"layout": "vllm", "num_layers": 2, "num_lm_heads": 1,
                                                "draft_vocab_size": 200}),
    "medusa-vllm-borrowed": Kind("medusa", {"layout": "vllm", "num_lm_heads": 0}),
    "medusa-vllm-scaled": Kind("medusa", {"layout": "vllm", "logit_scale": 0.4}),
    "blockwise": Kind("blockwise"),
    "blockwise-own-head": Kind("blockwise", {"num_heads": 6, "inner_size": 80, "bias": False, "own_lm_head": True}),
    "hydra": Kind("hydra"),
    "hydra-two-layers": Kind("hydra", {"num_layers": 2, "num_levels": 3}),
    "hydra-offset": Kind("hydra", {"taps": (5,)}),
    "hydra-prefix": Kind("hydra", {"has_prefix": True}),
    "hydra-prefix-three-layers": Kind("hydra", {"has_prefix": True, "num_layers": 3}),
    "mtp-mimo": Kind("mtp", {"layout": "mimo", "qkv_bias": True}),
    "mtp-mimo-embedding-first": Kind("mtp", {"layout": "mimo", "qkv_bias": True, "hidden_first": False}),
    "mtp-speculators": Kind("mtp", {"layout": "speculators", "qk_norm": True}),
    "mtp-speculators-hidden-first": Kind("mtp", {"layout": "speculators", "hidden_first": True}),
    "mtp-speculators-next": Kind("mtp", {"layout": "speculators-next"} | _GATED),
    "mtp-next": Kind("mtp", {"layout": "next"} | _GATED),
    "mtp-qwen35": Kind("mtp", {"layout": "qwen35"} | _GATED),
    "mtp-gguf": Kind("mtp", {"layout": "gguf"} | _GATED, "gguf"),
    "mtp-experts": Kind("mtp", {"layout": "qwen35"} | _EXPERTS),
    "mtp-experts-packed": Kind("mtp", {"layout": "qwen35", "packs_experts": True} | _EXPERTS),
    "mtp-next-experts": Kind("mtp", {"layout": "next", "normalises_experts": False} | _OTHER_EXPERTS),
    "mtp-speculators-next-experts": Kind("mtp", {"layout": "speculators-next", "packs_experts": True} | _OTHER_EXPERTS),
    "mtp-gguf-experts": Kind("mtp", {"layout": "gguf"} | _OTHER_EXPERTS, "gguf"),
    "mtp-gguf-experts-packed": Kind("mtp", {"layout": "gguf", "packs_experts": True, "normalises_experts": False} | _EXPERTS, "gguf"),
    "mtp-deepseek": Kind("mtp", {"layout": "deepseek"}),
    "pass": Kind("pass"),
    "pass-six": Kind("pass", {"num_rows": 6}),
    "ppd": Kind("ppd"),
    "ppd-lists": Kind("ppd", {"trees": _PPD_TREES}),
    "ppd-five": Kind("ppd", {"num_rows": 5}),
    "mlp": Kind("mlp_speculator"),
    "mlp-scaled": Kind("mlp_speculator", {"scale_input": True, "inner_size": 96, "prefix": "speculator."}),
    "mlp-tied": Kind("mlp_speculator", {"tie_weights": True, "inner_size": 48, "num_levels": 5}),
    "mlp-tied-scaled": Kind("mlp_speculator", {"tie_weights": True, "scale_input": True, "stores_once": True,
                                               "num_levels": 4, "prefix": "speculator."}),
    "dflash": Kind("dflash", {"layout": "z-lab"}),
    "dflash-usual-taps": Kind("dflash", {"layout": "z-lab", "says_taps": False, "num_layers": 3, "block_size": 8}),
    "dflash-window": Kind("dflash", {"layout": "z-lab", "window": 12}),
    "dflash-window-whole": Kind("dflash", {"layout": "z-lab", "window": 9, "window_is_causal": False}),
    "dflash-fused": Kind("dflash", {"layout": "z-lab", "is_fused": True, "num_layers": 1}),
    "dflash-speculators": Kind("dflash", {"layout": "speculators", "draft_vocab_size": 200} | _OWN),
    "dflash-speculators-anchor": Kind("dflash", {"layout": "speculators", "predicts_next": True, "window": 10,
                                                  "window_is_causal": False} | _OWN),
    "dflash-deepspec": Kind("dflash", {"layout": "deepspec", "predicts_next": True, "block_size": 5} | _OWN),
    "dflash-gguf": Kind("dflash", {"layout": "gguf", "num_layers": 3}, "gguf"),
    "dflash-gguf-window": Kind("dflash", {"layout": "gguf", "window": 9, "window_is_causal": False} | _OWN, "gguf"),
    "dspark": Kind("dspark", {"layout": "z-lab", "predicts_next": True} | _VANILLA),
    "dspark-same": Kind("dspark", {"layout": "z-lab"} | _VANILLA),
    "dspark-confidence": Kind("dspark", {"layout": "z-lab", "predicts_next": True, "has_confidence": True,
                                         "confidence_reads_token": True} | _VANILLA),
    "dspark-deepspec": Kind("dspark", {"layout": "deepspec", "predicts_next": True} | _VANILLA | _OWN),
    "dspark-deepspec-gated": Kind("dspark", {"layout": "deepspec", "predicts_next": True, "markov_kind": "gated",
                                             "markov_rank": 12, "has_confidence": True} | _OWN),
    "dspark-deepspec-rnn": Kind("dspark", {"layout": "deepspec", "predicts_next": True, "markov_kind": "rnn",
                                           "markov_rank": 16, "has_confidence": True,
                                           "confidence_reads_token": True} | _OWN),
    "dspark-speculators": Kind("dspark", {"layout": "speculators", "draft_vocab_size": 200, "predicts_next": True,
                                          "markov_kind": "rnn", "markov_rank": 16, "window": 8} | _OWN),
    "dspark-gguf": Kind("dspark", {"layout": "gguf", "predicts_next": True, "has_confidence": True,
                                   "confidence_reads_token": True} | _VANILLA, "gguf"),
    "dspark-gguf-map": Kind("dspark", {"layout": "gguf", "draft_vocab_size": 200} | _VANILLA | _OWN, "gguf"),
    "dspark-no-markov": Kind("dspark", {"layout": "deepspec", "predicts_next": True, "has_confidence": True} | _OWN),
}


def plain_head(kind, target, changes):
    """A head of the kind's shape, with the weights that torch gives it."""
    of, family, fields = target.shape, KINDS[kind].family, KINDS[kind].fields | changes
    last = {"taps": (of.num_hidden_layers,), "vocab_size": of.vocab_size}
    width = {"hidden_size": of.hidden_size}
    if family in ("eagle", "eagle3", "dart"):
        taps = {"taps": default_taps(of.num_hidden_layers)} if family != "eagle" else {}
        shape = HeadShape(**(last | width | taps | {"family": family, "own_lm_head": family != "eagle"} | fields
                             | {"target_hidden_size": of.hidden_size}))
        return head_files.head_of(shape).borrow(target.embedding, target.lm_head)
    if family == "medusa":
        return medusa.MedusaHead(medusa.MedusaShape(**last | width | fields)).borrow(target)
    if family == "blockwise":
        return blockwise.BlockwiseHead(blockwise.BlockwiseShape(**last | width | fields)).borrow(target)
    if family == "hydra":
        return hydra.HydraHead(hydra.HydraShape(**last | sizes_of(of) | fields)).borrow(target)
    if family in ("dflash", "dspark"):
        usual = dflash.usual_taps(fields.get("num_layers", 2), of.num_hidden_layers)
        taps = (0, 4, 6) if fields.get("says_taps", True) else usual
        shape = dflash.DFlashShape(**{"vocab_size": of.vocab_size, "taps": taps, "mask_token": 5} | sizes_of(of) | fields)
        return (dflash.DFlashHead if family == "dflash" else dspark.DSparkHead)(shape).borrow(target)
    if family == "mtp":
        layout = mtp.LAYOUTS[fields["layout"]]
        usual = {"hidden_first": layout.hidden_first, "norm_output": layout.norm_output}
        return mtp.MtpHead(mtp.MtpShape(**last | usual | sizes_of(of) | fields)).borrow(target)
    if family in ("pass", "ppd"):
        return RowsHead(RowsShape(**last | width | fields)).borrow(target)
    shape = mlp_speculator.SpeculatorShape(**last | width | fields)
    return mlp_speculator.MlpSpeculator(shape).borrow(target)


def gain(head, name):
    """Chosen so that no part of a head outweighs the others, and attention is sharp.

    Vectors that are fed back must not grow from step to step, because rounding errors would grow with them: EAGLE-1 normalises nothing.
    """
    if isinstance(head, EagleHead):
        if not head.shape.is_eagle3:
            return 0.5 if name == "fc.weight" else 1.3
        if name == "fc.weight":  # tapped states have a root mean square of 3 to 8
            return 1.0 if head.shape.fc_norm or head.shape.norm_before_fc else 0.3
    if isinstance(head, (medusa.MedusaHead, blockwise.BlockwiseHead)):
        return 2.0
    return 2.0 if name.endswith(("q_proj.weight", "k_proj.weight", "joint_proj.weight")) else 1.3


def fill_with_noise(head, generator):
    for name, weight in head.named_parameters():
        weight.requires_grad_(False)
        noise = torch.randn(weight.shape, generator=generator)
        if name.endswith("norm.weight") or name.startswith("ln.") and name.endswith("weight") or "fc_norm." in name:
            weight.copy_(1 + 0.2 * noise)
        elif "mask_" in name:  # in place of hidden states, or of normalised vectors
            weight.copy_((4.0 if name == "mask_hidden" else 1.0) * noise)
        elif name.startswith("markov_head.markov_w"):
            weight.copy_(noise if "w1" in name else 0.8 * noise)
        elif weight.dim() == 1:
            weight.copy_(0.2 * noise)
        elif name.startswith(("lm_head", "embed_tokens", "emb.", "head.")):
            weight.copy_(0.4 * noise)
        else:
            weight.copy_(noise * (gain(head, name) / math.sqrt(weight.shape[1])))


def random_head(kind, target, seed, **changes):
    """A head of `kind` for the target. `changes`: further fields of its shape."""
    head, generator = plain_head(kind, target, changes), torch.Generator().manual_seed(seed)
    fill_with_noise(head, generator)
    width, vocab_size = target.shape.hidden_size, target.shape.vocab_size
    # Target embeddings are small beside features.
    if KINDS[kind].family == "eagle":
        head.fc.weight[:, :width] *= 3
    if KINDS[kind].family == "hydra":
        for level in head.levels:
            level.linear[0].weight[:, width:] *= 3
            level.res_connection.weight[:, width:] *= 3
    if KINDS[kind].family in ("dflash", "dspark"):  # what layers add must not vanish beside a scaled embedding
        for layer in head.layers:
            layer.self_attn.o_proj.weight *= head.embedding_scale
            layer.mlp.down_proj.weight *= head.embedding_scale
    num_drafted = getattr(head.shape, "draft_vocab_size", 0)
    if num_drafted:
        chosen = torch.randperm(vocab_size, generator=generator)[:num_drafted]
        if KINDS[kind].family == "medusa":
            head.token_map.copy_(chosen)
        else:
            head.d2t.copy_(chosen.sort().values - torch.arange(num_drafted))
    return head


_FILES = {"medusa": medusa, "blockwise": blockwise, "hydra": hydra, "mtp": mtp, "mlp_speculator": mlp_speculator,
          "dflash": dflash, "dspark": dspark, "pass": pass_lookahead, "ppd": ppd}


def save(head, kind, directory, target):
    """Writes the head's directory, or its file."""
    family = KINDS[kind].family
    if KINDS[kind].dialect == "gguf":
        return gguf_modules.save(head, directory, target) if family == "mtp" else gguf_heads.save(head, directory)
    if family in _FILES:
        return _FILES[family].save(head, directory, target)
    return head_files.save(head, directory, KINDS[kind].dialect, target.shape.num_hidden_layers)


def load(kind, directory, target):
    family = KINDS[kind].family
    if KINDS[kind].dialect == "gguf":
        return (gguf_modules if family == "mtp" else gguf_heads).load(directory, target)
    return _FILES[family].load(directory, target) if family in _FILES else head_files.load(directory, family, target)
