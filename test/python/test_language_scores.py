# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of jpmhc.eval: models, needle, perplexity, multiple_choice and harness."""

from __future__ import annotations

import importlib
import json
import math
import sys
import types

import numpy as np
import pytest
from corpora_fixtures import ALICE, tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from jpmhc.data.filler import Filler
from jpmhc.data.needle import NeedleCorpus, check
from jpmhc.data.reading import read_records
from jpmhc.errors import ConfigError, DataError, MissingDependencyError, ShapeError
from jpmhc.eval import multiple_choice, needle
from jpmhc.eval.models import LogitsModel, generated, loglikelihood
from jpmhc.eval.perplexity import Perplexity, perplexity, windows

BYTES = tokenizer("byte")


class Bigram:
    """log p(b | a) from a table; each token depends on the one before it alone."""

    def __init__(self, seed: int = 0, size: int = 257) -> None:
        logits = np.random.default_rng(seed).standard_normal((size, size)) * 2
        self.table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        self.longest = 0

    def loglikelihood(self, tokens):
        self.longest = max(self.longest, len(tokens))
        return self.table[tokens[:-1], tokens[1:]]

    def generate(self, tokens, count):
        found = [int(tokens[-1])]
        for _ in range(count):
            found.append(int(self.table[found[-1]].argmax()))
        return np.array(found[1:])


class Says:
    """A model that answers every prompt alike."""

    def __init__(self, answer, likelihood=None) -> None:
        self.answer, self.likelihood = answer, likelihood

    def generate(self, tokens, count):
        return np.asarray(self.answer)

    def loglikelihood(self, tokens):
        return self.likelihood


# Models.


def test_a_function_to_logits_becomes_a_model():
    bigram = Bigram()

    def forward(tokens):
        assert tokens.shape == (1, 32) and tokens.dtype == np.int32
        return bigram.table[tokens] + 3.0  # logits are known up to a constant

    model = LogitsModel(forward, length=32)
    tokens = BYTES.encode("down the hole")
    assert np.allclose(loglikelihood(model, tokens), bigram.loglikelihood(tokens), atol=1e-12)
    assert generated(model, tokens, 5).tolist() == bigram.generate(tokens, 5).tolist()
    ending = LogitsModel(forward, length=32, end=int(bigram.generate(tokens, 2)[1]))
    assert generated(ending, tokens, 5).tolist() == bigram.generate(tokens, 2).tolist()
    with pytest.raises(ConfigError, match=r"bad text: expected 1\.\.32 tokens, got 40"):
        model.loglikelihood(np.zeros(40, np.int32))
    with pytest.raises(ShapeError, match=r"bad logits: expected \[1, 4, vocabulary\], got \[4\]"):
        LogitsModel(lambda tokens: np.zeros(4), length=4).loglikelihood([1, 2])


def test_bad_answers_of_models_are_named():
    tokens = np.arange(4)
    with pytest.raises(ShapeError, match=r"bad answer of loglikelihood: expected \[3\], got \[4\]"):
        loglikelihood(Says(0, np.zeros(4)), tokens)
    for wrong in (0.5, np.nan):
        with pytest.raises(DataError, match="token 2: bad answer of loglikelihood"):
            loglikelihood(Says(0, np.array([-1, wrong, -1])), tokens)
    with pytest.raises(ShapeError, match=r"bad answer of generate: expected \[at most 2\]"):
        generated(Says([1, 2, 3]), tokens, 2)
    with pytest.raises(ConfigError, match="the model cannot generate: got object"):
        generated(object(), tokens, 2)


# Needles.


