# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of jpmhc.data.needle."""

from __future__ import annotations

import functools
import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from corpora_fixtures import ALICE, KINDS, tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from jpmhc.data import needle
from jpmhc.data.filler import Filler
from jpmhc.data.needle import NeedleCorpus, check
from jpmhc.data.needle_themes import THEMES, content_stems
from jpmhc.errors import ConfigError, DataError

FILLER = Filler.from_file(ALICE)
# Instance 1 of 2048 bytes, by kind and protocol: a corpus of a seed is the same for ever.
GOLDEN = [
    "587d30962003bac6",
    "00e1ed157a583b2c",
    "e7aa61df7f6fe014",
    "b75fc02133e8b7ed",
    "b9475ea96f224c79",
    "3b05415e62e5b3aa",
]


@functools.cache
def corpus(tokens: str = "byte", length: int = 1536, **options) -> NeedleCorpus:
    return NeedleCorpus(FILLER, tokenizer(tokens), length=length, **options)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.integers(900, 2500),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**40),
    st.sampled_from(needle.KINDS),
    st.sampled_from(needle.PROTOCOLS),
    st.sampled_from(needle.SPLITS),
    st.integers(1, 4),
)
def test_instances_are_exactly_as_long_as_asked_and_proved(
    tokens, length, seed, index, kind, protocol, split, chains
):
    made = NeedleCorpus(
        FILLER, tokenizer(tokens), length=length, seed=seed, kind=kind, protocol=protocol,
        split=split, chains=chains, hops=(1, 2),
    )  # fmt: skip
    instance = made.instance(index)
    assert instance.tokens.dtype == np.int32 and len(instance.tokens) == length
    proof = check(instance)
    assert proof == check(instance.record())
    assert len(proof.people) == chains and instance.chance == 1 / chains
    assert proof.answers == (() if kind == "no_bridge" else (instance.answer,))
    assert bool(proof.overlap) == (kind == "literal")
    whole = tokenizer(tokens)
    start = instance.answer_start
    assert whole.encode(instance.prompt).tolist() == instance.tokens[:start].tolist()
    assert whole.encode(instance.completion).tolist() == instance.tokens[start:].tolist()
    assert re.fullmatch(r" \w+\.", instance.completion)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [1024, 4096, 65536])
def test_the_lengths_of_the_papers(kind, length):
    instance = corpus(kind, length, hops=1).instance(0)
    assert len(instance.tokens) == length
    check(instance)


def test_three_hops_take_four_statements_of_each_chain():
    instance = corpus(length=4096, hops=3).instance(5)
    assert sorted((s.chain, s.level) for s in instance.statements) == [
        (chain, level) for chain in range(4) for level in range(4)
    ]
    assert [len(check(instance).path), instance.hops] == [4, 3]


def test_statements_lie_where_they_say():
    instance = corpus().instance(2)
    for statement in instance.statements:
        end = statement.begin + len(statement.text)
        assert instance.prompt[statement.begin : end] == statement.text
        assert 0 <= statement.depth <= 1


def test_depths_are_spread_over_the_haystack():
    made = corpus(length=8192, hops=1, chains=1)
    depths = [s.depth for index in range(60) for s in made.instance(index).statements]
    # 120 uniform depths: each quarter has 30 +- 4.7; five standard deviations are 24.
    assert np.abs(np.histogram(depths, 4, (0, 1))[0] - 30).max() < 24


@pytest.mark.parametrize("depth", [0, 0.25, 0.5, 1])
def test_the_needle_can_be_put_at_a_depth(depth):
    instance = corpus(length=16384, hops=1, chains=2, depth=depth).instance(0)
    needles = [s for s in instance.statements if (s.level, s.chain) == (0, 0)]
    # A sentence of the filler is at most 3 % of this haystack.
    assert abs(needles[0].depth - depth) < 0.04
    check(instance)


def test_no_word_of_any_question_is_in_any_needle():
    for theme, level in itertools.product(THEMES, range(4)):
        asked = set().union(*(content_stems(q.replace("{t}", "")) for q in theme.questions))
        for template in range(3):
            for source, target in zip(theme.pools[level], theme.pools[level + 1], strict=True):
                words = content_stems(theme.sentence(level, template, source, target))
                assert asked.isdisjoint(words)


def test_names_share_no_stem_with_names_of_other_pools():
    pools = [pool for theme in THEMES for pool in theme.pools[1:]] + [THEMES[0].pools[0]]
    stems = [set().union(*map(content_stems, pool)) for pool in pools]
    for first, second in itertools.combinations(stems, 2):
        assert first.isdisjoint(second)
    assert all(len(set(pool)) == 48 for pool in pools)


def pairs(protocol: str, split: str) -> set[tuple[str, str]]:
    made = corpus(hops=(1, 2, 3), length=3072, protocol=protocol, split=split)
    found = set()
    for index in range(20):
        haystack = made.instance(index).prompt
        found |= {(f.source, f.target) for theme in THEMES for f, *_ in theme.facts(haystack)}
    return found


def test_the_strict_protocol_shares_no_pair_of_names_between_splits():
    train, test = pairs("strict", "train"), pairs("strict", "test")
    assert len(train) > 100 < len(test)
    assert train.isdisjoint(test)


def test_the_strict_protocol_shares_no_wording_and_no_filler():
    def wordings(split):
        made = corpus(hops=1, protocol="strict", split=split)
        return {
            text.lower().replace(fact.source.lower(), "A").replace(fact.target.lower(), "B")
            for index in range(40)
            for text in (s.text for s in made.instance(index).statements)
            for theme in THEMES
            for fact, *_ in theme.facts(text)
        }

    train, test = wordings("train"), wordings("test")
    assert [len(train), len(test)] == [12, 6]  # two levels of three themes
    assert train.isdisjoint(test)
    own = [set(corpus(protocol="strict", split=s).filler.sentences) for s in needle.SPLITS]
    assert own[0].isdisjoint(own[1])


