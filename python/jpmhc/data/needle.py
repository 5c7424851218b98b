# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The bridged needle corpus: what is asked for never stands beside the answer.

An instance is a long filler text in which short statements are hidden. One, the needle, links a
person to a thing ("Petra rents a room right beside the Amber Lighthouse."); bridges link that
thing to a name, this name to another, and so on ("The Amber Lighthouse stands in the old town of
Velmora."). The question names the end of the chain ("Who could guide a visitor through
Velmora?"); its answer is the person. Question and needle share no word, so the answer cannot be
found by looking for the words of the question: each bridge has to be followed. Other chains of
the same kind lead from other people to other ends.

This is NoLiMa (Modarressi et al., 2025) as TRSP's appendix A.1 adapts it to models trained from
scratch: the fact that bridges question and needle is part of every instance. Names and sentences
are this project's own (`needle_themes`), and links are drawn anew for every instance.

Instance `index` depends on the options, the seed, the split and `index` alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from jpmhc.data import philox
from jpmhc.data.checks import MOST, fraction, one_of, whole
from jpmhc.data.draws import Draws
from jpmhc.data.filler import Filler
from jpmhc.data.fitting import suffix_of_length
from jpmhc.data.needle_themes import (
    MOST_HOPS,
    THEMES,
    Fact,
    Theme,
    content_stems,
    pool_stems,
)
from jpmhc.data.reading import as_text, field
from jpmhc.data.tokenizers import Tokenizer
from jpmhc.errors import ConfigError, DataError

__all__ = [
    "IGNORE",
    "KINDS",
    "PROTOCOLS",
    "SPLITS",
    "Instance",
    "NeedleCorpus",
    "Proof",
    "Statement",
    "check",
    "is_held_out",
]

IGNORE = -100  # the label of what is not to be predicted, as in `jpmhc.ops`
SPLITS = ("train", "test")
KINDS = ("bridged", "no_bridge", "literal")
PROTOCOLS = ("paper", "strict")
MOST_CHAINS = 8

_STREAM = 16
_STORY, _PLACES = 0, 1  # what the draws of an instance are for
_HELD_OUT_TEMPLATE = 2  # of three
_HELD_OUT_FILLER = 0.75  # what comes after is for tests
_ATTEMPTS = 8  # tries to reach the exact number of tokens, each with a sentence less
_QUESTION = "\n\nQuestion: {question}\nAnswer:"


@dataclass(frozen=True)
class Statement:
    """A sentence hidden in the filler.

    Attributes:
        level: 0 for a needle, 1..3 for the bridge of that number.
        chain: 0 for the chain that is asked for, 1.. for the others.
        text: the sentence.
        begin: where it begins in the prompt, in characters.
        depth: that as a fraction of the haystack.
    """

    level: int
    chain: int
    text: str
    begin: int
    depth: float


@dataclass(frozen=True, eq=False)
class Instance:
    """One haystack with its question.

    Attributes:
        index, split, kind, hops: as drawn.
        prompt: haystack and question; a model continues it.
        completion: the right continuation, a blank, the answer and a full stop.
        answer: one word.
        candidates: the people of all chains, sorted; without the bridges the answer is one of
            them at chance 1 / len(candidates).
        statements: needles and bridges in the order of the text.
        tokens: int32 [length]: those of the prompt and then those of the completion.
        answer_start: index of the first token of the completion.
    """

    index: int
    split: str
    kind: str
    hops: int
    prompt: str
    completion: str
    answer: str
    candidates: tuple[str, ...]
    statements: tuple[Statement, ...]
    tokens: np.ndarray
    answer_start: int

    @property
    def question(self) -> str:
        """The question alone."""
        return _parts(self.prompt)[1]

    @property
    def chance(self) -> float:
        """How often a guess among the people of the haystack is right."""
        return 1 / len(self.candidates)

    def record(self) -> dict:
        """What is written to disk: everything but the tokens, which follow from it."""
        return {
            "index": self.index,
            "split": self.split,
            "kind": self.kind,
            "hops": self.hops,
            "length": len(self.tokens),
            "prompt": self.prompt,
            "completion": self.completion,
            "answer": self.answer,
            "candidates": list(self.candidates),
            "statements": [vars(statement) for statement in self.statements],
        }


@dataclass(frozen=True)
class _Story:
    """What an instance says, before it is hidden: sentences (level, chain, text) in order."""

    theme: Theme
    hops: int
    sentences: tuple[tuple[int, int, str], ...]
    question: str
    answer: str
    candidates: tuple[str, ...]


class NeedleCorpus:
    """Instances of exactly `length` tokens.

    Args:
        filler: what to hide statements in. Sentences with a word of any name or question are
            left out; it is repeated where a haystack needs more.
        tokenizer: measures lengths.
        length: tokens of an instance, prompt and completion together, at most 2**24.
        hops: how many bridges, 1..3; of several numbers one is drawn for each instance.
        chains: how many chains an instance has, 1..8, that of the answer among them.
        kind: "bridged"; "no_bridge", the control that lacks the bridge to the name asked for in
            every chain, where no more than 1 / chains can be right; or "literal", the control
            whose question names the thing of the needle.
        split: "train" or "test".
        protocol: "paper" draws both splits from the same names, sentences and filler; "strict"
            keeps for the test split a quarter of the pairs of names that may follow each other
            (`is_held_out`), one of three wordings of each sentence and question, and the last
            quarter of the filler.
        seed: 0 <= seed < 2**64.
        depth: where the asked chain's needle lies, 0 at the beginning to 1 at the end of the
            filler; by default anywhere.

    Raises:
        ConfigError: an option out of range or of an unknown name.
        DataError: no filler is left, or the length is too short even without filler.
    """

    def __init__(
        self,
        filler: Filler,
        tokenizer: Tokenizer,
        *,
        length: int,
        hops: int | Sequence[int] = (1, 2, 3),
        chains: int = 4,
        kind: str = "bridged",
        split: str = "train",
        protocol: str = "paper",
        seed: int = 0,
        depth: float | None = None,
    ) -> None:
        hops = hops if isinstance(hops, Sequence) else (hops,)
        self.hops = tuple(whole("hops", number, 1, MOST_HOPS) for number in hops)
        for name, value, known in (
            ("kind", kind, KINDS),
            ("split", split, SPLITS),
            ("protocol", protocol, PROTOCOLS),
        ):
            one_of(name, value, known)
        if not self.hops:
            raise ConfigError("bad hops", expected=f"1..{MOST_HOPS}", given="none")
        self.depth = None if depth is None else fraction("depth", depth, ends=True)
        self.tokenizer, self.length = tokenizer, whole("length", length, 1, MOST)
        self.chains, self.kind = whole("chains", chains, 1, MOST_CHAINS), kind
        self.seed = philox.check_seed(seed)
        self.split, self.protocol = split, protocol
        self.filler = self._own_filler(filler)
        # A sentence of a text costs about what it costs alone; the exact count comes later.
        costs = [tokenizer.encode(f" {sentence}").size for sentence in self.filler.sentences]
        self._costs = np.maximum(np.array(costs, dtype=np.int64), 1)

    def _own_filler(self, filler: Filler) -> Filler:
        own = filler
        if self.protocol == "strict":
            bounds = (_HELD_OUT_FILLER, 1) if self.split == "test" else (0, _HELD_OUT_FILLER)
            own = own.part(*bounds)
        own = own.where(_is_neutral)
        if not own.sentences:
            message = "no sentence of the filler is left"
            given = f"{len(filler.sentences)} sentences"
            raise DataError(message, given=given, where=filler.name)
        return own

    def options(self) -> dict:
        """All that instances depend on, for manifests."""
        names = ("length", "chains", "kind", "split", "protocol", "seed", "depth")
        return {name: getattr(self, name) for name in names} | {
            "hops": list(self.hops),
            "filler": {"name": self.filler.name, "sha256": self.filler.sha256},
            "tokenizer": {"name": self.tokenizer.name, "sha256": self.tokenizer.fingerprint},
        }

    def instance(self, index: int) -> Instance:
        """An instance; `index` counts from 0 without end.

        Raises:
            ConfigError: a negative index.
            DataError: the length is too short for the statements and the question, or the
                tokenizer cannot make a text of exactly this length.
        """
        story = self._story(whole("index", index, 0))
        completion = f" {story.answer}."
        ending = self.tokenizer.encode(completion)
        prompt, statements = self._hide(story, index, self.length - ending.size)
        return Instance(
            index=index,
            split=self.split,
            kind=self.kind,
            hops=story.hops,
            prompt=prompt,
            completion=completion,
            answer=story.answer,
            candidates=story.candidates,
            statements=statements,
            tokens=np.concatenate([self.tokenizer.encode(prompt), ending]),
            answer_start=self.length - ending.size,
        )

    def batch(
        self, step: int, batch_size: int, *, answer_only: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Instances step * batch_size and those that follow, for training.

        Args:
            answer_only: whether the loss is on the completion alone, not on every token.

        Returns:
            Tokens and labels, int32 [B, length] both: the label of a token is the one that
            follows it, `IGNORE` for the last.

        Raises:
            ConfigError: a negative step, or a batch size below 1.
            DataError: as `instance`.
        """
        step, batch_size = whole("step", step, 0), whole("batch_size", batch_size, 1, MOST)
        instances = [self.instance(step * batch_size + row) for row in range(batch_size)]
        tokens = np.stack([instance.tokens for instance in instances])
        labels = np.full_like(tokens, IGNORE)
        labels[:, :-1] = tokens[:, 1:]
        if answer_only:
            for row, instance in enumerate(instances):
                labels[row, : instance.answer_start - 1] = IGNORE
        return tokens, labels

    # What an instance says.

    def _story(self, index: int) -> _Story:
        draws = Draws(self.seed, _STREAM, (SPLITS.index(self.split), index, _STORY))
        theme = draws.choice(THEMES)
        hops = draws.choice(self.hops)
        chains = self._chains(draws, theme, hops)
        sentences = [
            (level, number, theme.sentence(level, self._wording(draws), *chain[level : level + 2]))
            for number, chain in enumerate(chains)
            for level in range(hops + 1)
            if not (self.kind == "no_bridge" and level == hops)
        ]
        asked = 1 if self.kind == "literal" else hops + 1
        return _Story(
            theme=theme,
            hops=hops,
            sentences=tuple(draws.shuffled(sentences)),
            question=theme.question(self._wording(draws), chains[0][asked]),
            answer=chains[0][0],
            candidates=tuple(sorted(chain[0] for chain in chains)),
        )

    def _wording(self, draws: Draws) -> int:
        if self.protocol == "paper":
            return draws.below(3)
        return _HELD_OUT_TEMPLATE if self.split == "test" else draws.below(_HELD_OUT_TEMPLATE)

    def _chains(self, draws: Draws, theme: Theme, hops: int) -> list[list[str]]:
        """Names of each chain, no name twice: person, thing, and one name for each hop."""
        chains: list[list[int]] = [[] for _ in range(self.chains)]
        for level in range(hops + 2):
            free = list(range(len(theme.pools[level])))
            for chain in chains:
                allowed = [n for n in free if not level or self._may_follow(chain[-1], n)]
                chain.append(draws.choice(allowed))
                free.remove(chain[-1])
        return [[theme.pools[k][n] for k, n in enumerate(chain)] for chain in chains]

    def _may_follow(self, first: int, second: int) -> bool:
        if self.protocol == "paper":
            return True
        return is_held_out(first, second) == (self.split == "test")

    # Where it is hidden.

    def _hide(self, story: _Story, index: int, budget: int) -> tuple[str, tuple[Statement, ...]]:
        """A prompt of exactly `budget` tokens and its statements."""
        where = f"instance {index}"
        ending = _QUESTION.format(question=story.question)
        spoken = " ".join(text for _, _, text in story.sentences)
        fixed = self.tokenizer.encode(spoken + ending).size
        if fixed > budget:
            expected = f"at least {self.length - budget + fixed} tokens"
            hint = "fewer chains or hops need less"
            raise DataError(
                "length too short", expected=expected, given=self.length, where=where, hint=hint
            )
        size = len(self._costs)
        first = Draws(self.seed, _STREAM, self._address(index)).below(size)
        most = self._sentences_that_fit(first, budget - fixed)
        for attempt in range(_ATTEMPTS):
            count = max(most - attempt, 0)
            body = self._body(story, index, first, count)
            text = " ".join(piece for _, piece in body) + ending
            missing = budget - self.tokenizer.encode(text).size
            if missing > budget / 2 and missing > 4 * int(self._costs.max()) + 64:
                break  # sentences together have not nearly the tokens that each has
            lead = self._filler_before(first - attempt, missing) if missing > 0 else ""
            head = suffix_of_length(lead, text, budget, self.tokenizer, accept=_is_neutral)
            if head is not None:
                return head + text, _statements(body, len(head), len(head + text) - len(ending))
        message = "the tokenizer makes no text of this many tokens"
        raise DataError(message, given=self.length, where=where, hint="try another length")

    def _address(self, index: int) -> tuple[int, int, int]:
        return (SPLITS.index(self.split), index, _PLACES)

    def _sentences_that_fit(self, first: int, budget: int) -> int:
        """How many sentences from `first` on cost no more than the budget."""
        size = len(self._costs)
        laps, rest = divmod(budget, int(self._costs.sum()))
        total = np.cumsum(np.roll(self._costs, -first))
        return laps * size + int(np.searchsorted(total, rest, side="right"))

    def _filler_before(self, first: int, tokens: int) -> str:
        """The text before sentence `first`, long enough to cut so many tokens from its end."""
        sentences, cost, at = [], 0, first
        while cost <= 2 * tokens + 8:
            at = (at - 1) % len(self._costs)
            sentences.append(self.filler.sentences[at])
            cost += int(self._costs[at])
        return " ".join(sentences[::-1]) + " "

    def _body(
        self, story: _Story, index: int, first: int, count: int
    ) -> list[tuple[tuple[int, int] | None, str]]:
        """Filler and statements in order: ((level, chain) or None, sentence)."""
        draws = Draws(self.seed, _STREAM, self._address(index))
        draws.below(len(self._costs))  # where the filler begins
        gaps = sorted(draws.below(count + 1) for _ in story.sentences)
        placed = list(zip(gaps, story.sentences, strict=True))
        if self.depth is not None:
            gap = round(self.depth * count)
            placed = sorted(
                ((gap if s[:2] == (0, 0) else g, s) for g, s in placed), key=lambda item: item[0]
            )
        sentences = self.filler.sentences
        body: list[tuple[tuple[int, int] | None, str]] = []
        done = 0
        for gap, (level, chain, text) in [*placed, (count, (0, 0, ""))]:
            body += [(None, sentences[(first + k) % len(sentences)]) for k in range(done, gap)]
            done = gap
            if text:
                body.append(((level, chain), text))
        return body


def _is_neutral(filler: str) -> bool:
    """Whether a text has no word of any name or question, so that it cannot answer one."""
    return pool_stems().isdisjoint(content_stems(filler))


def _statements(
    body: list[tuple[tuple[int, int] | None, str]], begin: int, end: int
) -> tuple[Statement, ...]:
    statements = []
    for label, text in body:
        if label is not None:
            level, chain = label
            statements.append(Statement(level, chain, text, begin, begin / max(end, 1)))
        begin += len(text) + 1
    return tuple(statements)


def is_held_out(first: int, second: int) -> bool:
    """Whether names of these numbers follow each other in the strict test split only."""
    return (first + first // 4 + second + second // 4) % 4 == 0


@dataclass(frozen=True)
class Proof:
    """What `check` has found out from the text of an instance alone.

    Attributes:
        answers: the people that the chains lead to from the name asked for.
        people: all the people that some needle names, sorted.
        overlap: stems that question and needle share.
        path: the facts from the name asked for back to the person, in words.
    """

    answers: tuple[str, ...]
    people: tuple[str, ...]
    overlap: frozenset[str]
    path: tuple[str, ...]


def check(instance: Instance | dict) -> Proof:
    """Prove that an instance is what its `kind` says, from its prompt alone.

    The statements are found in the prompt by their wording, not by what the instance says of
    them; filler is all the rest. Of a bridged instance it is proved that

    * following the statements back from the name asked for leads to one person, the answer;
    * the question shares no stem of a word with any needle, with any bridge nothing but the
      name asked for, and with the filler nothing at all;
    * the answer and the name asked for occur in no other sentence.

    Of the control without bridge, that nothing leads from the question to anyone and that every
    person is named once; of the literal control, that question and needle do share the thing.

    Args:
        instance: an instance or its record as read from disk.

    Raises:
        DataError: naming the instance and what does not hold.
    """
    record = instance.record() if isinstance(instance, Instance) else instance
    where = f"instance {record.get('index')}" if isinstance(record, dict) else "instance"
    prompt, kind, answer = (field(record, part, str, where) for part in _CHECKED)
    candidates = field(record, "candidates", list, where)
    haystack, question = _parts(prompt)
    theme, level, name = _asked(question, where)
    found = sorted(theme.facts(haystack), key=lambda item: item[1])
    sentences = {fact: haystack[begin:end] for fact, begin, end in found}
    answers, path = _follow(list(sentences), level, name)
    people = tuple(sorted(fact.source for fact in sentences if fact.level == 0))
    expect = partial(_expect, where)
    expect(kind in KINDS, "unknown kind", KINDS, kind)
    given = tuple(sorted(as_text(person, "candidates", where) for person in candidates))
    expect(people == given, "the people differ from the candidates", given, people)
    expect(len(set(people)) == len(people), "a person has two needles", "one", people)
    _check_filler(expect, content_stems(_rest(haystack, found)), content_stems(question))
    overlap = _overlap(expect, sentences, question, name, literal=kind == "literal")
    if kind == "no_bridge":
        expect(not answers, "the control can be answered", "no answer", answers)
        mentioned = [fact for fact in sentences if name in (fact.source, fact.target)]
        expect(not mentioned, "the control names what is asked for", "nowhere", name)
    else:
        expect(answers == (answer,), "the chains lead elsewhere", answer, answers)
        message = "wrong overlap of question and needle"
        expect(bool(overlap) == (kind == "literal"), message, kind, sorted(overlap))
    return Proof(answers, people, overlap, tuple(sentences[fact] for fact in path))


_CHECKED = ("prompt", "kind", "answer")  # texts of a record


def _expect(where: str, holds: bool, message: str, expected: object, given: object) -> None:
    if not holds:
        raise DataError(message, expected=expected, given=given, where=where)


def _check_filler(expect: Callable[..., None], filler: set[str], asked: set[str]) -> None:
    """That stems of the filler are neither asked for nor those of any name."""
    shared = asked & filler
    expect(not shared, "question and filler share words", "none", sorted(shared))
    strangers = pool_stems() & filler
    expect(not strangers, "the filler has names", "none", sorted(strangers))


def _overlap(
    expect: Callable[..., None],
    sentences: dict[Fact, str],
    question: str,
    name: str,
    *,
    literal: bool,
) -> frozenset[str]:
    """The stems that the question shares with needles; with statements it may share the name."""
    asked, named = content_stems(question), content_stems(name)
    overlap: frozenset[str] = frozenset()
    for fact, text in sentences.items():
        shared = asked & content_stems(text)
        if fact.level == 0:
            overlap |= shared
        free = name in (fact.source, fact.target) or (literal and fact.level <= 1)
        allowed = named if free else set()
        expect(shared <= allowed, "question and statement share words", "none", sorted(shared))
    return overlap


def _parts(prompt: str) -> tuple[str, str]:
    """The haystack and the question of a prompt."""
    before, after = _QUESTION.split("{question}")
    haystack, found, rest = prompt.rpartition(before)
    if not found or not rest.endswith(after):
        raise DataError("bad prompt", expected="a haystack and a question", given=prompt[-80:])
    return haystack, rest.removesuffix(after)


def _asked(question: str, where: str) -> tuple[Theme, int, str]:
    for theme in THEMES:
        found = theme.asked(question)
        if found is not None:
            return theme, *found
    raise DataError("unknown question", given=question, where=where)


def _follow(facts: list, level: int, name: str) -> tuple[tuple[str, ...], list]:
    """The people from whom statements lead to a name of a level, and the statements on the way."""
    path = []
    names = {name}
    for step in range(level, -1, -1):
        links = [fact for fact in facts if fact.level == step and fact.target in names]
        path += links
        names = {fact.source for fact in links}
    return tuple(sorted(names)), path


def _rest(haystack: str, found: list) -> str:
    """The haystack without its statements."""
    pieces, done = [], 0
    for _, begin, end in found:
        pieces.append(haystack[done:begin])
        done = end
    return " ".join([*pieces, haystack[done:]])


def fingerprint(instance: Instance) -> str:
    """SHA-256 of the prompt and the completion, in hexadecimal."""
    return hashlib.sha256(f"{instance.prompt}\0{instance.completion}".encode()).hexdigest()