class Solver:
    """Follows the chains as the checker does; a chain it cannot follow it guesses."""

    def generate(self, tokens, count):
        prompt = BYTES.decode(tokens)
        answers = []
        for kind in ("bridged", "literal"):
            people = sorted(set(self._people(prompt)))
            record = {"index": 0, "prompt": prompt, "kind": kind, "candidates": people}
            for name in people:
                try:
                    answers += check({**record, "answer": name}).answers
                except DataError:
                    pass
        return BYTES.encode(f" {(answers or people)[0]}.")[:count]

    @staticmethod
    def _people(prompt):
        from jpmhc.data.needle_themes import THEMES

        for theme in THEMES:
            yield from (f.source for f, *_ in theme.facts(prompt) if f.level == 0)


def corpus(**options):
    return NeedleCorpus(Filler.from_file(ALICE), BYTES, length=2048, **options)


@pytest.mark.parametrize("kind", ["bridged", "literal"])
def test_who_follows_the_chains_is_always_right(kind):
    score = needle.evaluate(Solver(), corpus(kind=kind, hops=(1, 2)), 6)
    assert score.count == 6 and score.accuracy == 1 and score.chance == 0.25
    assert set(score.by_hops()) == {1, 2}
    parts = score.by_depth(4)
    assert sum(part.count for part in parts.values()) == 6 and set(parts) <= {0, 0.25, 0.5, 0.75}


def test_without_the_bridge_nobody_does_better_than_chance():
    score = needle.evaluate(Solver(), corpus(kind="no_bridge", hops=1, chains=2), 30)
    # 30 guesses of chance 1/2: four standard deviations are 0.37.
    assert abs(score.accuracy - score.chance) < 0.37


def test_looking_for_the_words_of_the_question_helps_the_literal_control_only():
    found = {}
    for kind in ("bridged", "no_bridge", "literal"):
        made = corpus(kind=kind, hops=1)
        instances = [made.instance(index) for index in range(100)]
        guesses = [needle.literal_guess(instance) for instance in instances]
        found[kind] = needle.score(instances, guesses).accuracy
    assert found["literal"] == 1
    # 100 guesses of chance 1/4: four standard deviations are 0.17.
    assert abs(found["bridged"] - 0.25) < 0.17 and abs(found["no_bridge"] - 0.25) < 0.17


def test_written_instances_are_scored(tmp_path):
    instances = [corpus(hops=hops).instance(k) for k, hops in enumerate((1, 2, 2))]
    lines = "".join(json.dumps(instance.record()) + "\n" for instance in instances)
    (tmp_path / "x.jsonl").write_text(lines)
    records = read_records(tmp_path / "x.jsonl")
    said = [instances[0].completion, " Nobody.", instances[2].completion]
    assert needle.score(records, said) == needle.score(instances, said)
    assert needle.score(records, said).by_hops()[2].accuracy == 0.5
    for change, message in (
        ({"answer": 3}, "instance 1: bad field 'answer': expected a text"),
        ({"hops": "1"}, "instance 1: bad field 'hops'"),
        ({"candidates": []}, "instance 1: bad record"),
        ({"statements": [None, {"level": 0, "chain": 0}]}, "instance 1: bad record"),
    ):
        with pytest.raises(DataError, match=message):
            needle.score([records[0], {**records[1], **change}, records[2]], said)


def test_matches_are_exact():
    assert needle.exact_match(" Petra.", "Petra")
    assert needle.exact_match("\nPetra and then some", "Petra")
    for wrong in (" petra.", " Petraa.", " The answer is Petra.", "", " ."):
        assert not needle.exact_match(wrong, "Petra")
    with pytest.raises(DataError, match="bad continuations: expected 1 continuations, got 0"):
        needle.score([corpus().instance(0)], [])


# Perplexity.


@settings(deadline=None)
@given(st.integers(2, 200), st.integers(2, 50), st.data())
def test_windows_count_every_token_once_with_enough_before_it(count, length, data):
    stride = data.draw(st.integers(1, length - 1))
    counted = []
    for begin, end, first in windows(count, length, stride):
        assert 0 <= begin < first < end <= min(begin + length, count)
        assert begin == 0 or first - begin >= length - stride
        counted += range(first, end)
    assert counted == list(range(1, count))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 256), min_size=2, max_size=300), st.integers(2, 64), st.data())
