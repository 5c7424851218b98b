# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scores of single predictions on ARC grids, and two baselines that know no rule.

The baselines give predictions in the form a model gives them, tokens [E, canvas * canvas], and
are judged by the same `score`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jpmhc.data.arc import FIRST_COLOUR, IGNORE, PAD, Examples, Task, decode_grid, encode_grid
from jpmhc.data.arc.tokens import grid_sizes
from jpmhc.errors import ShapeError

__all__ = ["Scores", "commonest_colour", "copy_input", "score"]


@dataclass(frozen=True)
class Scores:
    """How many were right, and of how many.

    Attributes:
        cells_right, cells: labelled cells, which are the colours and the EOS border.
        colours_right, colours: cells of the output grids alone, without the border.
        grids_right, grids: whole grids, right in size and in every cell.
    """

    cells_right: int
    cells: int
    colours_right: int
    colours: int
    grids_right: int
    grids: int

    @property
    def cell_accuracy(self) -> float:
        """The part of the labelled cells that is right; 0 if there is none."""
        return self.cells_right / max(self.cells, 1)

    @property
    def colour_accuracy(self) -> float:
        """The part of the cells of the output grids that is right; 0 if there is none."""
        return self.colours_right / max(self.colours, 1)

    @property
    def exact_accuracy(self) -> float:
        """The part of the grids that is right; 0 if there is none."""
        return self.grids_right / max(self.grids, 1)

    def as_dict(self) -> dict[str, float | int]:
        """The three accuracies and the number of exact grids, for metrics and summaries."""
        return {
            "cell_accuracy": self.cell_accuracy,
            "colour_accuracy": self.colour_accuracy,
            "exact_accuracy": self.exact_accuracy,
            "exact_grids": self.grids_right,
            "grids": self.grids,
        }


def score(predictions: np.ndarray, labels: np.ndarray, canvas: int) -> Scores:
    """Judge predicted tokens.

    Args:
        predictions: integers [E, canvas * canvas], such as the argmax of the logits.
        labels: integers [E, canvas * canvas] with IGNORE where nothing is asked, as in
            `Examples.labels`; rows where nothing at all is asked are left out.
        canvas: side of the canvas.

    Raises:
        ShapeError: the two do not have the same shape [E, canvas * canvas].
    """
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    for array in (predictions, labels):
        if array.shape != (len(labels), canvas * canvas):
            expected = [len(labels), canvas * canvas]
            raise ShapeError(
                "bad predictions or labels", expected=expected, given=list(array.shape)
            )
    right = predictions == labels
    labelled = labels != IGNORE
    colours = labels >= FIRST_COLOUR
    sizes, true_sizes = (
        np.stack(grid_sizes(tokens, canvas))
        for tokens in (predictions, np.where(labelled, labels, PAD))
    )
    # Of equal size, so that all cells of the grid are labelled with a colour.
    exact = (sizes == true_sizes).all(0) & ~(colours & ~right).any(1) & labelled.any(1)
    return Scores(
        cells_right=int((right & labelled).sum()),
        cells=int(labelled.sum()),
        colours_right=int((right & colours).sum()),
        colours=int(colours.sum()),
        grids_right=int(exact.sum()),
        grids=int(labelled.any(1).sum()),
    )


def copy_input(examples: Examples, canvas: int) -> np.ndarray:
    """Predict that nothing changes: the input, as tokens uint8 [E, canvas * canvas].

    Where the output has another size than the input every cell counts as wrong (all PAD, which
    is no label), even where the two overlap; `examples.inputs` itself is the prediction that
    gets the overlap counted.
    """
    same_size = [
        decode_grid(a, canvas).shape == decode_grid(b, canvas).shape
        for a, b in zip(examples.inputs, examples.outputs, strict=True)
    ]
    return np.where(np.array(same_size, dtype=bool)[:, None], examples.inputs, PAD)


def commonest_colour(examples: Examples, tasks: Sequence[Task], canvas: int) -> np.ndarray:
    """Predict one colour all over: that most frequent in the task's demonstration outputs.

    It is told the true size of the output, so that its EOS border is always right; of colours
    equally frequent the one with the lowest number is taken. Made for examples that are not
    augmented. The result is tokens uint8 [E, canvas * canvas].
    """
    favourites = [_commonest(task) for task in tasks]
    filled = [
        encode_grid(np.full_like(decode_grid(output, canvas), favourites[task]), canvas)
        for output, (task, _, _) in zip(examples.outputs, examples.origins, strict=True)
    ]
    return np.stack(filled)


def _commonest(task: Task) -> int:
    cells = np.concatenate([pair.output.reshape(-1) for pair in task.demonstrations])
    return int(np.argmax(np.bincount(cells)))
