"""DSpark (DeepSeek-AI's DeepSpec), forward only: DFlash's block, and a Markov head that adds to each slot's logits what
the tokens before it say, from left to right.

Names of parameters are those of published files. `vanilla`: W2 e; `gated`: W2 (sigmoid(G [z ; e]) * e); `rnn`: a state
that goes from slot to slot, [g ; c ; o] = J [s ; e ; z], s = sigmoid(g) s + (1 - sigmoid(g)) tanh(c), W2 tanh(o); with
z the slot's hidden state and e = W1[token before it].
"""
import torch
from torch import nn

from training.reference import dflash
from training.reference.dflash import DFlashHead


class MarkovHead(nn.Module):
    def __init__(self, shape):
        super().__init__()
        rank, width, self.kind = shape.markov_rank, shape.hidden_size, shape.markov_kind
        self.markov_w1 = nn.Embedding(shape.vocab_size, rank)
        self.markov_w2 = nn.Linear(rank, shape.num_drafted, bias=False)
        if self.kind == "gated":
            self.gate_proj = nn.Linear(width + rank, rank)
        if self.kind == "rnn":
            self.joint_proj = nn.Linear(2 * rank + width, 3 * rank)

    def forward(self, state, token, hidden):
        """What is added to the logits [Vd], and the next slot's state."""
        e = self.markov_w1(torch.tensor(token))
        if self.kind == "vanilla":
            return self.markov_w2(e), state
        if self.kind == "gated":
            return self.markov_w2(self.gate(hidden, e) * e), state
        gate, candidate, output = self.joint_proj(torch.cat([state, e, hidden])).chunk(3)
        state = gate.sigmoid() * state + (1 - gate.sigmoid()) * candidate.tanh()
        return self.markov_w2(output.tanh()), state

    def gate(self, hidden, e):
        return self.gate_proj(torch.cat([hidden, e])).sigmoid()

    def first_state(self):
        return torch.zeros(self.markov_w1.weight.shape[1])


class ConfidenceHead(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.proj = nn.Linear(shape.hidden_size + (shape.markov_rank if shape.confidence_reads_token else 0), 1)


class DSparkHead(DFlashHead):
    def __init__(self, shape):
        super().__init__(shape)
        if shape.markov_kind:
            self.markov_head = MarkovHead(shape)
        if shape.has_confidence:
            self.confidence_head = ConfidenceHead(shape)

    @torch.no_grad()
    def logits_of_level(self, hidden, before):
        logits = super().logits_of_level(hidden, before)
        if not self.shape.markov_kind:
            return logits
        state = self.markov_head.first_state()
        for level in range(len(before)):
            token = before[max(level + self.conventions.token_offset, 0)]
            if self.conventions.reads_draft_ids:
                token = int(torch.searchsorted(self.target_ids(torch.arange(self.shape.num_drafted)), token))
            if self.conventions.forgets_state:
                state = self.markov_head.first_state()
            term, state = self.markov_head(state, token, hidden[self.slot_of(level)])
        return logits + term

    @torch.no_grad()
    def confidence_of_level(self, hidden, before):
        """The confidence of the token after `before`."""
        x = hidden[self.slot_of(len(before) - 1)]
        if self.shape.confidence_reads_token:
            x = torch.cat([x, self.markov_head.markov_w1(torch.tensor(before[-1]))])
        return float(self.confidence_head.proj(x).sigmoid())


save = dflash.save


def load(directory, target):
    return dflash.load(directory, target, DSparkHead)
