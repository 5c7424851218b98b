# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every option of data and scores against values of every kind: a bad one is a typed error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from corpora_fixtures import ALICE

from jpmhc.data import arc, packing, ruler, text
from jpmhc.data.filler import Filler
from jpmhc.data.needle import NeedleCorpus
from jpmhc.data.tokenizers import ByteTokenizer
from jpmhc.errors import ConfigError, JpmhcError
from jpmhc.eval import arc_votes, models, pass_at_k, perplexity, statistics, tables

FILLER, BYTES = Filler.from_file(ALICE), ByteTokenizer()
TASK = arc.Task.from_grids("t", [([[0, 1]], [[1]]), ([[2]], [[3]])], [([[4]], [[5]])])
SETS = arc.TaskSets((), (TASK,))
PUZZLES = arc.ArcPuzzles(SETS, variants=3, canvas=3)
DOCUMENTS = packing.Documents.from_arrays([np.arange(10)] * 9)
DATASET = packing.PackedDataset(DOCUMENTS, length=5)
CORPUS = NeedleCorpus(FILLER, BYTES, length=1500, hops=1)
VT = ruler.RulerTask("vt", BYTES, length=3000)
UNIFORM = models.LogitsModel(lambda tokens: np.zeros((*tokens.shape, 300)))
VALUES = [0.5, 0.25, 0.75]

# What takes options, with good ones of which one at a time is made another.
TAKERS = {
    "puzzles": (lambda **o: arc.ArcPuzzles(SETS, **o), {"variants": 3, "canvas": 4, "seed": 1}),
    "augmentation": (lambda **o: arc.Augmentation(**o), {"dihedral": 1}),
    "puzzle id": (lambda **o: PUZZLES.puzzle_id(**o), {"task": 0, "variant": 1}),
    "materialise": (lambda **o: PUZZLES.training.materialise(**o), {"variants": 1}),
    "training": (
        lambda **o: next(iter(arc.TrainingBatches(PUZZLES.training, **o))),
        {"batch_size": 2, "seed": 1, "epochs": 2, "rank": 0, "ranks": 1, "workers": 0},
    ),
    "training batch": (
        lambda **o: arc.TrainingBatches(PUZZLES.training, 1).batch(**o),
        {"iteration": 0, "batch": 1},
    ),
    "training step": (
        lambda **o: arc.TrainingBatches(PUZZLES.training, 1).at_step(**o), {"step": 3}),
    "state": (
        lambda **o: arc.TrainingBatches(PUZZLES.training, 1).load_state(
            {**arc.TrainingBatches(PUZZLES.training, 1).state(), **o}),
        {"iteration": 0, "batch": 1, "seed": 0},
    ),
    "evaluation": (
        lambda **o: list(arc.EvaluationBatches(PUZZLES.evaluation, **o)),
        {"batch_size": 2, "rank": 0, "ranks": 1, "workers": 0},
    ),
    "judge": (lambda **o: arc_votes.Judge([TASK], ["<blank>"], **o), {"canvas": 3}),
    "needle": (
        lambda **o: NeedleCorpus(FILLER, BYTES, **o),
        {"length": 1500, "hops": 1, "chains": 2, "kind": "bridged", "split": "test",
         "protocol": "paper", "seed": 1, "depth": 0.5},
    ),
    "needle instance": (lambda **o: CORPUS.instance(**o), {"index": 1}),
    "needle batch": (lambda **o: CORPUS.batch(**o), {"step": 0, "batch_size": 1}),
    "ruler": (
        lambda **o: ruler.RulerTask(tokenizer=BYTES, **o),
        {"name": "vt", "length": 3000, "template": "{task}", "split": "test", "seed": 1},
    ),
    "ruler instance": (lambda **o: VT.instance(**o), {"index": 1}),
    "ruler indices": (lambda **o: VT.indices(**o), {"count": 1, "first": 0}),
    "ruler batch": (lambda **o: VT.batch(**o), {"step": 0, "batch_size": 1}),
    "packed": (
        lambda **o: packing.PackedDataset(DOCUMENTS, **o),
        {"length": 5, "mode": "whole", "seed": 1, "padding": 0},
    ),
    "packed batch": (
        lambda epoch, step, **o: DATASET.batch(packing.Position(epoch, step), **o),
        {"epoch": 0, "step": 0, "batch_size": 1, "shard": 0, "shards": 1},
    ),
    "packed batches": (
        lambda **o: next(DATASET.batches(**o)), {"batch_size": 2, "workers": 0, "shards": 1}),
    "packed row": (lambda **o: DATASET.row(**o), {"epoch": 0, "index": 0}),
    "text": (
        lambda **o: text.TextDataset(np.zeros(99, np.uint8), **o), {"length": 5, "seed": 1}),
    "text batch": (
        lambda **o: text.TextDataset(np.zeros(99, np.uint8), length=5).batch(**o),
        {"step": 0, "batch_size": 2},
    ),
    "bootstrap": (
        lambda **o: statistics.bootstrap(VALUES, **o),
        {"confidence": 0.9, "method": "bca", "resamples": 100, "seed": 1},
    ),
    "permutation": (
        lambda **o: statistics.permutation_test(VALUES, VALUES[::-1], **o),
        {"resamples": 100, "seed": 1},
    ),
    "seeds": (lambda **o: statistics.paired_seeds(**o), {"count": 2, "base": 1}),
    "table": (
        lambda **o: tables.ResultTable("t", {"a": {"b": VALUES}}, **o),
        {"style": "interval", "digits": 2, "confidence": 0.9},
    ),
    "pass@k": (lambda **o: pass_at_k.pass_at_k(**o), {"n": 5, "right": 2, "k": 3}),
    "perplexity": (
        lambda **o: perplexity.perplexity(UNIFORM, np.arange(30), **o),
        {"length": 8, "stride": 4, "prefix": 256},
    ),
}  # fmt: skip
WRONG = [None, "x", "", b"x", 1.5, math.nan, math.inf, -math.inf, -1, 0, 2**63, 2**64, 10**30,
         [], {}, (), True, object(), np.array([1, 2]), np.float64(0.5)]  # fmt: skip


@pytest.mark.parametrize("taker", TAKERS)
def test_options_of_every_kind(taker):
    take, good = TAKERS[taker]
    take(**good)
    rejected = 0
    for name in good:
        for value in WRONG:
            try:
                take(**{**good, name: value})
            except JpmhcError as error:
                rejected += 1
                assert len(str(error)) < 500
    assert rejected >= len(good) * len(WRONG) / 2


@pytest.mark.parametrize("values", [["x"], [[1], [1, 2]], [None], [1j], [10**400], {}, 3, [], "ab"])
def test_values_that_are_no_numbers(values):
    with pytest.raises(JpmhcError):
        statistics.bootstrap(values)
    with pytest.raises(JpmhcError):
        statistics.sign_test(values, [1.0])


def test_seeds_have_64_bits():
    for seed in (-1, 2**64, 10**30):
        for make in (
            lambda s: arc.ArcPuzzles(SETS, variants=1, canvas=3, seed=s),
            lambda s: NeedleCorpus(FILLER, BYTES, length=1500, seed=s),
            lambda s: ruler.RulerTask("vt", BYTES, length=3000, seed=s),
            lambda s: packing.PackedDataset(DOCUMENTS, length=5, seed=s, shuffle=False),
            lambda s: statistics.bootstrap(VALUES, seed=s),
        ):
            with pytest.raises(ConfigError, match=rf"seed out of range: .* got {seed}"):
                make(seed)
