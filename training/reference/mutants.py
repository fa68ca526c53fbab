"""Heads with one mistake, each of which a comparison must catch."""
import copy
import dataclasses
import math

import torch
from torch import nn

from training.reference.blockwise import BlockwiseHead
from training.reference.dart import CHILDREN, DartHead
from training.reference.dflash import DFlashHead
from training.reference.dspark import DSparkHead
from training.reference.eagle import EagleHead
from training.reference.hydra import HydraHead
from training.reference.layers import rms_norm
from training.reference.lookahead_rows import RowsHead
from training.reference.medusa import MedusaHead
from training.reference.mlp_speculator import EPSILON, MlpSpeculator
from training.reference.mtp import LAYOUTS, MtpHead
from training.reference.peagle import PEagleHead

ROW_HEADS = (EagleHead, MtpHead)
MASK_HEADS = (PEagleHead, DartHead)
PATH_HEADS = (MedusaHead, BlockwiseHead, HydraHead, MlpSpeculator)


def with_shape(head, **changes):
    """The same weights, used in another way."""
    other = copy.deepcopy(head)
    other.shape = dataclasses.replace(head.shape, **changes)
    return other


def with_conventions(head, **changes):
    other = copy.deepcopy(head)
    other.conventions = dataclasses.replace(head.conventions, **changes)
    return other


def with_alignment_swapped(head):
    """Slots predict the token at their position instead of the one after it, or the reverse."""
    return with_conventions(head, slot_offset=-1 if head.shape.predicts_next else 1)


def with_other_embedding_scale(head):
    """Reads the target's embedding without its factor, or with it."""
    if head.shape.own_embedding or head.target_scale == 1:
        return None
    other = copy.deepcopy(head)
    other.borrowed_embedding = head.borrowed_embedding * (
        head.target_scale if head.embedding_scale == 1 else 1 / head.target_scale)
    return other


def with_draft_ids_in_markov(head):
    """W1 is read at the token's number in the draft vocabulary."""
    if not head.shape.draft_vocab_size:
        return None
    return with_markov_mistake(head, "", reads_draft_ids=True)


def without_markov(head):
    if not head.shape.markov_kind:
        return None
    return with_shape(head, markov_kind="")


def with_markov_mistake(head, kind, **changes):
    return with_conventions(head, **changes) if kind in ("", head.shape.markov_kind) and head.shape.markov_kind else None


def with_gate_halves_swapped(head):
    """Reads [e ; z] instead of [z ; e], or of a state [e ; s ; z]."""
    if head.shape.markov_kind not in ("gated", "rnn"):
        return None
    other, rank = copy.deepcopy(head), head.shape.markov_rank
    if head.shape.markov_kind == "gated":
        weight = other.markov_head.gate_proj.weight
        weight.copy_(weight.roll(rank, dims=1))
    else:
        weight = other.markov_head.joint_proj.weight
        weight[:, :2 * rank] = weight[:, :2 * rank].roll(rank, dims=1)
    return other


def with_rnn_parts_swapped(head):
    """[c ; g ; o] instead of [g ; c ; o]."""
    if head.shape.markov_kind != "rnn":
        return None
    other, rank = copy.deepcopy(head), head.shape.markov_rank
    for part in other.markov_head.joint_proj.parameters():
        part[:2 * rank] = part[:2 * rank].roll(rank, dims=0)
    return other


def with_wider_window(head):
    return with_shape(head, window=head.shape.window + 1) if head.shape.window else None


def with_taps_shifted(head):
    """Reads the state one layer too early. If the tap follows the final norm, this is the state before the norm."""
    step = -1 if head.shape.taps[0] > 0 else 1
    return with_shape(head, taps=tuple(tap + step for tap in head.shape.taps))


def with_tap_order(head):
    is_fused = isinstance(head, DFlashHead) or head.shape.is_eagle3
    return with_shape(head, taps=head.shape.taps[::-1]) if is_fused and len(head.shape.taps) > 1 else None


