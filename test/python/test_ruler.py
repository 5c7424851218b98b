# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of jpmhc.data.ruler, jpmhc.data.questions, jpmhc.data.fitting and jpmhc.eval.ruler."""

from __future__ import annotations

import collections
import hashlib
import json
import math
import random
import re
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from corpora_fixtures import ALICE, KINDS, tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from jpmhc.data import ruler
from jpmhc.data.filler import Filler
from jpmhc.data.fitting import largest_that_fits
from jpmhc.data.questions import read_questions
from jpmhc.data.ruler import TASKS, RulerTask
from jpmhc.errors import ConfigError, DataError, MissingDependencyError
from jpmhc.eval import ruler as scores

ESSAY = Filler.from_file(ALICE)
SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": f"Article {a}",
            "paragraphs": [
                {
                    "context": f"In article {a}, paragraph {k}, the colour is colour{a}{k}. " * 3,
                    "qas": [
                        {
                            "question": f"Which colour is in paragraph {k} of article {a}?",
                            "answers": [{"text": f"colour{a}{k}"}, {"text": f"colour{a}{k}"}],
                            "is_impossible": False,
                        },
                        {"question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
                for k in range(4)
            ],
        }
        for a in range(10)
    ],
}
HOTPOTQA = [
    {
        "question": f"Who follows person {k}?",
        "answer": f"person{k + 1}",
        "context": [[f"Title {k} {n}", [f"Sentence {n}.", " More."]] for n in range(3)],
    }
    for k in range(12)
]
# SHA-256 of instance 1 of 8192 bytes: the data of a seed are the same for ever.
GOLDEN = {
    "niah_single_1": "cca1d7bfb1abc232",
    "niah_single_2": "ce9124100390af10",
    "niah_single_3": "1155af666fe8b40a",
    "niah_multikey_1": "eab0d50496ee27a9",
    "niah_multikey_2": "8760208fedaf77da",
    "niah_multikey_3": "be6b9f3cf40b51bb",
    "niah_multivalue": "6fea2742c2d8a043",
    "niah_multiquery": "4d8ccf6ab4e5d6a3",
    "vt": "d0c4871638c6f390",
    "cwe": "b5e4cfb00ce2bf0e",
    "fwe": "e2e909e58dff81a3",
    "qa_1": "a55e14efaa77791b",
    "qa_2": "4a59d213972174da",
}


@pytest.fixture(scope="session")
def questions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions")
    (folder / "squad.json").write_text(json.dumps(SQUAD))
    (folder / "hotpot.json").write_text(json.dumps(HOTPOTQA))
    return {
        "qa_1": read_questions(folder / "squad.json"),
        "qa_2": read_questions(folder / "hotpot.json"),
    }


def make(name, questions, kind="byte", length=8192, **options) -> RulerTask:
    return RulerTask(
        name,
        tokenizer(kind),
        length=length,
        haystack=ESSAY,
        questions=questions.get(name),
        **options,
    )


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(TASKS)),
    st.sampled_from(KINDS),
    st.integers(1, 12_000),
    st.integers(0, 2**64 - 1),
    st.integers(0, 9),
)
def test_lengths_are_right_and_never_above_what_is_asked(
    questions, name, kind, length, seed, index
):
    task = make(name, questions, kind, length, seed=seed)
    try:
        instance = task.instance(index)
    except DataError as error:
        needed = int(re.search(r"at least (\d+) tokens, got \d+", str(error))[1])
        assert "length too short" in str(error) and needed > length
        return
    text = instance.input + instance.answer_prefix
    assert instance.length == tokenizer(kind).encode(text).size + task.tokens_to_generate
    assert instance.length <= length
    for output in instance.outputs if name not in ("qa_1", "qa_2") else instance.outputs[:1]:
        assert output in instance.input or name == "qa_2"
    for mark in instance.marks:
        assert mark in instance.input


