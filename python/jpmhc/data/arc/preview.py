# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Canvases of tokens to look at: coloured cells in a terminal, or a PNG file."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from jpmhc.data.arc.tokens import EOS, FIRST_COLOUR, IGNORE, PAD, VOCABULARY_SIZE
from jpmhc.errors import OutputError
from jpmhc.files import replacing
from jpmhc.plotting import COLOURS

__all__ = ["picture", "text", "write_png"]

_CELL, _GAP = 9, 18  # pixels of a cell, its line included, and between canvases
_PAD_COLOUR, _EOS_COLOUR, _LINE, _PAPER = "#f4f4f4", "#c9b8a8", "#8a8a8a", "#ffffff"
_MOST_ACROSS = 8


def _rgb(colour: str) -> list[int]:
    return [int(colour[k : k + 2], 16) for k in (1, 3, 5)]


_PALETTE = np.zeros((VOCABULARY_SIZE, 3), dtype=np.uint8)
_PALETTE[PAD], _PALETTE[EOS] = _rgb(_PAD_COLOUR), _rgb(_EOS_COLOUR)
_PALETTE[FIRST_COLOUR:] = [_rgb(colour) for colour in COLOURS]

_LETTERS = np.array(list(".|0123456789"))


def text(canvases: Sequence[np.ndarray], *, coloured: bool) -> str:
    """Canvases side by side, each integers [rows, columns] of tokens or labels.

    Coloured with the escape sequences of a terminal of 24-bit colour, or as letters: digits for
    colours, `|` for EOS, `.` for PAD.
    """
    canvases = [_tokens(canvas) for canvas in canvases]
    lines = []
    for row in range(max(len(canvas) for canvas in canvases)):
        parts = [_line(canvas, row, coloured) for canvas in canvases]
        lines.append("   ".join(parts).rstrip())
    return "\n".join(lines)


def _tokens(canvas: np.ndarray) -> np.ndarray:
    return np.where(canvas == IGNORE, PAD, canvas)


def _line(canvas: np.ndarray, row: int, coloured: bool) -> str:
    if row >= len(canvas):
        return "  " * canvas.shape[1]
    if not coloured:
        return " ".join(_LETTERS[canvas[row]])
    cells = ("\x1b[48;2;{};{};{}m  ".format(*_PALETTE[token]) for token in canvas[row])
    return "".join(cells) + "\x1b[0m"


def picture(examples: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Examples (tokens, labels), squares of equal size, as an image uint8 [height, width, 3].

    Each example is a column, the input above; after 8 a new row of columns begins.
    """
    columns = [np.vstack([_drawn(part) for part in example]) for example in examples]
    blank = np.broadcast_to(np.uint8(_rgb(_PAPER)), columns[0].shape)
    across = min(len(columns), _MOST_ACROSS)
    columns += [blank] * (-len(columns) % across)
    rows = [np.hstack(columns[k : k + across]) for k in range(0, len(columns), across)]
    return np.vstack(rows)


def _drawn(canvas: np.ndarray) -> np.ndarray:
    cells = _PALETTE[_tokens(canvas)].repeat(_CELL, axis=0).repeat(_CELL, axis=1)
    cells[::_CELL] = cells[:, ::_CELL] = _rgb(_LINE)
    framed = np.pad(cells, ((0, 1), (0, 1), (0, 0)))
    framed[-1] = framed[:, -1] = _rgb(_LINE)
    margin = ((_GAP // 2, _GAP // 2), (_GAP // 2, _GAP // 2), (0, 0))
    return np.pad(framed, margin, constant_values=255)


def write_png(path: str | os.PathLike, image: np.ndarray) -> None:
    """Writes an image uint8 [height, width, 3]; equal images make equal files.

    Raises:
        OutputError: the file cannot be written.
    """
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), dtype=np.uint8)  # each row begins with its filter, 0
    rows[:, 1:] = image.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits of red, green, blue
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    try:
        with replacing(path) as file:
            file.write(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts))
    except OSError as error:
        given = error.strerror or error
        raise OutputError("cannot write the picture", given=given, where=path) from error
