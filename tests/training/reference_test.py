"""The references agree with themselves, with `transformers` where it is installed, and with hand-made trees."""
import math
import operator
import pytest
import sys
from pathlib import Path

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("gguf")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from training.reference import made_heads, mutants, targets  # noqa: E402
from training.reference.dart import CHILDREN, DartDrafting, Scored  # noqa: E402
from training.reference.drafting import ROOT, Candidates, Drafting, Growth, best, paths_of  # noqa: E402
from training.reference.layers import causal  # noqa: E402
from training.reference.mask_drafting import MaskConventions  # noqa: E402

torch.set_num_threads(1)
TOKENS = torch.randint(0, 384, (60,), generator=torch.Generator().manual_seed(5)).tolist()
BASES = range(2, 60, 6)
MASK_KINDS = [kind for kind, one in made_heads.KINDS.items() if "num_masks" in one.fields]
ROW_KINDS = [kind for kind, one in made_heads.KINDS.items()
             if one.family in ("eagle", "eagle3", "mtp") and kind not in MASK_KINDS]


def target_of(model_type="llama"):
    return targets.random_target(targets.TargetShape(model_type, tie_word_embeddings=model_type == "gemma3_text"), 3)


@pytest.fixture(scope="module")
def target():
    return target_of()


@pytest.fixture(scope="module")
def passed(target):
    return target.forward(TOKENS[:-1])


def drafting_of(head, passed):
    return head.drafting(passed.features(head.shape.taps), TOKENS)


def all_logits(head, passed):
    """After nodes of every level."""
    return torch.stack([*drafting_of(head, passed).grow(31, 2, 3, 6).logits.values()])


@pytest.mark.parametrize("model_type", targets.ARCHITECTURES)
def test_greedy_text_varies(model_type):
    assert len(set(targets.greedy_text(target_of(model_type), TOKENS[:4], 40)[4:])) > 15


@pytest.mark.parametrize("model_type", targets.ARCHITECTURES)
def test_targets_are_those_of_transformers(model_type, tmp_path):
    transformers = pytest.importorskip("transformers")
    target = target_of(model_type)
    target.save(tmp_path)
    expected = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        states = expected.eval()(torch.tensor([TOKENS]), output_hidden_states=True)
    found = targets.load(tmp_path).forward(TOKENS)
    last = target.shape.num_hidden_layers
    taps = found.taps[:last - 1] + found.taps[last:]  # their list has no state between the last layer and the norm
    for tap, state in zip(taps, states.hidden_states[1:], strict=True):
        assert torch.allclose(tap, state[0], atol=1e-3)
    assert torch.allclose(found.logits, states.logits[0], atol=1e-3)


@pytest.mark.parametrize("kind", made_heads.KINDS)
def test_a_head_is_what_its_directory_says(kind, target, passed, tmp_path):
    head = made_heads.random_head(kind, target, 7)
    made_heads.save(head, kind, tmp_path / "head", target)
    read = made_heads.load(kind, tmp_path / "head", target)
    if kind in ("mtp-mimo-embedding-first", "mtp-speculators-hidden-first"):  # in no file
        assert read.shape == mutants.with_shape(head, hidden_first=not head.shape.hidden_first).shape
        read.shape = head.shape
    if kind == "dspark-same":  # likewise
        assert read.shape.predicts_next
        read.shape = head.shape
    assert read.shape == head.shape
    assert torch.allclose(all_logits(read, passed), all_logits(head, passed), atol=1e-4)


def logits_from_scratch(head, features, base, path):
    """Logits after `path`, by passes over the whole text without a cache, one pass for each of its tokens."""
    features = head.project(features[:base - 1])
    tokens = TOKENS[1:base]
    for token in [*path, None]:
        count = len(tokens)
        rows = head(torch.tensor(tokens), features, torch.arange(count), causal(count), head.empty_cache())
        if token is not None:
            tokens, features = [*tokens, token], torch.cat([features, rows.fed_back[-1:]])
    return rows.logits[-1]


@pytest.mark.parametrize("kind", ROW_KINDS)
def test_rows_of_a_tree_are_those_of_its_paths(kind, target, passed):
    head = made_heads.random_head(kind, target, 7)
    for base in (2, 3, 31):
        grown = drafting_of(head, passed).grow(base, 3, 4, 12)
        assert len(grown.logits) == 10
        for node, logits in grown.logits.items():
            expected = logits_from_scratch(head, passed.features(head.shape.taps), base, grown.path(node))
            assert torch.allclose(logits, expected, atol=2e-4), grown.path(node)


