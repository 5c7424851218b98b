# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The 13 tasks of RULER (Hsieh et al., 2024), at any length and for any tokenizer.

| name | to be found | hidden in |
| --- | --- | --- |
| niah_single_1, 2, 3 | the number (or UUID, 3) of a word | one sentence over and over; essays |
| niah_multikey_1 | the number of one word of four | essays |
| niah_multikey_2, 3 | the number (UUID) of one word (UUID) | sentences of the same kind |
| niah_multivalue, multiquery | four numbers of one word, of four words | essays |
| vt | the variables that have got a value, along a chain of assignments | one sentence |
| cwe | the ten commonest words | a numbered list |
| fwe | the three commonest words of a made-up language | a text of it |
| qa_1, qa_2 | the answer to a question (SQuAD, HotpotQA) | documents |

Wording and parameters are the published ones; random choices are those of `jpmhc.data.draws`.
An instance has the most of its haystack (sentences, words, documents) that lets prompt, answer
prefix and the tokens to be generated stay within the length asked for. Instance `index` depends
on the task, the length, the split, the seed and `index` alone.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import islice
from typing import Protocol

import numpy as np

from jpmhc._libraries import missing
from jpmhc.data import philox
from jpmhc.data.checks import MOST, one_of, whole
from jpmhc.data.draws import Draws
from jpmhc.data.filler import Filler, split_sentences
from jpmhc.data.fitting import largest_that_fits
from jpmhc.data.questions import QuestionSet
from jpmhc.data.tokenizers import Tokenizer
from jpmhc.errors import ConfigError, DataError, shown

__all__ = ["IGNORE", "SPLITS", "TASKS", "Instance", "RulerTask", "words"]

IGNORE = -100
SPLITS = ("train", "test")
_STREAM = 32  # and the next 12: one a task
_CONTENT, _PLACES, _NOISE, _EXAMPLE = 0, 1, 2, 3  # what the draws of an instance are for
_PURPOSES = 4

_TASK = "{task}"
_NIAH = (
    "Some special magic {values} are hidden within the following text. Make sure to memorize it. "
    "I will quiz you about the {values} afterwards.\n{context}\nWhat are all the special magic "
    "{values} for {query} mentioned in the provided text?"
)
_NIAH_PREFIX = " The special magic {values} for {query} mentioned in the provided text are"
_NEEDLE = "One of the special magic {values} for {key} is: {value}."
_REPEATED = (
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
)
_VT = (
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
    "{context}\nQuestion: Find all variables that are assigned the value {query} in the text above."
)
_VT_PREFIX = (
    " Answer: According to the chain(s) of variable assignment in the text above, {count} "
    "variables are assgined the value {query}, they are: "  # spelt as published
)
_CWE = (
    "Below is a numbered list of words. In these words, some appear more often than others. "
    "Memorize the ones that appear most often.\n{context}\nQuestion: What are the 10 most common "
    "words in the above list?"
)
_CWE_PREFIX = " Answer: The top 10 words that appear most often in the list are:"
_FWE = (
    "Read the following coded text and track the frequency of each coded word. Find the three "
    "most frequently appeared coded words. {context}\nQuestion: Do not provide any explanation. "
    "Please ignore the dots '....'. What are the three most frequently appeared words in the "
    "above coded text?"
)
_FWE_PREFIX = (
    " Answer: According to the coded text above, the three most frequently appeared words are:"
)
_QA = (
    "Answer the question based on the given documents. Only give me the answer and do not output "
    "any other words.\n\nThe following are given documents.\n\n{context}\n\nAnswer the question "
    "based on the given documents. Only give me the answer and do not output any other words."
    "\n\nQuestion: {query}"
)
_QA_PREFIX = " Answer:"

_SHORT = 4096  # below this, common words are repeated less
_DEPTHS = np.round(np.linspace(0, 100, 40)).astype(int).tolist()  # where needles may lie, in %
_VT_EXAMPLE_TOKENS = 500
_CODED_LETTERS = 6
_TOKENS_PER_CODED_WORD = 50


