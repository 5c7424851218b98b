# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What surrounds a training step: learning rate, progress, metrics, summary, Ctrl-C."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TextIO

import numpy as np

from jpmhc.errors import ConfigError, DataError, OutputError, unknown_name
from jpmhc.files import replacing
from jpmhc.interrupts import GracefulInterrupt

__all__ = [
    "GracefulInterrupt",
    "MetricsWriter",
    "Progress",
    "Schedule",
    "read_metrics",
    "write_summary",
]

METRICS_FORMAT, METRICS_VERSION = "jpmhc-metrics", 1
SUMMARY_FORMAT, SUMMARY_VERSION = "jpmhc-summary", 1


# Learning rate.


@dataclass(frozen=True)
class Schedule:
    """The learning rate of each step: a linear warm-up to the peak, then a decay.

    Attributes:
        peak: the largest rate, finite and not negative.
        warmup: steps of warm-up; step s of them has peak * (s + 1) / warmup.
        total: steps of the whole run; needed for a decay.
        decay: "constant", "cosine" or "step".
        floor: the part of the peak that a cosine ends with, 0..1.
        milestones: for "step", pairs (part of `total`, part of the peak from there on), the
            first rising; the default is that of JPmHC, table 12: 0.316 of the peak after 80 %
            of the steps and 0.1 after 90 %.

    Raises:
        ConfigError: an unknown decay (with the nearest name) or a number out of range.
    """

    peak: float
    warmup: int = 0
    total: int | None = None
    decay: str = "constant"
    floor: float = 0.0
    milestones: tuple[tuple[float, float], ...] = ((0.8, 0.316), (0.9, 0.1))

    def __post_init__(self) -> None:
        if self.decay not in _DECAYS:
            raise unknown_name("decay", self.decay, _DECAYS)
        if not (math.isfinite(self.peak) and self.peak >= 0):
            expected = "a finite number, at least 0"
            raise ConfigError("bad learning rate", expected=expected, given=self.peak)
        if self.warmup < 0:
            raise ConfigError("bad warmup", expected="at least 0", given=self.warmup)
        if self.decay != "constant" and (self.total is None or self.total <= self.warmup):
            expected = f"more than the {self.warmup} steps of warm-up"
            raise ConfigError("bad total", expected=expected, given=str(self.total))
        if not 0 <= self.floor <= 1:
            raise ConfigError("bad floor", expected="0..1", given=self.floor)
        starts = [start for start, _ in self.milestones]
        if starts != sorted(starts) or not all(0 <= f <= 1 for m in self.milestones for f in m):
            expected = "parts 0..1 of the steps, rising, and parts 0..1 of the peak"
            raise ConfigError("bad milestones", expected=expected, given=self.milestones)

    def __call__(self, step: int) -> float:
        """The rate of a step, counted from 0; after `total` it stays as it is there."""
        if step < 0:
            raise ConfigError("bad step", expected="at least 0", given=step)
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        return self.peak * _DECAYS[self.decay](self, step)

    def _constant(self, step: int) -> float:
        return 1.0

    def _cosine(self, step: int) -> float:
        progress = min((step - self.warmup) / (self.total - self.warmup), 1.0)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))

    def _step(self, step: int) -> float:
        reached = [factor for start, factor in self.milestones if step >= start * self.total]
        return reached[-1] if reached else 1.0


_DECAYS: dict[str, Callable[[Schedule, int], float]] = {
    "constant": Schedule._constant,
    "cosine": Schedule._cosine,
    "step": Schedule._step,
}


# Progress.