def mask_logits_from_scratch(head, features, base, level):
    """Logits of a level, by one pass over the text and its mask rows without a cache."""
    hidden, tokens = head.project(features[:base - 1]), TOKENS[1:base]
    count = base - 1 + level
    if made_heads.KINDS[head.kind].family == "dart":
        layer, seen = head.layers[0], causal(count)
        embedding = torch.cat([layer.input_layernorm(head.embed(torch.tensor(tokens))),
                               layer.mask_rep[:64].expand(level, -1)])
        second = torch.cat([layer.hidden_norm(hidden), layer.mask_rep[64:].expand(level, -1)])
        attended, _ = layer.self_attn(torch.cat([embedding, second], -1), torch.arange(count), seen, head.empty_cache()[0])
        out = torch.cat([hidden, layer.mask_rep[:64].expand(level, -1)]) + attended
        out = out + layer.mlp(layer.post_attention_layernorm(out))
        return head.lm_head(head.norm(head.norm(out)))[-1]
    hidden = torch.cat([hidden, head.project(head.mask_hidden[0]).expand(level, -1)])
    tokens = [*tokens, *[head.shape.mask_token] * level]
    return head(torch.tensor(tokens), hidden, torch.arange(count), causal(count), head.empty_cache()).logits[-1]


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_levels_are_those_of_mask_rows_behind_the_text(kind, target, passed):
    head = made_heads.random_head(kind, target, 7)
    head.kind, features = kind, passed.features(head.shape.taps)
    for base in (2, 3, 31):
        grown = drafting_of(head, passed).grow(base, 2, 5, 8)
        for node, logits in grown.logits.items():
            expected = mask_logits_from_scratch(head, features, base, len(grown.path(node)))
            assert torch.allclose(logits, expected, atol=2e-4), grown.path(node)


def test_a_dart_tree_by_hand():
    """Rows .6 .3 .1: a level has two children; the second level counts 0.9 * 2^-0.7 = 0.554, p is among two."""
    row = torch.tensor([0.6, 0.3, 0.1]).log()
    grown = Scored()
    level = grown.add_children(FixedHead, ROOT, row, 2)
    assert grown.scores == pytest.approx([math.log(2 / 3), math.log(1 / 3)])
    assert grown.expanded(level) == [0, 1]
    for node in level:
        grown.add_children(FixedHead, node, row, 2)
    draft = grown.draft(4)  # -0.405, -1.099, below the first -0.630, -1.014, below the second -1.323, -1.707
    assert draft.paths() == {(0,), (1,), (0, 0), (0, 1)}
    assert grown.scores[3] == pytest.approx(math.log(2 / 3) + 0.9 * 2 ** -0.7 * math.log(1 / 3))
    assert draft.margin == pytest.approx(-1.0986 + 1.3231, abs=1e-3)


def test_a_dart_tree_of_few_nodes_or_tokens():
    """Shares are among 25 tokens, or all there are; 1e-10 bounds the score of a token without one."""
    row = torch.linspace(3, -3, 40)
    grown = Scored()
    grown.add_children(FixedHead, ROOT, row, CHILDREN)
    assert len(grown.tokens) == 25 and sum(map(math.exp, grown.scores)) == pytest.approx(1)
    few, many = (DartDrafting.scored(FixedDrafting({(): row.tolist()}), 2, 1, max_nodes) for max_nodes in (3, 30))
    assert few.tokens == [0, 1, 2] and many.tokens == list(range(25))
    sharp = Scored()
    sharp.add_children(FixedHead, ROOT, torch.tensor([0.0, -90.0, -200.0]), CHILDREN)
    assert sharp.parents == [ROOT] * 3 and sharp.scores[0] == 0
    assert sharp.scores[1:] == pytest.approx([math.log(1e-10)] * 2)


@pytest.mark.parametrize("kind", ["peagle-flat", "dart", "speculators-two-layers", "mtp-next", "hydra-prefix", "medusa", "mlp"])
def test_a_shorter_text_gives_the_same_drafts(kind, target, passed):
    """Rows are causal: what follows the base changes nothing, so all rounds of a request can share one pass."""
    head = made_heads.random_head(kind, target, 7)
    features = passed.features(head.shape.taps)
    whole = drafting_of(head, passed)
    for base in BASES:
        begun = head.drafting(features[:base - 1], TOKENS[:base])
        assert whole.tree(base, 4, 3, 10).paths() == begun.tree(base, 4, 3, 10).paths()


@pytest.mark.parametrize("kind", made_heads.KINDS)
def test_mutants_draft_otherwise(kind, target, passed):
    head = made_heads.random_head(kind, target, 7)

    def drafts_of(head):
        drafting = drafting_of(head, passed)
        if isinstance(drafting, DartDrafting):
            return [drafting.scored(base, 5, 60).paths() for base in BASES]
        return [drafting.tree(base, 4, 3, 12).paths() for base in BASES]

    expected = drafts_of(head)
    for name in mutants.MUTANTS:
        mistaken = mutants.mutated(head, name)
        if mistaken is None:
            continue
        equal = sum(map(operator.eq, expected, drafts_of(mistaken)))
        assert equal < 0.9 * len(BASES), name