def with_halves_swapped(head):
    """Reads feature and embedding in the wrong order, by exchanging the columns of the matrix that multiplies them."""
    other = copy.deepcopy(head)
    parts = (other.fc,)
    if isinstance(head, EagleHead) and head.shape.is_eagle3:
        attention = other.layers[0].self_attn
        parts = attention.q_proj, attention.k_proj, attention.v_proj
    for part in parts:
        part.weight.copy_(part.weight.roll(part.weight.shape[1] // 2, dims=1))
    return other


def with_other_feedback(head):
    """Feeds back the vector before the final norm instead of the one after it, or the reverse."""
    if isinstance(head, MASK_HEADS) or isinstance(head, EagleHead) and not head.shape.is_eagle3:
        return None
    return with_shape(head, norm_output=not head.shape.norm_output)


def with_input_fed_back(head):
    return None if isinstance(head, MASK_HEADS) else with_conventions(head, feeds_back_input=True)


def with_residual_swapped(head):
    if not head.shape.is_eagle3:
        return None
    other = with_shape(head, norm_before_residual=not head.shape.norm_before_residual)
    other.layers[0].shape = other.shape
    return other


def with_ids_in_d2t(head):
    if not head.shape.draft_vocab_size:
        return None
    other = copy.deepcopy(head)
    other.d2t -= torch.arange(len(other.d2t))
    return other


def with_offsets_in_token_map(head):
    if not head.shape.draft_vocab_size:
        return None
    other = copy.deepcopy(head)
    other.token_map.copy_((other.token_map + torch.arange(len(other.token_map))) % head.shape.vocab_size)
    return other


def without_logit_scale(head):
    """This makes a difference in dynamic trees only."""
    return with_shape(head, logit_scale=1.0) if head.shape.logit_scale != 1 else None


def with_head_index_shifted(head):
    """Level i uses the weights of level i + 1. For Hydra and MLP speculators this is the LM head."""
    other = copy.deepcopy(head)
    if isinstance(head, BlockwiseHead):
        for weight in other.output.parameters():
            weight.copy_(weight.roll(-head.shape.hidden_size, dims=0))
        return other
    names = {MedusaHead: ("blocks", "lm_heads"), HydraHead: ("lm_heads",), MlpSpeculator: ("head",)}[type(head)]
    if isinstance(head, MlpSpeculator) and head.shape.tie_weights:
        return None
    for name in names:
        parts = list(getattr(other, name))
        setattr(other, name, nn.ModuleList(parts[1:] + parts[:1]))
    return other


def with_norm_offset(head):
    """Norms that are stored less 1 are read as they are, or the reverse."""
    other = copy.deepcopy(head)
    for name, weight in other.named_parameters():
        if name.endswith("norm.weight"):
            weight.add_(-1 if LAYOUTS[head.shape.layout].norm_offset else 1)
    return other


def with_gate_first(head):
    if not head.shape.output_gate:
        return None
    other = copy.deepcopy(head)
    rows = other.layer.self_attn.q_proj.weight
    rows.copy_(rows.unflatten(0, (head.shape.num_heads, 2, -1)).flip(1).flatten(0, 2))
    return other


def with_all_rotated(head):
    if head.shape.rotated_share == 1:
        return None
    other = copy.deepcopy(head)
    other.layer.self_attn.shape = dataclasses.replace(head.shape, rotated_share=1.0)
    return other


def with_mixture_mistake(head, **changes):
    """The same experts, used otherwise."""
    if not head.shape.num_experts:
        return None
    other = copy.deepcopy(head)
    other.layer.mlp.shape = dataclasses.replace(head.shape, **changes)
    return other


def with_experts(head, change):
    """`change` is given the mixture, to spoil it."""
    if not head.shape.num_experts:
        return None
    other = copy.deepcopy(head)
    change(other.layer.mlp)
    return other


def shift_experts(mixture):
    experts = list(mixture.experts)
    mixture.experts = nn.ModuleList(experts[1:] + experts[:1])


def swap_gate_and_up(mixture):
    for expert in mixture.experts:
        expert.gate_proj, expert.up_proj = expert.up_proj, expert.gate_proj


def without_prefix(head):
    if head.prefix is None:
        return None
    other = copy.deepcopy(head)
    other.prefix = None
    return other


def with_state_scaled(head):
    """The scale of the embedding multiplies the state instead."""
    other = copy.deepcopy(head)
    for embedding in set(other.emb):
        embedding.weight.div_(head.shape.embedding_scale ** 2)
    return other


def with_scaled_inputs(head):
    return None if head.target[0].embedding_scale == 1 else with_conventions(head, is_scaled=True)


class _ScaledInput(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(rms_norm(x, torch.ones(x.shape[-1]), EPSILON) / math.sqrt(2))


def with_all_inputs_scaled(head):
    """Every level's state is scaled, not only the target's."""
    if not head.shape.scale_input:
        return None
    other = copy.deepcopy(head)
    other.proj = nn.ModuleList([other.proj[0], *(_ScaledInput(network) for network in other.proj[1:])])
    return other


def with_shares_of_all(head):
    """Draft vocabularies of a few tokens have no others."""
    return with_conventions(head, shares_of_all=True) if head.shape.num_drafted > CHILDREN else None


# name -> (heads that can have the mistake, the head with it or None)
MUTANTS = {
    "taps": ((*ROW_HEADS, *PATH_HEADS, DFlashHead), with_taps_shifted),
    "tap_order": ((EagleHead, DFlashHead), with_tap_order),
    "concat_order": (ROW_HEADS, with_halves_swapped),
    "feedback_norm": (ROW_HEADS, with_other_feedback),
    "residual": (EagleHead, with_residual_swapped),
    "d2t": ((EagleHead, DFlashHead), with_ids_in_d2t),
    "positions": ((*ROW_HEADS, RowsHead), lambda head: with_conventions(head, first_draft_position=1)),
    "row_shift": (ROW_HEADS, lambda head: with_conventions(head, token_of_row=0)),
    "feedback": (ROW_HEADS, with_input_fed_back),
    "level_row": (MASK_HEADS, lambda head: with_conventions(head, first_level_row=1)),
    "masks": (MASK_HEADS, lambda head: with_conventions(head, masks_read_newest=True)),
    "mask_token": (PEagleHead, lambda head: with_shape(head, mask_token=head.shape.mask_token - 1)),
    "mask_sight": (MASK_HEADS, lambda head: with_conventions(head, masks_see_masks=False)),
    "mask_residual": (DartHead, lambda head: with_conventions(head, adds_second_half=True)),
    "norms": (DartHead, lambda head: with_conventions(head, norms_once=True)),
    "level_weight": (DartHead, lambda head: with_conventions(head, depth_offset=1)),
    "shares": (DartHead, with_shares_of_all),
    "norm_offset": (MtpHead, with_norm_offset),
    "gate": (MtpHead, with_gate_first),
    "rotation": (MtpHead, with_all_rotated),
    "expert_weights": (MtpHead, lambda head: with_mixture_mistake(head, normalises_experts=not head.shape.normalises_experts)),
    "expert_count": (MtpHead, lambda head: with_mixture_mistake(head, used_experts=head.shape.used_experts - 1)),
    "expert_order": (MtpHead, lambda head: with_experts(head, shift_experts)),
    "expert_halves": (MtpHead, lambda head: with_experts(head, swap_gate_and_up)),
    "shared_expert": (MtpHead, lambda head: with_experts(head, lambda mixture: mixture.shared_expert.down_proj.weight.zero_())),
    "shared_scale": (MtpHead, lambda head: with_experts(head, lambda mixture: mixture.shared_expert_gate.weight.zero_())),
    "head_index": (PATH_HEADS, with_head_index_shifted),
    "state_row": (PATH_HEADS, lambda head: with_conventions(head, state_offset=-1)),
    "token_map": (MedusaHead, with_offsets_in_token_map),
    "logit_scale": (MedusaHead, without_logit_scale),
    "tokens": ((HydraHead, MlpSpeculator), lambda head: with_conventions(head, token_offset=-1)),
    "path": ((HydraHead, MlpSpeculator), lambda head: with_conventions(head, reads_best_path=True)),
    "prefix": (HydraHead, without_prefix),
    "row_gap": (RowsHead, lambda head: with_conventions(head, row_gap=1)),
    "level": (RowsHead, lambda head: with_conventions(head, level_offset=1)),
    "text": (RowsHead, lambda head: with_conventions(head, text_offset=-1)),
    "group": (RowsHead, lambda head: with_conventions(head, sees_group=False)),
    "siblings": (RowsHead, lambda head: with_conventions(head, sees_sibling=True)),
    "input_scale": (RowsHead, with_scaled_inputs),
    "scale_place": (MlpSpeculator, with_state_scaled),
    "scale_input": (MlpSpeculator, lambda head: with_shape(head, scale_input=not head.shape.scale_input)),
    "embedding_scale": (DFlashHead, with_other_embedding_scale),
    "context_norm": (DFlashHead, lambda head: with_conventions(head, context_through_norm=True)),
    "causal_block": (DFlashHead, lambda head: with_conventions(head, is_causal=True)),
    "block_position": (DFlashHead, lambda head: with_conventions(head, position_offset=1)),
    "mask_position": (DFlashHead, lambda head: with_conventions(head, mask_offset=1)),
    "alignment": (DFlashHead, with_alignment_swapped),
    "window": (DFlashHead, with_wider_window),
    "markov": (DSparkHead, without_markov),
    "markov_token": (DSparkHead, lambda head: with_markov_mistake(head, "", token_offset=-1)),
    "markov_ids": (DSparkHead, with_draft_ids_in_markov),
    "markov_state": (DSparkHead, lambda head: with_markov_mistake(head, "rnn", forgets_state=True)),
    "markov_inputs": (DSparkHead, with_gate_halves_swapped),
    "markov_parts": (DSparkHead, with_rnn_parts_swapped),
    "scale_later": (MlpSpeculator, with_all_inputs_scaled),
}


# Mistakes that only trees of these kinds can show; the others any draft.
TREES = {"path": ("static", "dynamic"), "level_weight": ("dart",), "shares": ("dart",)}


def mutated(head, name):
    """The head with mistake `name`, or None where it cannot have it."""
    kinds, mutate = MUTANTS[name]
    return mutate(head) if isinstance(head, kinds) else None