def test_an_instance_depends_on_its_index_alone():
    made = corpus()
    order = [7, 3, 3, 0, 7]
    once = [made.instance(index).prompt for index in order]
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda index: made.instance(index).prompt, order))
    assert once == again and len(set(once)) == 3
    assert corpus(seed=1).instance(0).prompt != corpus().instance(0).prompt
    assert corpus(split="test").instance(0).prompt != corpus().instance(0).prompt


def test_batches_are_instances_in_order_with_shifted_labels():
    tokens, labels = corpus().batch(2, 3)
    assert tokens.dtype == labels.dtype == np.int32 and tokens.shape == labels.shape == (3, 1536)
    assert (tokens[1] == corpus().instance(7).tokens).all()
    assert (labels[:, :-1] == tokens[:, 1:]).all() and (labels[:, -1] == needle.IGNORE).all()
    tokens, labels = corpus().batch(2, 3, answer_only=True)
    instance = corpus().instance(7)
    kept = labels[1] != needle.IGNORE
    assert tokenizer("byte").decode(labels[1][kept]) == instance.completion


def test_corpora_stay_as_they_are():
    fingerprints = [
        needle.fingerprint(corpus(length=2048, kind=kind, protocol=protocol).instance(1))[:16]
        for kind in needle.KINDS
        for protocol in needle.PROTOCOLS
    ]
    assert fingerprints == GOLDEN


def test_what_is_wrong_with_an_instance_is_found():
    record = corpus(hops=1, chains=2).instance(0).record()
    bridge = next(s for s in record["statements"] if (s["level"], s["chain"]) == (1, 0))
    without = {**record, "prompt": record["prompt"].replace(bridge["text"], "")}
    with pytest.raises(DataError, match=r"instance 0: the chains lead elsewhere: expected \w+"):
        check(without)
    question = record["prompt"].rpartition("Question: ")[2]
    told = {**record, "prompt": question.split("?")[0] + " " + record["prompt"]}
    with pytest.raises(DataError, match="question and filler share words"):
        check(told)
    with pytest.raises(DataError, match="the people differ from the candidates"):
        check({**record, "candidates": ["Nobody"]})
    with pytest.raises(DataError, match="the control can be answered"):
        check({**record, "kind": "no_bridge"})
    with pytest.raises(DataError, match="wrong overlap of question and needle: expected literal"):
        check({**record, "kind": "literal"})
    with pytest.raises(DataError, match="bad prompt: expected a haystack and a question"):
        check({**record, "prompt": "Nothing."})
    with pytest.raises(DataError, match="unknown question: got Why"):
        check({**record, "prompt": "Nothing.\n\nQuestion: Why?\nAnswer:"})


@pytest.mark.parametrize("field", ["prompt", "kind", "answer", "candidates"])
@pytest.mark.parametrize("value", [None, 3, [3], {}, "\ud800", float("nan")])
def test_records_of_wrong_kinds_are_named(field, value):
    record = corpus(hops=1, chains=2).instance(0).record()
    with pytest.raises(DataError, match="instance 0: |bad prompt"):
        check({**record, field: value})
    record.pop(field)
    with pytest.raises(DataError, match=f"instance 0: bad field '{field}': .* got nothing"):
        check(record)


@pytest.mark.parametrize("length", [1, 64, 400])
def test_short_lengths_say_what_is_needed(length):
    with pytest.raises(DataError, match=r"length too short: expected at least (\d+) tokens") as e:
        corpus(length=length).instance(0)
    needed = int(re.search(r"at least (\d+)", str(e.value))[1])
    assert len(corpus(length=needed).instance(0).tokens) == needed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "bridge"}, "unknown kind: .*did you mean 'bridged'"),
        ({"split": "valid"}, "unknown split"),
        ({"protocol": "strct"}, "did you mean 'strict'"),
        ({"hops": 4}, r"bad hops: expected 1\.\.3, got 4"),
        ({"hops": ()}, "bad hops"),
        ({"chains": 9}, r"bad chains: expected 1\.\.8, got 9"),
        ({"depth": 1.5}, "bad depth"),
        ({"length": 0}, "bad length"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        NeedleCorpus(FILLER, tokenizer("byte"), **{"length": 1024, **options})


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.text("abcdefghijäß .,!?\n'", min_size=1, max_size=200), min_size=1, max_size=20),
    st.sampled_from(KINDS),
)
def test_any_text_can_be_a_filler(tmp_path_factory, pieces, kind):
    path = tmp_path_factory.mktemp("filler") / "f.txt"
    text = "x " + "".join(pieces)
    path.write_text(text)
    made = NeedleCorpus(Filler.from_file(path), tokenizer(kind), length=1100, hops=1)
    try:
        instance = made.instance(0)
    except DataError as error:  # "x ? x ?" in pieces of two tokens has no odd number of them
        assert kind != "byte" or not text.isascii()
        assert "makes no text of this many tokens" in str(error)
        return
    assert len(instance.tokens) == 1100
    check(instance)


def test_a_filler_of_questions_only_is_rejected(tmp_path):
    (tmp_path / "f.txt").write_text("Petra knows the flavour. Who has tasted it?")
    with pytest.raises(DataError, match=r"f\.txt: no sentence of the filler is left"):
        NeedleCorpus(Filler.from_file(tmp_path / "f.txt"), tokenizer("byte"), length=1024)
