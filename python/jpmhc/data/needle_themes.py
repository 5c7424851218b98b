# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the bridged needle corpus talks about: names, sentences and how to read them back.

A chain links a person to a thing (the needle), the thing to a first name (bridge 1), that to a
second (bridge 2) and that to a third (bridge 3). Every name is invented or has nothing to do
with the next, and links are drawn anew for each instance, so no knowledge of the world helps.
No question shares a word with any needle or, apart from the name asked for, with any bridge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from jpmhc.data.filler import words_of

__all__ = ["MOST_HOPS", "PEOPLE", "THEMES", "Fact", "Theme", "content_stems", "pool_stems"]

MOST_HOPS = 3

PEOPLE = tuple(
    "Adela Bruno Celia Dmitri Edith Farid Greta Hugo Ingrid Jonah Katya Leopold Mabel Nadia Otto "
    "Petra Quentin Rosalind Stefan Tamar Ulrich Valeria Wilfred Ximena Yusuf Zelda Anselm "
    "Beatrix Conrad Delphine Emeric Fatima Gustav Henrike Isolde Jasper Klara Lorenzo Mirela "
    "Norbert Odette Pascal Ramona Sigrid Theodor Ursula Viktor Winona".split()
)

_PREFIXES = "Vel Drav Mar Tal Bren Kos Lun Har Ost Pel Quin Sar".split()
# Words that carry no meaning of their own: sharing one is no literal match.
_FUNCTION_WORDS = frozenset(
    "a an and are as at be been by can could for from had has have he her his in is it its not "
    "of on or out she some than that the their them they this through to was were what which who "
    "with would".split()
)
_ENDINGS = ("ing", "ed", "es", "s", "ly")


def _stem(word: str) -> str:
    ending = next((e for e in _ENDINGS if word.endswith(e) and len(word) >= len(e) + 3), "")
    return word.removesuffix(ending)


def content_stems(text: str) -> set[str]:
    """The stems of the words of a text that carry meaning.

    A stem is the word in lower case without the first that fits of -ing, -ed, -es, -s, -ly.
    """
    return {_stem(word) for word in words_of(text) if word not in _FUNCTION_WORDS}


def _names(*endings: str) -> tuple[str, ...]:
    return tuple(prefix + ending for prefix in _PREFIXES for ending in endings)


def _things(first: str, second: str) -> tuple[str, ...]:
    return tuple(f"the {a} {b}" for a in first.split() for b in second.split())


@dataclass(frozen=True)
class Fact:
    """A sentence read back: level 0 is a needle (person, thing), 1..3 a bridge (from, to)."""

    level: int
    source: str
    target: str


@dataclass(frozen=True)
class Theme:
    """A kind of chain.

    Attributes:
        name: such as "places".
        pools: five tuples of 48 names: people, things and the names of levels 1..3.
        templates: for each level 0..3 three sentences with {a} (the source) and {b}.
        questions: three sentences with {t}, the name asked for.
    """

    name: str
    pools: tuple[tuple[str, ...], ...]
    templates: tuple[tuple[str, ...], ...]
    questions: tuple[str, ...]

    def sentence(self, level: int, template: int, source: str, target: str) -> str:
        """A needle or bridge in words."""
        text = self.templates[level][template].format(a=source, b=target)
        return text[0].upper() + text[1:]

    def question(self, template: int, target: str) -> str:
        """The question who is linked to a name."""
        return self.questions[template].format(t=target)

    def facts(self, text: str) -> Iterator[tuple[Fact, int, int]]:
        """The needles and bridges that a text has, with where each begins and ends."""
        for level, pattern in self._patterns:
            for match in pattern.finditer(text):
                source, target = (self._known[match[name].lower()] for name in ("a", "b"))
                yield Fact(level, source, target), match.start(), match.end()

    def asked(self, question: str) -> tuple[int, str] | None:
        """The level and the name that a question asks for; None if it is none of this theme."""
        for template in self.questions:
            before, after = template.split("{t}")
            if question.startswith(before) and question.endswith(after):
                name = self._known.get(question[len(before) : len(question) - len(after)].lower())
                level = next((k for k, pool in enumerate(self.pools) if name in pool), 0)
                if level:  # a person (0) cannot be asked for; a thing is level 1 of the pools
                    return level - 1, name
        return None

    @cached_property
    def _known(self) -> dict[str, str]:
        return {name.lower(): name for pool in self.pools for name in pool}

    @cached_property
    def _patterns(self) -> list[tuple[int, re.Pattern[str]]]:
        return [
            (level, self._pattern(template, self.pools[level], self.pools[level + 1]))
            for level, templates in enumerate(self.templates)
            for template in templates
        ]

    @staticmethod
    def _pattern(template: str, sources: tuple[str, ...], targets: tuple[str, ...]) -> re.Pattern:
        pattern = re.escape(template)
        for key, pool in (("a", sources), ("b", targets)):
            names = "|".join(re.escape(name) for name in pool)
            pattern = pattern.replace(re.escape(f"{{{key}}}"), f"(?P<{key}>{names})")
        return re.compile(rf"(?<!\w){pattern}", re.IGNORECASE)