@pytest.mark.parametrize("name", TASKS)
def test_one_more_piece_would_be_too_much(questions, name):
    task = make(name, questions, length=6000 if name != "cwe" else 9000)
    instance = task.instance(0)
    most = {
        "niah_single_1": 100,
        "niah_multikey_2": 90,
        "niah_multikey_3": 140,
        "vt": 100,
        "cwe": 3 * 30,
        "fwe": 60,
        "qa_1": 250,
    }.get(name, 30)  # bytes of a sentence, a word thrice, a document; of a word in an essay
    if name != "qa_2":  # all its few documents fit
        assert task.length - most < instance.length <= task.length


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("length", [1, 60, 200])
def test_short_lengths_end_in_an_error_that_says_what_is_needed(questions, name, length):
    with pytest.raises(
        DataError, match=rf"{name}, instance 0: length too short: expected at least"
    ):
        make(name, questions, length=length).instance(0)


@pytest.mark.parametrize("name", [name for name in TASKS if name.startswith("niah")])
def test_needles_are_where_they_can_be_found(questions, name):
    instance = make(name, questions).instance(3)
    haystack, asked = instance.input.rsplit("\n", 1)
    found = re.findall(r"One of the special magic \w+ for (\S+) is: (\S+)\.", haystack)
    values = collections.defaultdict(list)
    for key, value in found:
        values[key].append(value)
    query = asked.split(" for ", 1)[1].removesuffix(" mentioned in the provided text?")
    keys = re.split(r", (?:and )?", query)
    assert sorted(v for key in keys for v in values[key]) == sorted(instance.outputs)
    kinds = {"niah_single_1": 1, "niah_single_2": 1, "niah_single_3": 1, "niah_multikey_1": 4,
             "niah_multivalue": 4, "niah_multiquery": 4}  # fmt: skip
    assert len(found) == kinds.get(name, len(found)) and len(instance.marks) == kinds.get(name, 1)
    assert len(values) == len(set(values)) and len({v for _, v in found}) == len(found)
    singular = len(instance.outputs) == 1
    assert instance.input.startswith("A special magic" if singular else "Some special magic")
    assert (" is the special" if singular else " are all the special") in asked
    assert instance.answer_prefix.endswith(" is" if singular else " are")
    if "uuid" in asked:
        assert all(uuid.UUID(output).version == 4 for output in instance.outputs)
    else:
        assert all(re.fullmatch(r"[1-9]\d{6}", output) for output in instance.outputs)


def test_essays_are_kept_in_order(questions):
    instance = make("niah_multivalue", questions, length=4096).instance(0)
    text = instance.input.split("\n")[1]
    for needle in instance.marks:
        text = text.replace(needle + " ", "", 1).replace(" " + needle, "", 1)
    assert " ".join(ESSAY.words).startswith(text)


def test_variables_follow_their_chain(questions):
    instance = make("vt", questions).instance(2)
    task = instance.input.split("\n\nMemorize")[1]
    steps = re.findall(r"VAR (\w+) = (?:VAR )?(\w+)", task)
    value = re.search(r"assigned the value (\d+) in", task)[1]
    holders = []
    for name, source in steps:
        if source == value or source in holders:
            holders.append(name)
    assert tuple(holders) == instance.outputs and len(holders) == 5
    assert f"5 variables are assgined the value {value}, they are: " in instance.answer_prefix
    assert instance.input.count("Question:") == 2  # the worked example has one too


def test_the_example_of_variable_tracking_has_at_most_500_tokens(questions):
    class Words:  # about as many tokens as those of large models
        name, fingerprint, vocabulary_size, end = "words", "0" * 64, 2**30, None

        def encode(self, text):
            return np.zeros(len(re.findall(r"\w+|[^\w\s]", text)), np.int32)

    instance = RulerTask("vt", Words(), length=4096).instance(0)
    example = instance.input[: instance.input.index("\n\nMemorize")]
    assert 460 < Words().encode(example).size <= 500


@pytest.mark.parametrize(("length", "repeats"), [(3000, (6, 1)), (9000, (30, 3))])
def test_common_words_are_the_commonest(questions, length, repeats):
    instance = make("cwe", questions, length=length).instance(1)
    listed = re.split(r"\d+\. ", instance.input.split("\n")[-2])
    counts = collections.Counter(word.strip() for word in listed if word.strip())
    assert {w for w, n in counts.items() if n == repeats[0]} == set(instance.outputs)
    assert set(counts.values()) == set(repeats) and len(instance.outputs) == 10
    assert instance.completion.startswith(f" 1. {instance.outputs[0]} 2. {instance.outputs[1]} ")


