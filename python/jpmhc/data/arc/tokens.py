# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Grids as tokens on a square canvas, and back.

* Token 0 is PAD, 1 is EOS, 2..11 are the colours 0..9 (`VOCABULARY_SIZE` = 12).
* A grid lies at an offset on a `canvas` x `canvas` square, read row by row.
* Where the canvas leaves room, the row just below the grid and the column just right of it hold
  EOS, as long as the grid is wide or high; the corner where they would meet stays PAD.
* Labels are the tokens of the output grid, with `IGNORE` (-100) where that is PAD.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jpmhc.data.checks import whole
from jpmhc.errors import DataError, ShapeError

PAD, EOS, FIRST_COLOUR = 0, 1, 2
NUM_COLOURS = 10
VOCABULARY_SIZE = FIRST_COLOUR + NUM_COLOURS
IGNORE = -100
LARGEST_GRID = 30  # no side of an ARC grid is longer
LARGEST_CANVAS = 256  # of which no task needs a ninth; all its grids are held in memory


def encode_grid(grid: np.ndarray, canvas: int, offset: tuple[int, int] = (0, 0)) -> np.ndarray:
    """The tokens of a grid, uint8 [canvas * canvas]; without an offset `decode_grid` inverts it.

    Raises:
        DataError: the grid does not fit on the canvas there.
    """
    (rows, columns), (top, left) = grid.shape, offset
    if min(offset) < 0 or max(top + rows, left + columns) > canvas:
        expected = f"at most {canvas} rows and columns"
        given = f"{rows} x {columns}" + (f" at {top}, {left}" if any(offset) else "")
        raise DataError("grid larger than the canvas", expected=expected, given=given)
    tokens = np.full((canvas, canvas), PAD, dtype=np.uint8)
    bottom, right = top + rows, left + columns
    tokens[top:bottom, left:right] = grid + FIRST_COLOUR
    tokens[bottom : bottom + 1, left:right] = EOS  # empty slices where the canvas ends
    tokens[top:bottom, right : right + 1] = EOS
    return tokens.reshape(-1)


def decode_grid(tokens: np.ndarray, canvas: int) -> np.ndarray:
    """The largest rectangle of colours from the upper left corner, uint8 [rows, columns].

    Any tokens are accepted, such as a model's predictions: all that lies outside the rectangle
    is ignored. Of rectangles of equal area the one with fewer rows is taken. Where the corner
    itself holds no colour the grid is empty (0 x 0).

    Raises:
        ShapeError: there are not canvas * canvas tokens.
    """
    tokens = np.asarray(tokens)
    if tokens.size != canvas * canvas:
        raise ShapeError("bad tokens", expected=f"{canvas * canvas} tokens", given=tokens.size)
    (rows,), (columns,) = (sides.tolist() for sides in grid_sizes(tokens.reshape(1, -1), canvas))
    square = tokens.reshape(canvas, canvas)
    return (square[:rows, :columns] - FIRST_COLOUR).astype(np.uint8)