def test_a_model_that_looks_one_token_back_needs_no_stride(tokens, length, data):
    stride = data.draw(st.integers(1, length - 1))
    model = Bigram()
    tokens = np.array(tokens)
    whole = math.fsum(model.loglikelihood(tokens))
    model.longest = 0
    found = perplexity(model, tokens, length=length, stride=stride)
    assert found.tokens == tokens.size - 1
    assert found.loglikelihood == pytest.approx(whole, rel=1e-12)
    assert model.longest <= length
    begun = perplexity(model, tokens, length=length, stride=stride, prefix=256)
    assert begun.tokens == tokens.size
    first = model.table[256, tokens[0]]
    assert begun.loglikelihood == pytest.approx(whole + first, rel=1e-12)


def test_a_uniform_model_has_the_perplexity_of_its_vocabulary():
    uniform = LogitsModel(lambda tokens: np.zeros((*tokens.shape, 7)))
    found = perplexity(uniform, np.arange(7).repeat(9), length=16)
    assert found.per_token == pytest.approx(7)
    assert Perplexity(-8 * math.log(2), 4).bits_per_byte(4) == pytest.approx(2)


def test_bad_perplexities_are_named():
    with pytest.raises(ConfigError, match=r"bad stride: expected 1\.\.7, got 8"):
        perplexity(Bigram(), np.arange(20), length=8, stride=8)
    with pytest.raises(DataError, match="text too short"):
        perplexity(Bigram(), np.arange(1), length=8)
    with pytest.raises(ConfigError, match="bad size"):
        Perplexity(-1.0, 1).bits_per_byte(0)


# Multiple choice.

DEV = ["What is 1+1?,1,2,3,4,B", '"Which, of these, is red?",sky,grass,blood,snow,C']
TEST = ["What is 2+2? ,2,3,4,5,C", "Which is blue?,sky,grass,blood,snow,A"]