@pytest.mark.parametrize("length", [700, 4096, 30_000])
def test_frequent_words_are_the_most_frequent(questions, length):
    instance = make("fwe", questions, length=length).instance(1)
    text = instance.input.split("coded words. ")[1].split("\n")[0]
    counts = collections.Counter(text.split())
    total = sum(counts.values())
    assert counts.most_common(1)[0][0] == "..."
    del counts["..."]
    top = counts.most_common(4)
    assert {word for word, _ in top[:3]} == set(instance.outputs) and top[2][1] > top[3][1]
    # Shares of k**-2 / zeta(2); each count is rounded down, so the total is a little less.
    shares = [counts[word] / total for word in instance.outputs]
    wanted = [k**-2 * 6 / math.pi**2 for k in (2, 3, 4)]
    assert np.allclose(shares, wanted, atol=0.05 if length < 4096 else 0.02)


def test_zeta():
    assert ruler._zeta(2.0) == pytest.approx(math.pi**2 / 6, abs=1e-14)
    assert ruler._zeta(4.0) == pytest.approx(math.pi**4 / 90, abs=1e-14)
    assert ruler._zeta(1.1) == pytest.approx(10.584448464950809, abs=1e-12)


@pytest.mark.parametrize("name", ["qa_1", "qa_2"])
def test_questions_have_their_documents(questions, name):
    task = make(name, questions, length=2000)
    for index in range(8):
        instance = task.instance(index)
        question = questions[name].questions[index]
        assert instance.input.endswith(f"Question: {question.text}")
        assert instance.outputs == question.answers
        documents = re.split(r"\n\n(?=Document \d+:\n|Answer the question)", instance.input)[1:-1]
        numbers = [int(re.match(r"Document (\d+)", text)[1]) for text in documents]
        assert numbers == list(range(1, len(documents) + 1))
        bodies = [text.split("\n", 1)[1] for text in documents]
        assert len(set(bodies)) == len(bodies) and set(instance.marks) <= set(bodies)
    with pytest.raises(DataError, match="no such question: expected fewer than"):
        task.instance(10_000)


def test_documents_of_the_same_article_come_first(questions):
    for length, others in ((1000, False), (1400, True)):
        instance = make("qa_1", questions, length=length).instance(0)
        found = re.findall(r":\nIn article (\d), paragraph", instance.input)
        assert (len(found) > 4) == others and found.count("0") == min(len(found), 4)


def test_bad_question_files_are_named(tmp_path):
    def message(value) -> str:
        (tmp_path / "q.json").write_text(value if isinstance(value, str) else json.dumps(value))
        with pytest.raises(DataError) as error:
            read_questions(tmp_path / "q.json")
        return str(error.value)

    qa = {"question": "Q?", "answers": [{"txt": "A"}]}
    squad = {"data": [{"paragraphs": [{"context": "C", "qas": [qa]}]}]}
    assert "q.json: no JSON" in message("{")
    assert "q.json: bad field 'data': expected a list, got nothing" in message({})
    assert "data[0].paragraphs[0].qas[0].answers[0]: bad field 'text': expected a text" in message(
        squad
    )
    assert "q.json: record 1: bad field 'question': expected a text" in message([HOTPOTQA[0], {}])
    assert "record 0: bad record: expected an object, got a whole number" in message([5])
    assert "record 0.context[0]: bad context: expected [title, sentences]" in message(
        [{**HOTPOTQA[0], "context": ["x"]}]
    )
    assert "q.json: no question that can be answered" in message([])
    with pytest.raises(DataError, match=r"none\.json: cannot read the questions"):
        read_questions(tmp_path / "none.json")


def test_an_instance_depends_on_its_index_alone(questions):
    for name in ("niah_multikey_2", "vt", "cwe", "qa_1"):
        order = [5, 1, 5, 0]
        once = [make(name, questions).instance(k) for k in order]
        with ThreadPoolExecutor(4) as pool:
            task = make(name, questions)
            assert list(pool.map(task.instance, order)) == once
        assert once[0] == once[2] != once[1]
        assert make(name, questions, seed=1).instance(0).input != once[3].input
        assert make(name, questions, split="train").instance(0).input != once[3].input


