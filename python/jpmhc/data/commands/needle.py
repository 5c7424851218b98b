# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The bridged needle corpus: questions that share no word with the needle they ask for."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from jpmhc.data import needle, strips, tokenizers
from jpmhc.data.ahead import check_workers
from jpmhc.data.commands import _instances
from jpmhc.data.filler import Filler
from jpmhc.data.needle import Instance, NeedleCorpus, check
from jpmhc.data.output import Card, OutputFolder
from jpmhc.errors import ConfigError

_MOST_COUNTED = 200  # instances that --stats looks at


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of its own."""
    add = parser.add_argument
    add("filler", type=Path, metavar="TEXT", help="file of the text to hide statements in")
    add("--lengths", type=int, nargs="+", default=[1024], help="tokens (%(default)s)")
    add("--train", type=int, default=0, metavar="N", help="training instances of each kind")
    add("--test", type=int, default=100, metavar="N", help="test instances (%(default)s)")
    add("--kinds", nargs="+", choices=needle.KINDS, default=["bridged"], help="and controls")
    add("--hops", type=int, nargs="+", default=[1, 2, 3], help="bridges, 1..3 (%(default)s)")
    add("--chains", type=int, default=4, help="of which one is asked for (%(default)s)")
    add("--protocol", choices=needle.PROTOCOLS, default="paper", help="(%(default)s)")
    add("--depth", type=float, help="of the needle, 0..1 (anywhere)")
    add("--seed", type=int, default=0, help="(%(default)s)")
    add("--workers", type=int, default=1, help="processes (%(default)s)")
    _instances.add_text_options(parser)


def run(options: argparse.Namespace) -> None:
    """Makes the instances, proves each, and shows, counts and writes them as asked for."""
    for name in ("train", "test"):
        if getattr(options, name) < 0:
            raise ConfigError(f"--{name}", expected="at least 0", given=getattr(options, name))
    check_workers(options.workers, 1)
    corpora = _corpora(options)
    first = next(iter(corpora.values()))[0]
    for index in range(options.preview):
        show(first.instance(index))
    if options.png:
        draw(options.png, first, options.preview or _instances.DRAWN)
    if options.stats or not (options.preview or options.output or options.png):
        print("\n".join(f"{name}: {value}" for name, value in count(corpora).items()))
    if options.output is not None:
        _write(options, corpora)


def _corpora(options: argparse.Namespace) -> dict[str, tuple[NeedleCorpus, int]]:
    """The corpus of each file and how many instances it gets."""
    filler = Filler.from_file(options.filler)
    tokenizer = tokenizers.load(options.tokenizer)
    found = {
        f"{split}-{kind}-{length}.jsonl": (
            NeedleCorpus(
                filler,
                tokenizer,
                length=length,
                hops=options.hops,
                chains=options.chains,
                kind=kind,
                split=split,
                protocol=options.protocol,
                seed=options.seed,
                depth=options.depth,
            ),
            number,
        )
        for split, number in (("train", options.train), ("test", options.test))
        for kind in options.kinds
        for length in options.lengths
        if number
    }
    if not found:
        raise ConfigError("no instances", hint="give --train or --test")
    return found


def count(corpora: dict[str, tuple[NeedleCorpus, int]]) -> dict[str, object]:
    """What the corpora are, in numbers; each of the first instances is proved on the way."""
    result: dict[str, object] = {}
    for name, (corpus, number) in corpora.items():
        seen = [corpus.instance(index) for index in range(min(number, _MOST_COUNTED))]
        proofs = [check(instance) for instance in seen]
        hops = Counter(instance.hops for instance in seen)
        result[name] = (
            f"{number} instances of {corpus.length} tokens; of the first {len(seen)}: "
            + ", ".join(f"{hops[k]} with {k} hops" for k in sorted(hops))
            + f"; {len(proofs)} proved; chance {seen[0].chance:.3f}"
        )
    sentences = next(iter(corpora.values()))[0].filler.sentences
    result["sentences of filler"] = len(sentences)
    return result


def show(instance: Instance) -> None:
    """Prints an instance with needle and bridges marked."""
    end = len(instance.prompt)
    text = instance.prompt + instance.completion
    title = f"instance {instance.index}, {instance.kind}, {len(instance.tokens)} tokens"
    marks = [*_marks(instance), (end, len(text), "answer")]
    _instances.show(title, _instances.marked(text, marks))


def draw(path: str, corpus: NeedleCorpus, number: int) -> None:
    """Draws where the statements of the first instances lie."""
    seen = [corpus.instance(index) for index in range(number)]
    strips.draw(
        path,
        [
            strips.Strip(
                f"{instance.index}, hops: {instance.hops}",
                len(instance.prompt),
                tuple(_marks(instance)),
                instance.answer,
            )
            for instance in seen
        ],
        ("needle", "bridge", "other"),
        title=f"{corpus.kind} needles, {corpus.length} tokens, {corpus.chains} chains",
        unit="characters of the prompt, the question at its end; to the right the answer",
    )


def _marks(instance: Instance) -> list[tuple[int, int, str]]:
    return [
        (s.begin, s.begin + len(s.text), "other" if s.chain else ("needle", "bridge")[s.level > 0])
        for s in instance.statements
    ]


def _write(options: argparse.Namespace, corpora: dict[str, tuple[NeedleCorpus, int]]) -> None:
    files = [_instances.Lines(name, range(number), _proved(corpus))
             for name, (corpus, number) in corpora.items()]  # fmt: skip
    request = {
        "format": "jpmhc-needle-1",
        "files": {
            name: {"instances": number, **corpus.options()}
            for name, (corpus, number) in corpora.items()
        },
    }
    with OutputFolder(options.output, request) as output:
        _instances.write_lines(output, files, workers=options.workers, quiet=options.quiet)
        output.write_json("manifest.json", request)
        output.write_card(_card(options, corpora))


def _proved(corpus: NeedleCorpus):
    def make(index: int) -> dict:
        instance = corpus.instance(index)
        check(instance)
        return instance.record()

    return make


def _card(options: argparse.Namespace, corpora: dict[str, tuple[NeedleCorpus, int]]) -> Card:
    corpus = next(iter(corpora.values()))[0]
    strict = "; pairs of names, wordings and filler differ between the splits"
    return Card(
        title="Bridged needle corpus",
        command_line=options.command_line,
        source=f"{corpus.filler.name} (SHA-256 {corpus.filler.sha256})",
        licence=options.licence,
        counts={name: number for name, (_, number) in corpora.items()},
        notes=(
            "every instance has exactly the tokens its file is named after",
            "every instance was proved: no word shared by question and needle, one answer, "
            "derivable from the text alone (controls: not derivable, or a shared word)",
            f"protocol: {options.protocol}{strict if options.protocol == 'strict' else ''}",
            f"chance without the bridge: 1 / {options.chains}",
            f"tokenizer: {corpus.tokenizer.name} (SHA-256 {corpus.tokenizer.fingerprint})",
            f"seed: {options.seed}",
        ),
    )