@pytest.fixture
def mmlu(tmp_path):
    for part, rows in (("dev", DEV), ("test", TEST)):
        (tmp_path / part).mkdir()
        (tmp_path / part / f"abstract_algebra_{part}.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_mmlu_is_worded_as_published(mmlu):
    items = multiple_choice.read_mmlu(mmlu, shots=1)
    assert items[0].context == (
        "The following are multiple choice questions (with answers) about abstract algebra.\n\n"
        "What is 1+1?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer: B\n\n"
        "What is 2+2?\nA. 2\nB. 3\nC. 4\nD. 5\nAnswer:"
    )
    assert [item.gold for item in items] == [2, 0]
    assert items[0].choices == ("A", "B", "C", "D") and items[0].groups == (
        "abstract_algebra",
        "stem",
    )
    items = multiple_choice.read_mmlu(mmlu, form="answer", shots=0)
    assert items[1].context == (
        "The following are questions (with answers) about abstract algebra.\n\n"
        "Question: Which is blue?\nAnswer:"
    )
    assert items[1].choices == ("sky", "grass", "blood", "snow")


HELLASWAG = {
    "activity_label": "Removing ice from car",
    "ctx_a": "Then, the man writes over the snow.",
    "ctx_b": "then",
    "endings": [", he stops [step] it.", ", he  goes [title] Away.", ", x", ", y"],
    "label": 1,
}


def test_hellaswag_is_cleaned_as_in_the_harness(tmp_path):
    (tmp_path / "h.jsonl").write_text(json.dumps(HELLASWAG) + "\n\n")
    item = multiple_choice.read_hellaswag(tmp_path / "h.jsonl")[0]
    assert item.context == "Removing ice from car: Then, the man writes over the snow. Then"
    assert item.choices[:2] == (", he stops it.", ", he goes. Away.")
    assert item.gold == 1


def test_choices_are_scored_by_hand_computed_sums():
    model = Bigram(1)
    item = multiple_choice.Item("ab", ("c", "dé", "ef"), 1, ("g",))
    sums = multiple_choice.choice_loglikelihoods(model, BYTES, item.context, item.choices)
    table = model.table
    assert sums[0] == pytest.approx(table[98, 32] + table[32, 99])
    by_hand = {
        "acc": int(np.argmax(sums)) == 1,
        "acc_norm": int(np.argmax(sums / [1, 2, 2])) == 1,
        "acc_bytes": int(np.argmax(sums / [1, 3, 2])) == 1,
    }
    found = multiple_choice.evaluate(model, BYTES, [item])
    assert set(found) == {"all", "g"} and found["all"] == found["g"]
    assert {name: getattr(found["all"], name) for name in by_hand} == by_hand


class Likes:
    """Gives a text's tokens log-likelihood 0 where it has a wanted word, else -1 each."""

    def __init__(self, *wanted: str) -> None:
        self.wanted = wanted

    def loglikelihood(self, tokens):
        text = BYTES.decode(tokens)
        likes = any(text.endswith(f" {word}") for word in self.wanted)
        return np.full(len(tokens) - 1, 0.0 if likes else -1.0)


def test_accuracies_are_fractions_of_all_and_of_groups(mmlu):
    items = multiple_choice.read_mmlu(mmlu)
    found = multiple_choice.evaluate(Likes("C"), BYTES, items, length=64)
    assert found["all"] == found["stem"] == multiple_choice.Accuracy(2, 0.5, 0.5, 0.5)
    items = multiple_choice.read_mmlu(mmlu, form="answer", subjects=["abstract_algebra"])
    assert multiple_choice.evaluate(Likes("4", "sky"), BYTES, items)["all"].acc == 1


def test_long_choices_win_by_length_only():
    # -1 a token: the sum prefers the short, the mean per character the long with its one blank.
    items = [multiple_choice.Item("x", ("a", "abcdefgh"), 1, ())]
    found = multiple_choice.evaluate(Likes(), BYTES, items)["all"]
    assert (found.acc, found.acc_norm, found.acc_bytes) == (0, 1, 1)


def test_pairs_are_split_behind_the_context():
    before, after = multiple_choice.encode_pair(BYTES, "ab  ", "c")
    assert [BYTES.decode(before), BYTES.decode(after)] == ["ab", "  c"]
    for kind in ("sentencepiece", "huggingface"):
        made = tokenizer(kind)
        before, after = multiple_choice.encode_pair(made, "Alice was", " very tired")
        assert made.decode([*before, *after]) == "Alice was very tired" and after.size


def test_bad_multiple_choice_is_named(mmlu, tmp_path):
    read = multiple_choice.read_mmlu
    with pytest.raises(ConfigError, match="unknown form"):
        read(mmlu, form="letters")
    with pytest.raises(ConfigError, match="bad shots"):
        read(mmlu, shots=-1)
    with pytest.raises(ConfigError, match="unknown subject"):
        read(mmlu, subjects=["algebra"])
    test = mmlu / "test" / "abstract_algebra_test.csv"
    test.write_text("a,b,c,d,e,A\na,b\n")
    with pytest.raises(DataError, match=r"_test\.csv: row 2: bad row: .* got 2 fields"):
        read(mmlu)
    test.write_text("a,b,c,d,e,F\n")
    with pytest.raises(DataError, match="row 1: bad answer: expected A, B, C or D, got 'F'"):
        read(mmlu)
    (mmlu / "dev" / "abstract_algebra_dev.csv").unlink()
    with pytest.raises(DataError, match=r"_dev\.csv: cannot read the questions"):
        read(mmlu)
    with pytest.raises(DataError, match=r"no questions: expected test/SUBJECT_test\.csv"):
        read(tmp_path / "none")
    path = tmp_path / "h.jsonl"
    for change, message in (
        ({"ctx_a": 3}, "line 1: bad field 'ctx_a': expected a text, got a whole number"),
        ({"endings": "x"}, "line 1: bad field 'endings'"),
        ({"label": ""}, r"line 1: bad field 'label': expected 0\.\.3, got ''"),
        ({"label": 4}, "bad field 'label'"),
    ):
        path.write_text(json.dumps({**HELLASWAG, **change}))
        with pytest.raises(DataError, match=message):
            multiple_choice.read_hellaswag(path)
    for content, message in ((b"{", "line 1: no JSON"), (b"\xff", "not UTF-8"), (b"", "no quest")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            multiple_choice.read_hellaswag(path)
    with pytest.raises(DataError, match="cannot read the questions"):
        multiple_choice.read_hellaswag(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="choice too long: expected below 4 tokens, got 6"):
        multiple_choice.choice_loglikelihoods(Bigram(), BYTES, "a", ["bcdef"], length=4)
    with pytest.raises(DataError, match="no questions"):
        multiple_choice.evaluate(Bigram(), BYTES, [])


# The harness.


@pytest.fixture
def harness(monkeypatch):
    """The adapter on a stand-in for lm_eval, of which it needs one base class only."""
    for name in ("lm_eval", "lm_eval.api", "lm_eval.api.model"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["lm_eval.api.model"].LM = type("LM", (), {"__init__": lambda self: None})
    sys.modules.pop("jpmhc.eval.harness", None)
    yield importlib.import_module("jpmhc.eval.harness")
    sys.modules.pop("jpmhc.eval.harness", None)


def request(*args):
    return types.SimpleNamespace(args=args)


def test_the_harness_gets_likelihoods_and_text(harness):
    model = Bigram(2)
    adapter = harness.HarnessModel(model, BYTES, length=16)
    table = model.table
    greedy = BYTES.decode(model.generate(np.array([97]), 1)[:1])
    (first, is_greedy), (second, _), (third, also) = adapter.loglikelihood(
        [request("a", "bc"), request("", "b"), request("a", greedy)]
    )
    assert first == pytest.approx(table[97, 98] + table[98, 99]) and not is_greedy
    assert second == pytest.approx(table[256, 98])
    assert also == (model.generate(np.array([97]), 1)[0] < 128)
    text = "Alice was beginning to get very tired"
    tokens = np.concatenate([[256], BYTES.encode(text)])
    rolling = adapter.loglikelihood_rolling([request(text), request("")])
    assert rolling == [pytest.approx(model.loglikelihood(tokens).sum()), 0.0]
    long = adapter.loglikelihood([request("x" * 40, "bc")])[0][0]
    assert long == pytest.approx(table[120, 98] + table[98, 99]) and model.longest <= 38


def test_the_harness_stops_where_it_should(harness):
    class Fixed(Says):
        def generate(self, tokens, count):
            return BYTES.encode("yes\nno. maybe")[:count]

    adapter = harness.HarnessModel(Fixed(0), BYTES, length=64)
    assert adapter.generate_until([request("x", {"until": [".", "\n"]})]) == ["yes"]
    assert adapter.generate_until([request("x", {"until": "no", "max_gen_toks": 20})]) == ["yes\n"]
    assert adapter.generate_until([request("", {"max_gen_toks": 2})]) == ["ye"]
    with pytest.raises(ConfigError, match="cannot sample"):
        adapter.generate_until([request("x", {"do_sample": True})])
    with pytest.raises(ConfigError, match="bad length"):
        harness.HarnessModel(Fixed(0), BYTES, length=1)
    with pytest.raises(DataError, match=r"'x+': bad continuation: expected 1\.\.63 tokens, got 70"):
        adapter.loglikelihood([request("a", "x" * 70)])


def test_without_lm_eval_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    sys.modules.pop("jpmhc.eval.harness", None)
    with pytest.raises(MissingDependencyError, match=r"lm_eval \(pip install 'jpmhc\[harness\]'\)"):
        importlib.import_module("jpmhc.eval.harness")
