# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A page about a training run, made of its metrics: `jpmhc report RUN`.

Records may hold, besides "step": "loss" and any other numbers (curves by name); "gradient_norms",
an object of numbers by layer (`TrainStep.gradient_norms`); "kernel_seconds", an object of seconds
by kernel (`jpmhc.profiling`), of which the last one is shown.
"""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jpmhc._libraries import missing
from jpmhc.errors import ConfigError, DataError, OutputError, shown
from jpmhc.files import replacing
from jpmhc.training import read_metrics

__all__ = ["write", "write_tensorboard"]

_NORMS, _KERNELS = "gradient_norms", "kernel_seconds"
_MOST_KERNELS, _MOST_LAYERS = 15, 12


def write(metrics: str | os.PathLike, output: str | os.PathLike) -> None:
    """Draws a run.

    Args:
        metrics: a file of `jpmhc.training.MetricsWriter`.
        output: a `.png`, or an `.html` page that needs no other file.

    Raises:
        DataError: the metrics cannot be read or have no record.
        ConfigError: the output's suffix is neither.
        MissingDependencyError: matplotlib is not installed.
        OutputError: the output cannot be written.
    """
    suffix = Path(output).suffix.lower()
    if suffix not in (".html", ".png"):
        raise ConfigError("report", expected="a .html or .png file", given=shown(str(output)))
    records = read_metrics(metrics)
    if not records:
        raise DataError("metrics without a record", where=metrics)
    picture = _draw(records, str(metrics))
    content = picture if suffix == ".png" else _page(records, str(metrics), picture).encode()
    try:
        with replacing(output) as file:
            file.write(content)
    except OSError as error:
        given = error.strerror or error
        raise OutputError("cannot write the report", given=given, where=output) from error


def write_tensorboard(metrics: str | os.PathLike, folder: str | os.PathLike) -> Path:
    """Writes the numbers of a run as TensorBoard events; returns the folder.

    Raises:
        DataError: the metrics cannot be read.
        MissingDependencyError: tensorboard is not installed.
    """
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        raise missing("tensorboard", "a file of TensorBoard events") from error
    records = read_metrics(metrics)
    writer = EventFileWriter(str(folder))
    for record in records:
        values = [Summary.Value(tag=tag, simple_value=v) for tag, v in _numbers(record)]
        writer.add_event(Event(step=record["step"], summary=Summary(value=values)))
    writer.close()
    return Path(folder)


def _numbers(record: Mapping) -> list[tuple[str, float]]:
    """Every number of a record by its name; those of an object as "object/name"."""
    pairs = []
    for name, value in record.items():
        if name == "step":
            continue
        inner = value.items() if isinstance(value, Mapping) else [(None, value)]
        for part, number in inner:
            if isinstance(number, (int, float)) and not isinstance(number, bool):
                pairs.append((name if part is None else f"{name}/{part}", float(number)))
    return pairs


def _curves(records: Sequence[Mapping]) -> dict[str, tuple[list[int], list[float]]]:
    curves: dict[str, tuple[list[int], list[float]]] = {}
    for record in records:
        for name, value in _numbers(record):
            steps, values = curves.setdefault(name, ([], []))
            steps.append(record["step"])
            values.append(value)
    return curves


def _draw(records: Sequence[Mapping], title: str) -> bytes:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing("matplotlib", "the report") from error
    curves = _curves(records)
    panels = [_draw_losses, _draw_shares]
    if any(name.startswith(f"{_NORMS}/") for name in curves):
        panels.append(_draw_norms)
    if any(_KERNELS in record for record in records):
        panels.append(lambda axes, _: _draw_kernels(axes, records))
    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(12, 4.2 * rows), dpi=110, layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots(rows, 2, squeeze=False).ravel()
    for panel, place in zip(panels, axes, strict=False):
        panel(place, curves)
    for place in axes[len(panels) :]:
        place.set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _dress(axes, heading: str) -> None:
    axes.set_title(heading, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("step")


def _lines(axes, curves: Mapping, names: Sequence[str], cut: str = "") -> None:
    for name in names:
        steps, values = curves[name]
        marker = "o" if len(steps) < 40 else None
        label = name.removeprefix(cut)
        axes.plot(steps, values, linewidth=1.5, marker=marker, markersize=3, label=label)
    if names:
        axes.legend(frameon=False, fontsize=8)


def _draw_losses(axes, curves: Mapping) -> None:
    _lines(axes, curves, [name for name in curves if "loss" in name.lower()])
    _dress(axes, "Loss")


def _draw_shares(axes, curves: Mapping) -> None:
    names = [name for name in curves if "accuracy" in name.lower()]
    _lines(axes, curves, names)
    axes.set_ylim(0, 1)
    _dress(axes, "Accuracy" if names else "Accuracy (none recorded)")


def _draw_norms(axes, curves: Mapping) -> None:
    prefix = f"{_NORMS}/"
    names = [name for name in curves if name.startswith(prefix)]
    shown = sorted(names, key=lambda name: -float(np.mean(curves[name][1])))[:_MOST_LAYERS]
    _lines(axes, curves, [name for name in names if name in shown], prefix)
    axes.set_yscale("log")
    more = f", the largest {_MOST_LAYERS} of {len(names)}" if len(names) > _MOST_LAYERS else ""
    _dress(axes, f"Gradient norms by layer{more}")


def _kernel_rows(records: Sequence[Mapping]) -> list[tuple[str, float]]:
    last = next((r[_KERNELS] for r in reversed(records) if _KERNELS in r), {})
    return sorted(last.items(), key=lambda item: -item[1])


def _draw_kernels(axes, records: Sequence[Mapping]) -> None:
    rows = _kernel_rows(records)[:_MOST_KERNELS]
    total = sum(seconds for _, seconds in _kernel_rows(records)) or 1.0
    axes.barh([name[:40] for name, _ in rows], [100 * s / total for _, s in rows], color="#1f5fa8")
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=7)
    _dress(axes, "Time by kernel")
    axes.set_xlabel("% of a step")


def _page(records: Sequence[Mapping], title: str, picture: bytes) -> str:
    numbers = {
        name: values[-1] for name, (_, values) in _curves(records).items() if "/" not in name
    }
    last = [("step", records[-1]["step"]), *numbers.items()]
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{value:.6g}</td></tr>" for name, value in last
    )
    kernels = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{seconds * 1e3:.3f} ms</td></tr>"
        for name, seconds in _kernel_rows(records)
    )
    image = base64.b64encode(picture).decode()
    heading = html.escape(title)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{heading}</title>'
        "<style>body{font:15px sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}"
        "img{width:100%}td{padding:.1rem .8rem .1rem 0;vertical-align:top}"
        "td+td{text-align:right}</style>"
        f'<h1>Training run</h1><p>{heading}</p><img alt="curves of the run" '
        f'src="data:image/png;base64,{image}"><h2>Last values</h2><table>{rows}</table>'
        + (f"<h2>Time by kernel</h2><table>{kernels}</table>" if kernels else "")
        + "</html>\n"
    )