@pytest.mark.parametrize("name", TASKS)
def test_data_stay_as_they_are(questions, name):
    record = make(name, questions).instance(1).record()
    assert hashlib.sha256(json.dumps(record).encode()).hexdigest()[:16] == GOLDEN[name]


def test_training_rows_ask_for_the_answer(questions):
    task = make("niah_single_1", questions, length=1024)
    tokens, labels = task.batch(1, 2)
    instance = task.instance(3)
    assert tokens.shape == labels.shape == (2, 1024) and tokens.dtype == np.int32
    kept = labels[1] != ruler.IGNORE
    assert tokenizer("byte").decode(labels[1][kept]) == instance.completion
    assert (tokens[1][1:][kept[:-1]] == labels[1][:-1][kept[:-1]]).all()
    text = tokenizer("byte").decode(tokens[1])
    assert text == instance.input + instance.answer_prefix + instance.completion


def test_the_model_s_own_markers_count(questions):
    plain = make("vt", questions).instance(0)
    marked = make("vt", questions, template="<user>\n{task}\n<model>").instance(0)
    assert marked.input.startswith("<user>\nMemorize") and marked.input.endswith("above.\n<model>")
    text = marked.input + marked.answer_prefix
    assert marked.length == tokenizer("byte").encode(text).size + 30 <= 8192
    assert marked.outputs == plain.outputs
    with pytest.raises(ConfigError, match="bad template: expected one {task}, got 'x'"):
        make("vt", questions, template="x")


def test_instances_can_begin_anywhere(questions):
    assert list(make("vt", questions).indices(3, first=5)) == [5, 6, 7]
    assert make("qa_1", questions).indices(3, first=38) == [38, 39]


def test_bad_options_are_named(questions):
    with pytest.raises(ConfigError, match="unknown task: .*did you mean 'niah_single_1'"):
        make("niah_single1", questions)
    with pytest.raises(ConfigError, match="unknown split"):
        make("vt", questions, split="validation")
    with pytest.raises(ConfigError, match="bad length"):
        make("vt", questions, length=0)
    with pytest.raises(ConfigError, match="niah_single_2 needs haystack"):
        RulerTask("niah_single_2", tokenizer("byte"), length=4096)
    with pytest.raises(ConfigError, match="qa_1 needs questions"):
        RulerTask("qa_1", tokenizer("byte"), length=4096)


def test_a_missing_word_list_names_the_extra(monkeypatch):
    ruler.words.cache_clear()
    monkeypatch.setitem(sys.modules, "wonderwords.assets", None)
    monkeypatch.setitem(sys.modules, "wonderwords", None)
    with pytest.raises(MissingDependencyError, match=r"wonderwords \(pip install 'jpmhc\[ruler\]'"):
        ruler.words("noun")


@settings(deadline=None)
@given(
    st.floats(0.01, 900), st.integers(1, 500), st.integers(1, 70_000), st.integers(0, 2**32),
    st.integers(0, 3),
)  # fmt: skip
def test_the_largest_text_that_fits(rate, base, limit, seed, unevenness):
    tried = {}

    def count(pieces):
        noise = random.Random(pieces * 7919 + seed).randint(0, unevenness)
        return tried.setdefault(pieces, int(base + rate * pieces) + noise)

    if count(2) > limit:
        with pytest.raises(DataError, match=f"expected at least {count(2)} tokens, got {limit}"):
            largest_that_fits(count, limit, low=2, high=10_000, where="text")
        return
    found = largest_that_fits(count, limit, low=2, high=10_000, where="text")
    assert count(found) <= limit and (found == 10_000 or count(found + 1) > limit)
    assert len(tried) < 36  # 16 guesses and the halving of at most 10 000


# Scores.


