"""The references agree with themselves, with `transformers` where it is installed, and with hand-made trees."""
import pytest
import sys
from pathlib import Path

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from training.reference import head_files, made_heads, targets  # noqa: E402
from training.reference.drafting import ROOT, Candidates, Drafting, best, paths_of  # noqa: E402
from training.reference.layers import causal  # noqa: E402

torch.set_num_threads(1)
TOKENS = torch.randint(0, 384, (60,), generator=torch.Generator().manual_seed(5)).tolist()
BASES = range(2, 60, 6)


def target_of(model_type="llama"):
    return targets.random_target(targets.TargetShape(model_type, tie_word_embeddings=model_type == "gemma3_text"), 3)


@pytest.fixture(scope="module")
def target():
    return target_of()


@pytest.fixture(scope="module")
def passed(target):
    return target.forward(TOKENS[:-1])


def drafting_of(head, passed, *conventions):
    return Drafting(head, passed.features(head.shape.taps), TOKENS, *conventions)


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
    head, dialect = made_heads.random_head(kind, target, 7)
    head_files.save(head, tmp_path, dialect, target.shape.num_hidden_layers)
    read = head_files.load(tmp_path, head.shape.family, target)
    assert read.shape == head.shape
    assert torch.equal(drafting_of(read, passed).rows.logits, drafting_of(head, passed).rows.logits)


def logits_from_scratch(head, features, base, path):
    """Logits behind `path`, by passes over the whole text without a cache, one for each of its tokens."""
    features = head.project(features[:base - 1])
    tokens = TOKENS[1:base]
    for token in [*path, None]:
        count = len(tokens)
        rows = head(torch.tensor(tokens), features, torch.arange(count), causal(count), head.empty_cache())
        if token is not None:
            tokens, features = [*tokens, token], torch.cat([features, rows.fed_back[-1:]])
    return rows.logits[-1]


@pytest.mark.parametrize("kind", made_heads.KINDS)
def test_rows_of_a_tree_are_those_of_its_paths(kind, target, passed):
    head, _ = made_heads.random_head(kind, target, 7)
    for base in (2, 3, 31):
        grown = drafting_of(head, passed).grow(base, 3, 4, 12)
        assert len(grown.logits) == 10
        for node, logits in grown.logits.items():
            expected = logits_from_scratch(head, passed.features(head.shape.taps), base, grown.path(node))
            assert torch.allclose(logits, expected, atol=2e-4), grown.path(node)


def test_a_shorter_text_gives_the_same_drafts(target, passed):
    """Rows are causal: what follows the base changes nothing, so all rounds of a request can share one pass."""
    head, _ = made_heads.random_head("speculators-two-layers", target, 7)
    features = passed.features(head.shape.taps)
    whole = drafting_of(head, passed)
    for base in BASES:
        begun = Drafting(head, features[:base - 1], TOKENS[:base])
        assert whole.tree(base, 4, 3, 10).paths() == begun.tree(base, 4, 3, 10).paths()


@pytest.mark.parametrize("mutant", made_heads.MUTANTS)
@pytest.mark.parametrize("kind", made_heads.KINDS)
def test_mutants_draft_otherwise(kind, mutant, target, passed):
    head, _ = made_heads.random_head(kind, target, 7)
    mistaken = made_heads.mutated(head, mutant)
    if mistaken is None:
        pytest.skip("this head cannot have the mistake")
    right, wrong = drafting_of(head, passed), drafting_of(mistaken[0], passed, mistaken[1])
    equal = sum(right.tree(base, 4, 3, 12).paths() == wrong.tree(base, 4, 3, 12).paths() for base in BASES)
    assert equal < 0.9 * len(BASES)


class FixedHead:
    """Vd = V tokens, and as logits what is asked for: enough of a head for candidates."""

    @staticmethod
    def target_ids(drafted):
        return drafted


def test_best_takes_the_lower_of_equal_ones():
    assert best(torch.tensor([1.0, 3.0, 3.0, 2.0]), 1) == ([1], 0.0)
    assert best(torch.tensor([1.0, 3.0, 3.0, 2.0]), 3) == ([1, 2, 3], 1.0)
    assert best(torch.tensor([1.0]), 1) == ([0], float("inf"))


def test_a_tree_by_hand():
    """Probabilities by row: root .6 .3 .1; behind token 0: .5 .4 .1; behind token 1: .9 .06 .04."""
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


def test_small_errors_change_no_draft_whose_margin_is_larger(target, passed):
    head, _ = made_heads.random_head("reference", target, 7)
    noisy, generator = made_heads.with_shape(head), torch.Generator().manual_seed(1)
    for weight in noisy.parameters():
        weight.add_(1e-5 * torch.randn(weight.shape, generator=generator))
    right, wrong = drafting_of(head, passed), drafting_of(noisy, passed)
    sure = [base for base in range(2, 60) if right.tree(base, 4, 4, 16).margin > 5e-3]
    assert len(sure) > 20
    assert all(right.tree(base, 4, 4, 16).paths() == wrong.tree(base, 4, 4, 16).paths() for base in sure)