THEMES = (
    Theme(
        "places",
        (
            PEOPLE,
            _things(
                "Amber Crooked Hollow Ivory Silent Copper Willow Frozen Scarlet Marble Thunder "
                "Velvet",
                "Lighthouse Granary Observatory Aqueduct",
            ),
            _names("mora", "wick", "stead", "burgh"),
            _names("ania", "eria", "ovia", "ustan"),
            _names("gard", "heim", "mark", "avar"),
        ),
        (
            (
                "{a} rents a room right beside {b}.",
                "From the kitchen window {a} looks straight onto {b}.",
                "{a} walks past {b} every morning.",
            ),
            (
                "{a} stands in the old town of {b}.",
                "{a} was built within the walls of {b}.",
                "Travellers come upon {a} in {b}.",
            ),
            (
                "{a} is the largest market of {b}.",
                "{a} lies on the southern border of {b}.",
                "All roads from {a} lead to the rest of {b}.",
            ),
            (
                "{a} pays its taxes to {b}.",
                "{a} is the smallest province of {b}.",
                "The king of {b} rules over {a}.",
            ),
        ),
        (
            "Who could guide a visitor through {t}?",
            "Which person is familiar with {t}?",
            "Who is at home in {t}?",
        ),
    ),
    Theme(
        "books",
        (
            PEOPLE,
            _things(
                "Heron Otter Comet Anvil Thistle Lantern Badger Orchard Falcon Mirror Harbour "
                "Candle",
                "Ballad Chronicle Almanac Psalter",
            ),
            _names("ish", "ese", "ic", "an"),
            _names("oric", "ardic", "unic", "athic"),
            _names("idic", "onian", "urian", "etic"),
        ),
        (
            (
                "{a} keeps {b} on the shelf above the bed.",
                "Last winter {a} copied {b} by hand.",
                "{a} borrowed {b} and never gave it back.",
            ),
            (
                "{a} was composed in {b}.",
                "The pages of {a} are all in {b}.",
                "Every line of {a} is {b} verse.",
            ),
            (
                "{a} grew out of {b}.",
                "{a} is a daughter tongue of {b}.",
                "Scholars trace {a} to {b}.",
            ),
            (
                "{a} belongs to the {b} family.",
                "The alphabet of {a} was taken from {b}.",
                "Older than {a} by far is {b}.",
            ),
        ),
        (
            "Who understands {t}?",
            "Which reader has met with {t}?",
            "Who can make sense of {t}?",
        ),
    ),
    Theme(
        "dishes",
        (
            PEOPLE,
            _things(
                "saffron juniper walnut ginger pepper honey barley fennel apricot mustard "
                "rosemary cinnamon",
                "dumpling broth pudding pasty",
            ),
            _names("ome", "ule", "iff", "oss"),
            _names("thorn", "wort", "bane", "leaf"),
            _names("idra", "ophyte", "anthe", "ella"),
        ),
        (
            (
                "For supper {a} always orders {b}.",
                "{a} cooks {b} better than anyone.",
                "{a} would not share {b} at the feast.",
            ),
            (
                "{a} is thickened with {b}.",
                "The secret of {a} is a pinch of {b}.",
                "Nobody makes {a} without {b}.",
            ),
            (
                "{a} is pressed from the seeds of {b}.",
                "{a} is another name for dried {b}.",
                "The bark of {b} yields {a}.",
            ),
            (
                "{a} is a kind of {b}.",
                "Gardeners sell {a} under the label {b}.",
                "Botanists count {a} as {b}.",
            ),
        ),
        (
            "Who has tasted {t}?",
            "Which guest swallowed some {t}?",
            "Who knows the flavour of {t}?",
        ),
    ),
)


@lru_cache(maxsize=1)
def pool_stems() -> frozenset[str]:
    """The stems of every name and of the words of every question: no filler may have one."""
    names = (name for theme in THEMES for pool in theme.pools for name in pool)
    questions = (q.replace("{t}", "") for theme in THEMES for q in theme.questions)
    return frozenset(stem for text in (*names, *questions) for stem in content_stems(text))