def test_recall_and_any_match():
    assert scores.recall("The numbers are 123 and\x00 ABC.", ["123", "abc", "9", "8"]) == 0.5
    assert scores.any_match("It was the white rabbit.", ["Rabbit", "hare"]) == 1
    assert scores.any_match("It was Alice.", ["Rabbit", "hare"]) == 0
    assert scores.score("vt", ["A B", "C"], [["a", "b"], ["c", "d"]]) == 0.75
    assert scores.score("qa_1", ["A B", "C"], [["a", "x"], ["y"]]) == 0.5
    assert scores.mean_over_tasks({"vt": 0.5, "cwe": 0.0}) == 0.25


def test_bad_scores_are_named():
    with pytest.raises(ConfigError, match="unknown task"):
        scores.score("vv", ["a"], [["a"]])
    with pytest.raises(DataError, match="bad predictions: expected 2 predictions, got 1"):
        scores.score("vt", ["a"], [["a"], ["b"]])
    with pytest.raises(DataError, match="bad predictions"):
        scores.score("vt", [], [])
    with pytest.raises(DataError, match="vt, instance 1: no outputs"):
        scores.score("vt", ["a", "b"], [["a"], []])
    with pytest.raises(DataError, match="no scores"):
        scores.mean_over_tasks({})


class Reader:
    """Answers what is asked of niah tasks by reading the prompt, and half of it elsewhere."""

    def loglikelihood(self, tokens):
        return np.zeros(len(tokens) - 1)

    def generate(self, tokens, count):
        text = tokenizer("byte").decode(tokens)
        query = re.search(r"for (\S+) mentioned in the provided text is$", text)
        answer = ""
        if query:
            answer = re.search(rf"for {query[1]} is: (\d+)", text)[1]
        return tokenizer("byte").encode(f" {answer}.")[:count]


def test_a_model_that_reads_is_right(questions):
    assert scores.evaluate(Reader(), make("niah_multikey_2", questions), 5) == 1
    assert scores.evaluate(Reader(), make("vt", questions), 3) == 0


TABLE = scores.Table(
    {
        "Raw": {8192: {"vt": 0.5, "cwe": 0.1}, 16384: {"vt": 0.25, "cwe": 0.1}},
        "A_B": {8192: {"vt": 0.75, "cwe": 0.1}, 16384: {"vt": 0.125}},
    }
)


def test_the_table_in_markdown():
    assert TABLE.markdown().splitlines() == [
        "| Task | 8K Raw | 8K A_B | 16K Raw | 16K A_B |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| Variable Tracking | 50.0 | **75.0** | **25.0** | 12.5 |",
        "| Common Words | **10.0** | **10.0** | **10.0** |  |",
        "| Average | 30.0 | **42.5** | **17.5** |  |",
    ]


def test_tables_take_no_other_tasks_and_scores():
    with pytest.raises(ConfigError, match="A, 4096: unknown task.*did you mean 'cwe'"):
        scores.Table({"A": {4096: {"cwee": 0.5}}})
    for value in (50.0, -0.1, math.nan):
        with pytest.raises(DataError, match="A, 4096, cwe: bad score: expected 0..1, got"):
            scores.Table({"A": {4096: {"cwe": value}}})


def test_names_of_models_break_no_table():
    table = scores.Table({r"a|b^c\d_{x}~": {1000: {"vt": 0.5}, 1536: {"vt": 1}}})
    assert r"| Task | 1000 a\|b^c" in table.markdown() and r"| 1536 a" in table.markdown()
    assert r"a|b\textasciicircum{}c\textbackslash{}d\_\{x\}\textasciitilde{}" in table.latex()


def test_the_table_in_latex_and_csv():
    lines = TABLE.latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrr}"
    assert lines[2] == r"& \multicolumn{2}{c}{8K} & \multicolumn{2}{c}{16K} \\"
    assert lines[3] == r"Task & Raw & A\_B & Raw & A\_B \\"
    assert lines[5] == r"Variable Tracking & 50.0 & \textbf{75.0} & \textbf{25.0} & 12.5 \\"
    assert TABLE.csv().splitlines()[:4] == [
        "model,length,task,score",
        "Raw,8192,vt,50.00",
        "Raw,8192,cwe,10.00",
        "Raw,8192,mean,30.00",
    ]
    assert "A_B,16384,mean" not in TABLE.csv()