def grid_sizes(tokens: np.ndarray, canvas: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns, int64 [E] each, of the grids that `decode_grid` finds in [E, canvas²]."""
    square = tokens.reshape(len(tokens), canvas, canvas)
    is_colour = (square >= FIRST_COLOUR) & (square < VOCABULARY_SIZE)
    # Colours at the start of each row, and what that leaves to a rectangle down to this row.
    run = np.logical_and.accumulate(is_colour, axis=2).sum(axis=2)
    widths = np.minimum.accumulate(run, axis=1)
    rows = np.argmax(widths * np.arange(1, canvas + 1), axis=1) + 1
    columns = np.take_along_axis(widths, rows[:, None] - 1, axis=1)[:, 0]
    return np.where(columns == 0, 0, rows), columns


def as_labels(outputs: np.ndarray) -> np.ndarray:
    """int32 labels of the tokens of output grids: IGNORE for PAD."""
    return np.where(outputs == PAD, np.int32(IGNORE), outputs.astype(np.int32))


# For each symmetry: whether rows and columns change places, and whether the rows and the columns
# of the result run against those of the source.
_SWAPS = np.array([0, 1, 0, 1, 0, 0, 1, 1], dtype=bool)
_ROWS_BACK = np.array([0, 1, 1, 0, 0, 1, 0, 1], dtype=bool)
_COLUMNS_BACK = np.array([0, 0, 1, 1, 1, 0, 0, 1], dtype=bool)


class GridStore:
    """Grids from which canvases of turned, recoloured and shifted grids are gathered, many at once.

    A grid is kept with two lines behind its square: one that holds EOS beside the grid, one of
    PAD. A row or column of the canvas is mapped to a row or column of the grid or to one of
    these lines, so that a single look-up gives colours, border and padding.

    Args:
        grids: uint8 matrices; None for one that is not known and is all PAD.
        canvas: S, the side of the canvas.

    Raises:
        DataError: a grid is larger than the canvas.
        ConfigError: the canvas is not in 1..256.
    """

    def __init__(self, grids: Sequence[np.ndarray | None], canvas: int) -> None:
        self.canvas = canvas = whole("canvas", canvas, 1, LARGEST_CANVAS)
        shapes = [(0, 0) if grid is None else grid.shape for grid in grids]
        self.shapes = np.array(shapes, dtype=np.int64).reshape(-1, 2)
        side = canvas + 2
        tokens = np.full((len(grids), side, side), PAD, dtype=np.uint8)
        for square, grid in zip(tokens, grids, strict=True):
            if grid is not None:
                small = encode_grid(grid, canvas).reshape(canvas, canvas)
                square[:canvas, :canvas] = np.where(small == EOS, PAD, small)
                square[canvas, : grid.shape[1]] = EOS
                square[: grid.shape[0], canvas] = EOS
        self._tokens = tokens.reshape(-1)

    def turned_shapes(self, which: np.ndarray, dihedral: np.ndarray) -> np.ndarray:
        """int64 [B, 2]: rows and columns of grids after a symmetry."""
        shapes = self.shapes[which]
        return np.where(_SWAPS[dihedral][:, None], shapes[:, ::-1], shapes)

    def gather(
        self, which: np.ndarray, dihedral: np.ndarray, offsets: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """Canvases.

        Args:
            which: int [B], indices of grids.
            dihedral: int [B], symmetries 0..7 as in `Augmentation`.
            offsets: int [B, 2], where the upper left corner of the turned grid lies.
            values: [B, 12], what is put for each token of the grid before it was recoloured.

        Returns:
            [B, S * S], of the element type of `values`.
        """
        shapes = self.turned_shapes(which, dihedral)
        side, swaps = self.canvas + 2, _SWAPS[dihedral]
        rows = self._lines(shapes[:, 0], offsets[:, 0], _ROWS_BACK[dihedral])
        columns = self._lines(shapes[:, 1], offsets[:, 1], _COLUMNS_BACK[dihedral])
        rows *= np.where(swaps, 1, side)[:, None]
        columns *= np.where(swaps, side, 1)[:, None]
        rows += which.astype(np.int64)[:, None] * side**2
        tokens = self._tokens.take(rows[:, :, None] + columns[:, None, :])
        places = tokens + (np.arange(len(which)) * VOCABULARY_SIZE)[:, None, None]
        return values.reshape(-1).take(places).reshape(len(which), self.canvas**2)

    def _lines(self, length: np.ndarray, offset: np.ndarray, back: np.ndarray) -> np.ndarray:
        """int64 [B, S]: the line of the store for each line of the canvas."""
        length = length[:, None]
        line = np.arange(self.canvas) - offset[:, None]
        turned = np.where(back[:, None], length - 1 - line, line)
        turned[line == length] = self.canvas
        turned[(line < 0) | (line > length)] = self.canvas + 1
        return turned
