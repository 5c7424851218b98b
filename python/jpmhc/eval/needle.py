# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Accuracy on the bridged needle corpus (`jpmhc.data.needle`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jpmhc.data.needle import Instance, NeedleCorpus
from jpmhc.data.needle_themes import content_stems
from jpmhc.data.tokenizers import Tokenizer
from jpmhc.errors import DataError
from jpmhc.eval.models import GeneratingModel, generated

__all__ = ["Outcome", "Score", "evaluate", "exact_match", "literal_guess", "score"]

_FIRST_WORD = re.compile(r"\s*(\w*)")


@dataclass(frozen=True)
class Outcome:
    """What a model said to one instance.

    Attributes:
        instance: what was asked.
        continuation: the greedy continuation of its prompt.
        correct: whether its first word is the answer.
    """

    instance: Instance
    continuation: str
    correct: bool


@dataclass(frozen=True)
class Score:
    """Accuracy over instances.

    Attributes:
        outcomes: one for each.
    """

    outcomes: tuple[Outcome, ...]

    @property
    def count(self) -> int:
        """How many instances."""
        return len(self.outcomes)

    @property
    def accuracy(self) -> float:
        """The fraction that is right."""
        return sum(outcome.correct for outcome in self.outcomes) / self.count

    @property
    def chance(self) -> float:
        """The accuracy of guessing one of the people of each haystack."""
        return sum(outcome.instance.chance for outcome in self.outcomes) / self.count

    def by_hops(self) -> dict[int, Score]:
        """The same for each number of bridges."""
        return self._by(lambda instance: instance.hops)

    def by_depth(self, bins: int = 10) -> dict[float, Score]:
        """The same for each part of the haystack that the needle lies in, by where it begins."""
        return self._by(lambda instance: min(int(_depth(instance) * bins), bins - 1) / bins)

    def _by(self, key) -> dict:
        groups: dict = {}
        for outcome in self.outcomes:
            groups.setdefault(key(outcome.instance), []).append(outcome)
        return {name: Score(tuple(groups[name])) for name in sorted(groups)}


def _depth(instance: Instance) -> float:
    return next(s.depth for s in instance.statements if (s.level, s.chain) == (0, 0))


def exact_match(continuation: str, answer: str) -> bool:
    """Whether the first word of a continuation is the answer, letter by letter."""
    found = _FIRST_WORD.match(continuation)
    return found is not None and found[1] == answer


def score(instances: Iterable[Instance], continuations: Sequence[str]) -> Score:
    """The score of continuations that were made elsewhere, one for each instance.

    Raises:
        DataError: no instances, or not as many continuations.
    """
    instances = tuple(instances)
    if not instances or len(instances) != len(continuations):
        expected = f"{max(len(instances), 1)} continuations"
        raise DataError("bad continuations", expected=expected, given=len(continuations))
    return Score(
        tuple(
            Outcome(instance, text, exact_match(text, instance.answer))
            for instance, text in zip(instances, continuations, strict=True)
        )
    )


def evaluate(model: GeneratingModel, corpus: NeedleCorpus, count: int) -> Score:
    """The score of a model's greedy continuations of the first `count` instances.

    It may say as many tokens as the right completion has.

    Raises:
        DataError: as `NeedleCorpus.instance`, or `count` is not positive.
        ConfigError, ShapeError: as `models.generated`.
    """
    instances = [corpus.instance(index) for index in range(count)]
    texts = [_continue(model, corpus.tokenizer, instance) for instance in instances]
    return score(instances, texts)


def literal_guess(instance: Instance) -> str:
    """What one would answer who only looks for the words of the question.

    The person of the needle that shares most stems with the question; of several the first by
    name, so that where none shares any it is a guess.
    """
    asked = content_stems(instance.question)
    shared = {
        name: len(asked & content_stems(statement.text))
        for statement in instance.statements
        if statement.level == 0
        for name in instance.candidates
        if name in statement.text
    }
    return max(instance.candidates, key=lambda name: shared[name])


def _continue(model: GeneratingModel, tokenizer: Tokenizer, instance: Instance) -> str:
    prompt = instance.tokens[: instance.answer_start]
    limit = len(instance.tokens) - instance.answer_start
    return tokenizer.decode(generated(model, prompt, limit))