@dataclass(frozen=True)
class Instance:
    """One question over a long text.

    Attributes:
        index, task: as asked for.
        input: the prompt, with the worked example that vt and cwe have.
        answer_prefix: what the prompt ends with, after the model's own markers if it has any.
        outputs: what the answer must have (all of them; for qa_1 and qa_2 any of them).
        length: tokens of input and answer prefix, and those to be generated.
        completion: the right answer as it may continue the prefix, for training.
        marks: pieces of the input that matter, for showing it.
    """

    index: int
    task: str
    input: str
    answer_prefix: str
    outputs: tuple[str, ...]
    length: int
    completion: str
    marks: tuple[str, ...]

    def record(self) -> dict:
        """What is written to disk, with the field names of RULER's own files."""
        return vars(self) | {"outputs": list(self.outputs), "marks": list(self.marks)}


@dataclass(frozen=True)
class _Text:
    """A prompt in the making."""

    input: str
    answer_prefix: str
    outputs: tuple[str, ...]
    completion: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class _Draft:
    """An instance of which only the amount of haystack is open: `build(pieces)` makes it."""

    least: int
    most: int
    build: Callable[[int], _Text]


_UNBOUNDED = 2**40  # pieces of haystacks that can be repeated for ever


class RulerTask:
    """Instances of one task within a length.

    Args:
        name: one of TASKS.
        tokenizer: measures lengths.
        length: the most tokens an instance may have, those to be generated among them.
        haystack: the essays of the five tasks that hide something in them; repeated where it is
            too short.
        questions: for qa_1 and qa_2. Instance k asks question k.
        template: what a model wants around a task, which takes the place of {task}; the answer
            prefix comes behind all of it.
        split: "train" or "test"; the random choices differ, files do not.
        seed: 0 <= seed < 2**64.

    Raises:
        ConfigError: an unknown task or split, or the task's haystack or questions are missing.
    """

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer,
        *,
        length: int,
        haystack: Filler | None = None,
        questions: QuestionSet | None = None,
        template: str = _TASK,
        split: str = "test",
        seed: int = 0,
    ) -> None:
        one_of("task", name, TASKS)
        one_of("split", split, SPLITS)
        length, seed = whole("length", length, 1, MOST), philox.check_seed(seed)
        if not isinstance(template, str) or template.count(_TASK) != 1:
            raise ConfigError("bad template", expected=f"one {_TASK}", given=shown(template))
        self._maker = TASKS[name]
        for need, given in (("haystack", haystack), ("questions", questions)):
            if self._maker.needs == need and given is None:
                raise ConfigError(f"{name} needs {need}", hint="give a file")
        self.name, self.tokenizer, self.length = name, tokenizer, length
        self.haystack = haystack if self._maker.needs == "haystack" else None
        self.questions = questions if self._maker.needs == "questions" else None
        self.template, self.split, self.seed = template, split, seed

    @property
    def tokens_to_generate(self) -> int:
        """How many tokens an answer may have, as published."""
        return self._maker.generate

    def options(self) -> dict:
        """All that instances depend on, for manifests."""
        source = self.haystack or self.questions
        return {
            "task": self.name,
            "length": self.length,
            "split": self.split,
            "seed": self.seed,
            "template": self.template,
            "tokens_to_generate": self.tokens_to_generate,
            "source": source and {"name": source.name, "sha256": source.sha256},
            "tokenizer": {"name": self.tokenizer.name, "sha256": self.tokenizer.fingerprint},
        }

    def instance(self, index: int) -> Instance:
        """An instance; `index` counts from 0.

        Raises:
            ConfigError: a negative index.
            DataError: the length is too short for the least haystack (it says what is needed),
                or there are not so many questions.
            MissingDependencyError: the word lists need wonderwords, which is not installed.
        """
        where = f"{self.name}, instance {index}"
        draft = self._draft(whole("index", index, 0), where)
        made: dict[int, tuple[_Text, int]] = {}

        def count(pieces: int) -> int:
            text = draft.build(pieces)
            made[pieces] = text, self._tokens(text)
            return made[pieces][1]

        most = min(draft.most, max(self.length, draft.least))  # a piece has a token at least
        pieces = largest_that_fits(count, self.length, low=draft.least, high=most, where=where)
        text, length = made[pieces]
        return Instance(index=index, task=self.name, length=length, **vars(text))

    def _draft(self, index: int, where: str) -> _Draft:
        draft = self._maker.draft(self, index, where)
        before, after = self.template.split(_TASK)

        def build(pieces: int) -> _Text:
            text = draft.build(pieces)
            return replace(text, input=f"{before}{text.input}{after}")

        return replace(draft, build=build)

    def indices(self, count: int, first: int = 0) -> Sequence[int]:
        """The `count` instances from the first on that the length has room for.

        Only questions differ in what their documents need at least, so that for all other tasks
        these are first .. first + count - 1; there may be fewer questions than asked for.

        Raises:
            DataError: the length has room for none; it says what the first one needs.
            ConfigError: a negative number.
        """
        count, first = whole("count", count, 0), whole("first", first, 0)
        if self.questions is None:
            return range(first, first + count)
        rest = range(first, len(self.questions.questions))
        found = list(islice((k for k in rest if self.least(k) <= self.length), count))
        if not found:
            self.instance(first)
        return found

    def least(self, index: int) -> int:
        """The tokens of an instance with the least haystack, those to be generated among them.

        Raises:
            As `instance`; for fwe also where the length is too short for its words.
        """
        draft = self._draft(index, f"{self.name}, instance {index}")
        return self._tokens(draft.build(draft.least))

    def _tokens(self, text: _Text) -> int:
        tokens = self.tokenizer.encode(text.input + text.answer_prefix).size
        return tokens + self.tokens_to_generate

    def batch(self, step: int, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Instances step * batch_size and those that follow with their answers, for training.

        Returns:
            Tokens and labels, int32 [B, length] both: the loss is on the completion alone, all
            other labels are `IGNORE`. Rows end with token 0 (or the end token) where they are
            shorter.

        Raises:
            ConfigError: a negative step, or a batch size below 1.
            DataError, MissingDependencyError: as `instance`.
        """
        step, batch_size = whole("step", step, 0), whole("batch_size", batch_size, 1, MOST)
        padding = self.tokenizer.end or 0
        tokens = np.full((batch_size, self.length), padding, dtype=np.int32)
        labels = np.full_like(tokens, IGNORE)
        for row in range(batch_size):
            instance = self.instance(step * batch_size + row)
            prompt = self.tokenizer.encode(instance.input + instance.answer_prefix)
            answer = self.tokenizer.encode(instance.completion)[: self.length - prompt.size]
            end = prompt.size + answer.size
            tokens[row, :end] = np.concatenate([prompt, answer])
            labels[row, prompt.size - 1 : end - 1] = answer
        return tokens, labels

    def draws(self, index: int, purpose: int) -> Draws:
        """The random choices of an instance for one purpose."""
        stream = _STREAM + list(TASKS).index(self.name)
        address = (SPLITS.index(self.split), self.length, index * _PURPOSES + purpose)
        return Draws(self.seed, stream, address)


@functools.cache
def words(kind: str) -> tuple[str, ...]:
    """A word list of the package wonderwords: "noun", "adjective" or "verb".

    Raises:
        MissingDependencyError: wonderwords is not installed.
    """
    try:
        folder = resources.files("wonderwords.assets")
    except ImportError as error:
        raise missing("wonderwords", "a word of RULER") from error
    lines = (folder / f"{kind}list.txt").read_text().splitlines()
    return tuple(sorted({line.strip() for line in lines if line.strip()}))


def _word(draws: Draws) -> str:
    return f"{draws.choice(words('adjective'))}-{draws.choice(words('noun'))}"


def _number(draws: Draws) -> str:
    return str(10**6 + draws.below(9 * 10**6))


def _uuid(draws: Draws) -> str:
    digits = f"{draws.word():016x}{draws.word():016x}"
    variant = "89ab"[draws.below(4)]  # a UUID of version 4
    digits = f"{digits[:12]}4{digits[13:16]}{variant}{digits[17:]}"
    return "-".join(digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))


_VALUES = {"words": _word, "numbers": _number, "uuids": _uuid}


def _different(draws: Draws, kind: str, taken: set[str]) -> str:
    """A value of a kind that is not taken yet; it is from then on."""
    value = _VALUES[kind](draws)
    while value in taken:  # one of millions is free at once
        value = _VALUES[kind](draws)
    taken.add(value)
    return value


class _Maker(Protocol):
    """What makes the instances of one kind of task.

    Attributes:
        generate: how many tokens an answer may have.
        needs: "haystack", "questions" or None.
    """

    generate: int
    needs: str | None

    def draft(self, task: RulerTask, index: int, where: str) -> _Draft:
        """An instance of a task; raises `DataError` where the length has no room for any."""


@dataclass(frozen=True)
class _Needles:
    """The needle-in-a-haystack tasks."""

    haystack: str
    keys: str = "words"
    values: str = "numbers"
    num_keys: int = 1
    num_values: int = 1
    num_queries: int = 1
    generate: int = 128

    @property
    def needs(self) -> str | None:
        return "haystack" if self.haystack == "essay" else None

    def draft(self, task: RulerTask, index: int, where: str) -> _Draft:
        draws = task.draws(index, _CONTENT)
        taken: set[str] = set()
        hidden = []
        for _ in range(max(self.num_keys, self.num_queries)):
            key = _different(draws, self.keys, taken)
            hidden.append((key, [_different(draws, self.values, taken)
                                 for _ in range(self.num_values)]))  # fmt: skip
        asked = [hidden[k] for k in draws.sample(len(hidden), self.num_queries)]
        needles = [self._needle(key, value) for key, values in hidden for value in values]
        needles = draws.shuffled(needles)
        noise = self._noise(task, index, taken)

        def build(pieces: int) -> _Text:
            places = task.draws(index, _PLACES)
            if self.haystack == "essay":
                context = _in_essay(task.haystack, needles, pieces, places)
            else:
                context = _in_lines(noise, needles, pieces, places)
            return self._text(context, asked, needles)

        least = 1 if self.haystack == "essay" else len(needles)
        return _Draft(least, _UNBOUNDED, build)

    def _needle(self, key: str, value: str) -> str:
        return _NEEDLE.format(values=self.values, key=key, value=value)

    def _noise(self, task: RulerTask, index: int, taken: set[str]) -> Callable[[int], list[str]]:
        """A function that gives the first so many lines of the haystack."""
        draws = task.draws(index, _NOISE)
        lines: list[str] = []

        def first(count: int) -> list[str]:
            if self.haystack == "repeat":
                return [_REPEATED] * count
            while len(lines) < count:
                key = _different(draws, self.keys, taken)
                lines.append(self._needle(key, _different(draws, self.values, taken)))
            return lines[:count]

        return first

    def _text(self, context: str, asked: list, needles: list[str]) -> _Text:
        keys = [key for key, _ in asked]
        query = ", ".join(keys[:-1]) + ", and " + keys[-1] if len(keys) > 1 else keys[0]
        template, prefix, values = _NIAH, _NIAH_PREFIX, self.values
        if self.num_queries * self.num_values == 1:
            # As published: the same sentences in the singular.
            template = template.replace("Some", "A").replace("are all", "is").replace("are", "is")
            prefix, values = prefix.replace("are", "is"), values.removesuffix("s")
        outputs = tuple(value for _, found in asked for value in found)
        return _Text(
            input=template.format(values=values, context=context, query=query),
            answer_prefix=prefix.format(values=values, query=query),
            outputs=outputs,
            completion=" " + ", ".join(outputs) + ".",
            marks=tuple(needles),
        )


def _in_essay(essay: Filler, needles: list[str], count: int, places: Draws) -> str:
    """The first `count` words of an essay, with needles between its sentences."""
    laps = -(-count // len(essay.words))
    sentences = split_sentences(" ".join((essay.words * laps)[:count]))
    depths = sorted(_DEPTHS[k] for k in places.sample(len(_DEPTHS), len(needles)))
    cuts = [0, *(len(sentences) * depth // 100 for depth in depths), len(sentences)]
    pieces = []
    for k in range(len(cuts) - 1):
        pieces += sentences[cuts[k] : cuts[k + 1]]
        pieces += needles[k : k + 1]
    return " ".join(pieces)


def _in_lines(
    noise: Callable[[int], list[str]], needles: list[str], count: int, places: Draws
) -> str:
    lines = noise(count)
    at = sorted(places.sample(count, len(needles)), reverse=True)
    for place, needle in zip(at, needles, strict=True):
        lines.insert(place, needle)
    return "\n".join(lines)


@dataclass(frozen=True)
class _Variables:
    """Variable tracking."""

    num_chains: int = 1
    num_hops: int = 4
    generate: int = 30
    needs: str | None = None

    def draft(self, task: RulerTask, index: int, where: str) -> _Draft:
        example = self._example(task, index)

        def build(pieces: int) -> _Text:
            text = self._build(task, index, pieces, letters=5, purpose=_CONTENT)
            return replace(text, input=f"{example}\n\n{text.input}")

        return _Draft(self.num_hops + 2, _UNBOUNDED, build)

    def _example(self, task: RulerTask, index: int) -> str:
        """A solved task of at most 500 tokens, or of the least text that has the chain."""

        def solved(pieces: int) -> str:
            text = self._build(task, index, pieces, letters=3, purpose=_EXAMPLE)
            return text.input + text.answer_prefix + text.completion.strip()

        def count(pieces: int) -> int:
            return task.tokenizer.encode(solved(pieces)).size

        low = self.num_hops + 2
        limit = max(_VT_EXAMPLE_TOKENS, count(low))
        return solved(largest_that_fits(count, limit, low=low, high=limit, where="example"))

    def _build(
        self, task: RulerTask, index: int, pieces: int, *, letters: int, purpose: int
    ) -> _Text:
        draws = task.draws(index, purpose)
        size = self.num_hops + 1
        names: list[str] = []
        while len(names) < size * self.num_chains:
            name = "".join(draws.choice(string.ascii_uppercase) for _ in range(letters))
            if name not in names:
                names.append(name)
        chains = [names[k : k + size] for k in range(0, len(names), size)]
        values = [10_000 + number for number in draws.sample(90_000, len(chains))]
        lines = [f"{_REPEATED}\n"] * pieces
        marks: list[str] = []
        for chain, value in zip(chains, values, strict=True):
            steps = [f"VAR {chain[0]} = {value}"]
            steps += [f"VAR {b} = VAR {a} " for a, b in zip(chain, chain[1:], strict=False)]
            marks += [step.strip() for step in steps]
            at = sorted(draws.sample(len(lines), size))
            for shift, (place, step) in enumerate(zip(at, steps, strict=True)):
                lines.insert(place + shift, step)
        context = " ".join(lines).replace(". \n", ".\n")
        return _Text(
            input=_VT.format(context=context, query=values[0]),
            answer_prefix=_VT_PREFIX.format(count=size, query=values[0]),
            outputs=tuple(chains[0]),
            completion=" ".join(chains[0]),  # the prefix ends with a blank
            marks=tuple(marks),
        )


@dataclass(frozen=True)
class _CommonWords:
    """Common words extraction."""

    num_common: int = 10
    repeats: tuple[int, int] = (30, 3)  # of a common and an uncommon word
    short_repeats: tuple[int, int] = (6, 1)
    generate: int = 120
    needs: str | None = None

    def draft(self, task: RulerTask, index: int, where: str) -> _Draft:
        pool = sorted({w for kind in ("noun", "adjective", "verb") for w in words(kind)})
        short = task.length < _SHORT
        of_example = (20, (3, 1)) if short else (40, (10, 3))
        example, found = self._list(pool, task.draws(index, _EXAMPLE), *of_example)
        example = _CWE.format(context=example) + _CWE_PREFIX + _numbered(found)
        repeats = self.short_repeats if short else self.repeats

        def build(pieces: int) -> _Text:
            listed, common = self._list(pool, task.draws(index, _CONTENT), pieces, repeats)
            return _Text(
                input=f"{example}\n{_CWE.format(context=listed)}",
                answer_prefix=_CWE_PREFIX,
                outputs=tuple(common),
                completion=_numbered(common),
                marks=tuple(common),
            )

        return _Draft(self.num_common + 1, len(pool), build)

    def _list(
        self, pool: list[str], draws: Draws, count: int, repeats: tuple[int, int]
    ) -> tuple[str, list[str]]:
        """The numbered list of `count` different words, and those that are common."""
        # One sample for all counts keeps the first words of longer lists the same.
        chosen = [pool[k] for k in draws.sample(len(pool), count)]
        common, uncommon = chosen[: self.num_common], chosen[self.num_common :]
        listed = draws.shuffled(common * repeats[0] + uncommon * repeats[1])
        return " ".join(f"{k}. {word}" for k, word in enumerate(listed, start=1)), common


def _numbered(items: list[str]) -> str:
    return " " + " ".join(f"{k}. {item}" for k, item in enumerate(items, start=1))


@dataclass(frozen=True)
class _FrequentWords:
    """Frequent words extraction: the word of rank k appears as often as k**-alpha says."""

    alpha: float = 2.0
    num_frequent: int = 3
    generate: int = 50
    needs: str | None = None

    def draft(self, task: RulerTask, index: int, where: str) -> _Draft:
        size = task.length // _TOKENS_PER_CODED_WORD
        if size <= self.num_frequent + 1:
            expected = f"at least {(self.num_frequent + 2) * _TOKENS_PER_CODED_WORD} tokens"
            raise DataError("length too short", expected=expected, given=task.length, where=where)
        draws = task.draws(index, _CONTENT)
        taken: set[str] = set()
        while len(taken) < size - 1:
            taken.add("".join(draws.choice(string.ascii_lowercase) for _ in range(_CODED_LETTERS)))
        vocabulary = ["...", *draws.shuffled(sorted(taken))]  # the commonest word is noise
        frequent = tuple(vocabulary[1 : self.num_frequent + 1])
        shares = np.arange(1, size + 1, dtype=np.float64) ** -self.alpha / _zeta(self.alpha)

        def counts(pieces: int) -> list[int]:
            return (pieces * shares).astype(np.int64).tolist()

        def build(pieces: int) -> _Text:
            pairs = zip(vocabulary, counts(pieces), strict=True)
            listed = [word for word, count in pairs for _ in range(count)]
            text = " ".join(task.draws(index, _PLACES).shuffled(listed))
            return _Text(
                input=_FWE.format(context=text),
                answer_prefix=_FWE_PREFIX,
                outputs=frequent,
                completion=" " + ", ".join(frequent) + ".",
                marks=frequent,
            )

        def distinct(pieces: int) -> bool:
            found = counts(pieces)
            return found[self.num_frequent] > found[self.num_frequent + 1]

        # From the least on with which every frequent word is more frequent than all others.
        least = next(pieces for pieces in range(1, _UNBOUNDED)
                     if all(distinct(more) for more in range(pieces, pieces + 64)))  # fmt: skip
        return _Draft(least, _UNBOUNDED, build)


def _zeta(s: float, terms: int = 64) -> float:
    """Riemann's zeta function for s > 1, to about 1e-14 (Euler-Maclaurin)."""
    total = math.fsum(k**-s for k in range(1, terms))
    tail = terms ** (1 - s) / (s - 1) + terms**-s / 2 + s * terms ** (-s - 1) / 12
    return total + tail - s * (s + 1) * (s + 2) * terms ** (-s - 3) / 720


@dataclass(frozen=True)
class _Answers:
    """Question answering."""

    generate: int = 32
    needs: str | None = "questions"

    def draft(self, task: RulerTask, index: int, where: str) -> _Draft:
        asked = task.questions
        if not 0 <= index < len(asked.questions):
            expected = f"fewer than {len(asked.questions)} questions"
            raise DataError("no such question", expected=expected, given=index, where=asked.name)
        question = asked.questions[index]
        draws = task.draws(index, _CONTENT)
        close = {*question.gold, *question.related}
        far = [k for k in range(len(asked.documents)) if k not in close]
        # As published: the gold documents, those of the same article, then any others.
        order = [*question.gold, *draws.shuffled(question.related), *draws.shuffled(far)]

        def build(pieces: int) -> _Text:
            chosen = task.draws(index, _PLACES).shuffled(order[:pieces])
            context = "\n\n".join(
                f"Document {k}:\n{asked.documents[n]}" for k, n in enumerate(chosen, start=1)
            )
            return _Text(
                input=_QA.format(context=context, query=question.text),
                answer_prefix=_QA_PREFIX,
                outputs=question.answers,
                completion=f" {question.answers[0]}",
                marks=tuple(asked.documents[k] for k in question.gold),
            )

        return _Draft(len(question.gold), len(order), build)


TASKS: dict[str, _Maker] = {
    "niah_single_1": _Needles("repeat"),
    "niah_single_2": _Needles("essay"),
    "niah_single_3": _Needles("essay", values="uuids"),
    "niah_multikey_1": _Needles("essay", num_keys=4),
    "niah_multikey_2": _Needles("needle"),
    "niah_multikey_3": _Needles("needle", keys="uuids", values="uuids"),
    "niah_multivalue": _Needles("essay", num_values=4),
    "niah_multiquery": _Needles("essay", num_queries=4),
    "vt": _Variables(),
    "cwe": _CommonWords(),
    "fwe": _FrequentWords(),
    "qa_1": _Answers(),
    "qa_2": _Answers(),
}