class FixedHead:
    """Vd = V tokens, and as logits what is asked for: enough of a head for candidates."""

    conventions = MaskConventions()

    @staticmethod
    def target_ids(drafted):
        return drafted


class FixedDrafting(Drafting, Growth):
    """Logits by path."""

    def __init__(self, rows):
        super().__init__(FixedHead)
        self.rows, self.asked_for = {path: torch.tensor(row) for path, row in rows.items()}, []
        self.logits = self.rows[()]

    def begin(self, base):
        return self

    def run(self, candidates, frontier, depth):
        paths = [tuple(candidates.path(node)) for node in frontier]
        self.asked_for += paths
        return [self.rows[path] for path in paths]


def test_best_takes_the_lower_of_equal_ones():
    assert best(torch.tensor([1.0, 3.0, 3.0, 2.0]), 1) == ([1], 0.0)
    assert best(torch.tensor([1.0, 3.0, 3.0, 2.0]), 3) == ([1, 2, 3], 1.0)
    assert best(torch.tensor([1.0]), 1) == ([0], float("inf"))


def test_a_tree_by_hand():
    """Probabilities by row: root .6 .3 .1; after token 0: .5 .4 .1; after token 1: .9 .06 .04."""
    rows = [torch.tensor(row).log() for row in ([0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.9, 0.06, 0.04])]
    grown = Candidates()
    level = grown.add_children(FixedHead, ROOT, rows[0], 2)
    assert grown.most_confident(level, 2) == [0, 1]
    for node in level:
        grown.add_children(FixedHead, node, rows[1 + node], 2)
    draft = grown.draft(4)  # .6, .3, and of .30 .24 | .27 .018 the best two
    assert draft.tokens == [0, 1, 0, 0] and draft.parents == [ROOT, ROOT, 0, 1]
    assert draft.margin == pytest.approx(torch.tensor([0.24, 0.27]).log().diff().item())
    assert draft.paths() == {(0,), (1,), (0, 0), (1, 0)} == paths_of([1, 0, 0, 0], [ROOT, ROOT, 0, 1])


def test_the_smallest_gap_at_a_border_counts():
    values = torch.tensor([9.0, 8.5, 6.0, 5.75])
    assert best(values, 3) == ([0, 1, 2], 0.25)
    assert best(values, 3, borders=[0]) == ([0, 1, 2], 0.5)
    assert best(values, 3, borders=[1, 2]) == ([0, 1, 2], 0.25)
    assert best(values, 4, borders=[3]) == ([0, 1, 2, 3], float("inf"))


def test_a_static_tree_by_hand():
    """Tokens by rank: after the text 5 3 1 0, after 5: 2 4 .., after 3: 0 .."""
    rows = {(): [1.0, 2.0, -9.0, 4.0, -9.0, 5.0], (5,): [0.0, 0.0, 9.0, 0.0, 8.75, 0.0],
            (3,): [9.0, 0.0, 8.0, 0.0, 7.0, 0.0]}
    drafting = FixedDrafting(rows)
    draft = drafting.fixed(2, [(0,), (0, 0), (1,), (0, 1), (2,), (1, 0)])
    assert draft.paths() == {(5,), (3,), (1,), (5, 2), (5, 4), (3, 0)}
    assert drafting.asked_for == [(5,), (3,)]
    # 1 at each border of the first level, where all subtrees differ; below 5 the two leaves may change places.
    assert draft.margin == pytest.approx(1)
    # 0.25: below 5, token 2 is before 4; 2: token 3 is before 1.
    assert FixedDrafting(rows).fixed(2, [(0,), (0, 0), (1,), (1, 0)]).margin == pytest.approx(0.25)
    assert FixedDrafting(rows).fixed(2, [(0,), (1,)]).margin == pytest.approx(2)


def test_small_errors_change_no_draft_whose_margin_is_larger(target, passed):
    head = made_heads.random_head("reference", target, 7)
    noisy, generator = mutants.with_shape(head), torch.Generator().manual_seed(1)
    for weight in noisy.parameters():
        weight.add_(1e-5 * torch.randn(weight.shape, generator=generator))
    right, wrong = drafting_of(head, passed), drafting_of(noisy, passed)
    sure = [base for base in range(2, 60) if right.tree(base, 4, 4, 16).margin > 5e-3]
    assert len(sure) > 20
    assert all(right.tree(base, 4, 4, 16).paths() == wrong.tree(base, 4, 4, 16).paths() for base in sure)