class Progress:
    """A line that says how far a run is: on a terminal a bar, elsewhere now and then a line.

    Args:
        total: steps of the run, at least 1.
        start: steps already done, when a run is resumed.
        tokens_per_step: for the speed; None to leave it out.
        stream: where to write; standard error if None.
        interval: seconds between two lines; by default 0.1 on a terminal and 10 elsewhere.
        clock: seconds that never go back; for tests.

    Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        total: int,
        *,
        start: int = 0,
        tokens_per_step: int | None = None,
        stream: TextIO | None = None,
        interval: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if total < 1:
            raise ConfigError("bad total", expected="at least 1 step", given=total)
        self._total = total
        self._start = self._step = start
        self._tokens_per_step = tokens_per_step
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        default = 0.1 if self._is_terminal else 10.0
        self._interval = default if interval is None else interval
        self._clock = clock
        self._began = clock()
        self._shown_at: float | None = None
        self._shown_step: int | None = None
        self._values: dict[str, float] = {}

    def update(self, step: int, **values: float) -> None:
        """Say that `step` steps are done, with values to show such as loss=1.5."""
        self._step = step
        self._values.update(values)
        now = self._clock()
        due = self._shown_at is None or now - self._shown_at >= self._interval
        if due or step >= self._total:
            self._show(now)

    def log(self, message: str) -> None:
        """Write a line of its own, above the bar."""
        if self._is_terminal:
            self._stream.write("\r\x1b[K")
        self._stream.write(message + "\n")
        if self._is_terminal and self._shown_at is not None:
            self._show(self._clock())
        self._stream.flush()

    def close(self) -> None:
        """Show the last state, and end the line."""
        if self._shown_step != self._step:
            self._show(self._clock())
        if self._is_terminal and self._shown_at is not None:
            self._stream.write("\n")
            self._stream.flush()
        self._shown_at = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def tokens_per_second(self) -> float | None:
        """Mean speed so far; None before the first step or without `tokens_per_step`."""
        elapsed = self._clock() - self._began
        done = self._step - self._start
        if not (self._tokens_per_step and done > 0 and elapsed > 0):
            return None
        return done * self._tokens_per_step / elapsed

    def _show(self, now: float) -> None:
        self._shown_at, self._shown_step = now, self._step
        text = "  ".join(self._texts(now))
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns - 1
            room = columns - len(text) - 4
            bar = f"[{self._bar(min(room, 30))}]  " if room >= 5 else ""
            self._stream.write("\r" + (bar + text)[:columns] + "\x1b[K")
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def _bar(self, width: int) -> str:
        filled = width * min(self._step, self._total) // self._total
        return "#" * filled + "." * (width - filled)

    def _texts(self, now: float) -> list[str]:
        texts = [f"{self._step}/{self._total}"]
        texts += [f"{name} {value:.4g}" for name, value in self._values.items()]
        speed = self.tokens_per_second
        if speed is not None:
            texts.append(f"{_short(speed)} tokens/s")
        done, elapsed = self._step - self._start, now - self._began
        if self._step >= self._total:
            texts.append(f"took {_duration(elapsed)}")
        elif done > 0:
            texts.append(f"{_duration(elapsed / done * (self._total - self._step))} left")
        return texts


def _short(number: float) -> str:
    """Three digits and a unit: 950, 12.3k, 4.56M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _duration(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any: 1:05, 2:00:07."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# Metrics and summary.


def _json_value(value: object) -> object:
    """NumPy's values as Python's, and numbers JSON does not know as "nan", "inf" and "-inf"."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(part) for part in value]
    return value


def _python_value(value: object) -> object:
    """The inverse of `_json_value`, but for NumPy's types."""
    if isinstance(value, dict):
        return {name: _python_value(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_python_value(part) for part in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def _dumps(values: Mapping, where: object, indent: int | None = None) -> str:
    try:
        return json.dumps(_json_value(values), allow_nan=False, indent=indent)
    except (TypeError, ValueError, RecursionError) as error:
        raise OutputError("cannot be written as JSON", given=error, where=where) from error


class MetricsWriter:
    """Appends records to a file of JSON lines, each whole in one write.

    The first line says the format and its version; each other line is an object with "step",
    the steps done. Numbers that JSON does not know are the strings "nan", "inf" and "-inf".

    Args:
        path: the file; its folder must exist.
        resume_at: None begins a new file, replacing an old one. A number of steps done, as a
            checkpoint says, goes on with an old file: records of later steps, which are about
            to be made again, and a last line cut off by a crash are dropped. A file that does
            not exist is begun.

    Raises:
        OutputError: the file cannot be written.
        DataError: the file to go on with is not one of metrics of this version.
    """

    def __init__(self, path: str | os.PathLike, *, resume_at: int | None = None) -> None:
        self._path = path
        self._descriptor: int | None = None
        kept = []
        if resume_at is not None and os.path.exists(path):
            kept = [record for record in read_metrics(path) if record["step"] <= resume_at]
        header = {"format": METRICS_FORMAT, "version": METRICS_VERSION}
        lines = "".join(_dumps(record, path) + "\n" for record in (header, *kept))
        try:
            with replacing(path) as file:
                file.write(lines.encode())
            flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(path, flags)
        except OSError as error:
            raise self._error(error) from error

    def write(self, step: int, **values: object) -> None:
        """Append a record.

        Raises:
            OutputError: a value is nothing JSON knows, the disk is full, or it was closed.
        """
        if self._descriptor is None:
            raise OutputError("the metrics are closed", where=self._path)
        line = (_dumps({"step": step, **values}, self._path) + "\n").encode()
        size = os.fstat(self._descriptor).st_size
        try:
            # One call, so that other processes read whole lines.
            written = os.write(self._descriptor, line)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            os.ftruncate(self._descriptor, size)  # no torn line for the next one to go on
            raise self._error(error) from error

    def close(self) -> None:
        """Close the file; more than once does no harm."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> MetricsWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _error(self, error: OSError) -> OutputError:
        given = error.strerror or error
        return OutputError("cannot write metrics", given=given, where=self._path)


def read_metrics(path: str | os.PathLike) -> list[dict]:
    """The records of a file of metrics, without its first line and without a torn last one.

    Raises:
        DataError: the file cannot be read, is of another format or version, or has a line in
            its middle that is no record (with the number of the line).
    """
    try:
        with open(path, "rb") as file:
            *lines, _ = file.read().split(b"\n")  # what follows the last newline is torn
    except OSError as error:
        message = "cannot read metrics"
        raise DataError(message, given=error.strerror or error, where=path) from error
    objects = [_parse_line(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]
    header = objects[0] if objects else {}
    if header.get("format") != METRICS_FORMAT:
        expected = f"format {METRICS_FORMAT!r}"
        given = repr(header.get("format"))
        raise DataError("not a file of metrics", expected=expected, given=given, where=path)
    if header.get("version") != METRICS_VERSION:
        expected, given = METRICS_VERSION, header.get("version")
        raise DataError("unknown format version", expected=expected, given=given, where=path)
    for number, record in enumerate(objects[1:], 2):
        if not isinstance(record.get("step"), int):
            raise DataError("a record without a step", where=f"{path}:{number}")
    return objects[1:]


def _parse_line(line: bytes, where: str) -> dict:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise DataError("not a line of metrics", given=error, where=where) from error
    if not isinstance(record, dict):
        raise DataError("not a line of metrics", expected="an object", given=record, where=where)
    return _python_value(record)


def write_summary(path: str | os.PathLike, **values: object) -> None:
    """Write values as a JSON object with format and version, replacing the file as a whole.

    Raises:
        OutputError: a value is nothing JSON knows, or the file cannot be written.
    """
    content = {"format": SUMMARY_FORMAT, "version": SUMMARY_VERSION, **values}
    text = _dumps(content, path, indent=2) + "\n"
    try:
        with replacing(path) as file:
            file.write(text.encode())
    except OSError as error:
        given = error.strerror or error
        raise OutputError("cannot write the summary", given=given, where=path) from error
