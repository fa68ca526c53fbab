"""Random heads of every dialect, and mutants: heads and conventions with one mistake, which a comparison must catch."""
import copy
import dataclasses
import math

import torch

from training.reference.drafting import Conventions
from training.reference.eagle import EagleHead
from training.reference.head_shape import HeadShape, default_taps

# What each kind of made head changes of the plain one: name -> (dialect, fields of HeadShape).
KINDS = {
    "eagle": ("eagle", {}),
    "eagle-bias": ("eagle", {"fc_bias": True, "qkv_bias": True}),
    "eagle-two-layers": ("eagle", {"num_layers": 2, "own_embedding": True}),
    "reference": ("reference", {"draft_vocab_size": 200}),
    "reference-full": ("reference", {"own_lm_head": False}),
    "reference-wide": ("reference", {"hidden_size": 96, "num_heads": 6, "intermediate_size": 128, "own_embedding": True,
                                     "draft_vocab_size": 160}),
    "reference-bias": ("reference", {"qkv_bias": True, "output_bias": True, "draft_vocab_size": 200}),
    "reference-taps": ("reference", {"draft_vocab_size": 200, "taps": (0, 2, 4, 6)}),
    "speculators": ("speculators", {"draft_vocab_size": 200, "norm_before_residual": True}),
    "speculators-3.1": ("speculators", {"draft_vocab_size": 200, "fc_norm": True, "norm_output": True,
                                        "own_embedding": True, "norm_before_residual": True}),
    "speculators-norm-before-fc": ("speculators", {"draft_vocab_size": 200, "norm_before_fc": True, "taps": (0, 5)}),
    "speculators-two-layers": ("speculators", {"draft_vocab_size": 200, "num_layers": 2, "qk_norm": True}),
    "deepspec": ("deepspec", {"qk_norm": True, "own_embedding": True, "taps": (0, 2, 3, 5, 6)}),
}


def gain(shape, name):
    """Chosen so that neither the feature nor attention nor the MLP outweighs the others, and attention is sharp.

    What is fed back must not grow from step to step, or else rounding errors do: EAGLE-1 normalises nothing.
    """
    if not shape.is_eagle3:
        return 0.5 if name == "fc.weight" else 1.3
    if name == "fc.weight":
        return 1.0 if shape.fc_norm or shape.norm_before_fc else 0.3  # tapped states have a root mean square of 3 to 8
    return 2.0 if name.endswith(("q_proj.weight", "k_proj.weight")) else 1.3


def random_head(kind, target, seed, **changes):
    """A head of `kind` for the target, and its dialect. `changes`: further fields of HeadShape."""
    dialect, fields = KINDS[kind]
    layers, family = target.shape.num_hidden_layers, "eagle" if dialect == "eagle" else "eagle3"
    taps = (layers,) if family == "eagle" else default_taps(layers)
    shape = HeadShape(**({"family": family, "taps": taps, "vocab_size": target.shape.vocab_size,
                          "hidden_size": target.shape.hidden_size, "own_lm_head": family == "eagle3"} | fields | changes
                         | {"target_hidden_size": target.shape.hidden_size}))
    head = EagleHead(shape).borrow(target.embedding, target.lm_head)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in head.named_parameters():
        weight.requires_grad_(False)
        noise = torch.randn(weight.shape, generator=generator)
        if name.endswith("norm.weight") or "fc_norm." in name:
            weight.copy_(1 + 0.2 * noise)
        elif weight.dim() == 1:
            weight.copy_(0.2 * noise)
        elif name.startswith(("lm_head", "embed_tokens")):
            weight.copy_(0.4 * noise)
        else:
            weight.copy_(noise * (gain(shape, name) / math.sqrt(weight.shape[1])))
    if not shape.is_eagle3:
        head.fc.weight[:, :shape.hidden_size] *= 3  # target embeddings are small beside features
    if shape.draft_vocab_size:
        chosen = torch.randperm(shape.vocab_size, generator=generator)[:shape.draft_vocab_size].sort().values
        head.d2t.copy_(chosen - torch.arange(shape.draft_vocab_size))
    return head, dialect


def with_shape(head, **changes):
    """The same weights, used otherwise."""
    other = copy.deepcopy(head)
    other.shape = dataclasses.replace(head.shape, **changes)
    return other


def with_taps_shifted(head):
    step = -1 if head.shape.taps[0] > 0 else 1
    return with_shape(head, taps=tuple(tap + step for tap in head.shape.taps))


def with_halves_swapped(head):
    """Reads feature and embedding in the wrong order: the columns of what multiplies them change places."""
    other = copy.deepcopy(head)
    attention = other.layers[0].self_attn
    for part in (attention.q_proj, attention.k_proj, attention.v_proj) if head.shape.is_eagle3 else (other.fc,):
        part.weight.copy_(part.weight.roll(part.weight.shape[1] // 2, dims=1))
    return other


def with_ids_in_map(head):
    other = copy.deepcopy(head)
    other.d2t -= torch.arange(len(other.d2t))
    return other


def with_residual_swapped(head):
    other = with_shape(head, norm_before_residual=not head.shape.norm_before_residual)
    other.layers[0].shape = other.shape
    return other


# name -> (whether a head can have the mistake, the head with it)
MUTANT_HEADS = {
    "taps": (lambda shape: True, with_taps_shifted),
    "tap_order": (lambda shape: len(shape.taps) > 1, lambda head: with_shape(head, taps=head.shape.taps[::-1])),
    "concat_order": (lambda shape: True, with_halves_swapped),
    "feedback_norm": (lambda shape: shape.is_eagle3,
                      lambda head: with_shape(head, norm_output=not head.shape.norm_output)),
    "residual": (lambda shape: shape.is_eagle3, with_residual_swapped),
    "d2t": (lambda shape: shape.draft_vocab_size > 0, with_ids_in_map),
}
MUTANT_CONVENTIONS = {
    "positions": Conventions(first_draft_position=1),
    "row_shift": Conventions(token_of_row=0),
    "feedback": Conventions(feeds_back_input=True),
}
MUTANTS = (*MUTANT_HEADS, *MUTANT_CONVENTIONS)



def mutated(head, name):
    """The head and conventions with mistake `name` (empty: none), or None where this head cannot have it."""
    if name in MUTANT_HEADS:
        applies, mutate = MUTANT_HEADS[name]
        return (mutate(head), Conventions()) if applies(head.shape) else None
    return head, MUTANT_CONVENTIONS[name] if name else Conventions()
