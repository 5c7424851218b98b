# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The format of conformance cases.

A file is ``{"format": 1, "cases": [case…]}``. A case has `id`, `op`, `attrs`, `inputs`, `outputs`,
`scale` and `tolerance`, where differentiable also `cotangents` and `grads`, and `dtypes` where it
is meant for some storage types only. A tensor is ``{"type": "float"|"int", "shape", "data"}``,
row-major, with "inf", "-inf" and "nan" as strings.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jpmhc.errors import DataError, shown

FORMAT = 1


@dataclass(frozen=True)
class Tensor:
    """Values of an input or an output: float64, or int32 where `is_float` is false."""

    values: np.ndarray
    is_float: bool


@dataclass(frozen=True)
class Case:
    """One case; `scale` and `tolerance` are as in the file."""

    id: str
    op: str
    attrs: Mapping[str, Any]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    cotangents: Mapping[str, Tensor]
    grads: Mapping[str, Tensor]
    scale: Mapping[str, np.ndarray]
    tolerance: Mapping[str, Mapping[str, float]]
    dtypes: tuple[str, ...] | None


def load_cases(path: Path | str) -> list[Case]:
    """The cases of a file (plain or gzip JSON).

    Raises:
        DataError: the file cannot be read or is malformed; names the file and the case.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        content = json.loads(data)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise DataError(f"conformance file cannot be read: {error}", where=path) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        given = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise DataError("conformance file", expected=f"format {FORMAT}", given=given, where=path)
    cases = content.get("cases")
    if not isinstance(cases, list):
        raise DataError("conformance file", expected="a list 'cases'", given=cases, where=path)
    return [_case(item, f"{path}: case {i}") for i, item in enumerate(cases)]


def _case(item: Any, where: str) -> Case:
    item = _object(item, "case", where)
    identity = _text(item, "id", where)
    where = f"{where} ({identity})"
    dtypes = item.get("dtypes")
    if dtypes is not None and not (
        isinstance(dtypes, list) and all(isinstance(d, str) for d in dtypes)
    ):
        raise DataError("dtypes", expected="a list of names", given=dtypes, where=where)
    case = Case(
        id=identity,
        op=_text(item, "op", where),
        attrs=_object(item.get("attrs", {}), "attrs", where),
        inputs=_tensors(item, "inputs", where),
        outputs=_tensors(item, "outputs", where),
        cotangents=_tensors(item, "cotangents", where, required=False),
        grads=_tensors(item, "grads", where, required=False),
        scale={
            name: _scale(value, f"{where}: scale of {name}")
            for name, value in _object(item.get("scale"), "scale", where).items()
        },
        tolerance=_tolerance(item, where),
        dtypes=None if dtypes is None else tuple(dtypes),
    )
    _check_consistent(case, where)
    return case


def _check_consistent(case: Case, where: str) -> None:
    for name, grad in case.grads.items():
        if name not in case.inputs:
            raise DataError("gradient", expected="one of an input", given=name, where=where)
        _same_shape(f"gradient of {name}", grad, case.inputs[name], where)
    for name, cotangent in case.cotangents.items():
        if name not in case.outputs:
            raise DataError("cotangent", expected="one of an output", given=name, where=where)
        _same_shape(f"cotangent of {name}", cotangent, case.outputs[name], where)
    if case.grads and set(case.cotangents) != set(case.outputs):
        raise DataError(
            "gradients need a cotangent for each output",
            expected=sorted(case.outputs),
            given=sorted(case.cotangents),
            where=where,
        )
    if set(case.outputs) != {"out"}:
        raise DataError("outputs", expected=["out"], given=sorted(case.outputs), where=where)
    compared = {**case.outputs, **{f"grad.{name}": grad for name, grad in case.grads.items()}}
    for name, tensor in compared.items():
        if name not in case.scale:
            raise DataError("scale", expected=f"an entry for {name}", given="none", where=where)
        _fits(f"scale of {name}", case.scale[name].shape, tensor.values.shape, where)
    for dtype, bounds in case.tolerance.items():
        for name in ("out", "grad") if case.grads else ("out",):
            if name not in bounds:
                what = f"tolerance of {dtype}"
                raise DataError(what, expected=f"an entry for {name}", given="none", where=where)


def _same_shape(what: str, got: Tensor, want: Tensor, where: str) -> None:
    if got.values.shape != want.values.shape:
        raise DataError(
            what, expected=f"shape {want.values.shape}", given=got.values.shape, where=where
        )


def _fits(what: str, got: tuple[int, ...], want: tuple[int, ...], where: str) -> None:
    """That an array of shape `got` may be repeated to fill one of shape `want`."""
    pairs = zip(reversed(got), reversed(want), strict=False)
    if len(got) > len(want) or any(g not in (1, w) for g, w in pairs):
        raise DataError(what, expected=f"a shape that fits {want}", given=got, where=where)


def _object(value: Any, what: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(what, expected="an object", given=type(value).__name__, where=where)
    return value


def _text(item: dict[str, Any], key: str, where: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise DataError(key, expected="a string", given=value, where=where)
    return value


def _tolerance(item: dict[str, Any], where: str) -> dict[str, dict[str, float]]:
    table = _object(item.get("tolerance"), "tolerance", where)
    for dtype, bounds in table.items():
        for key, bound in _object(bounds, f"tolerance of {dtype}", where).items():
            if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not bound >= 0:
                raise DataError(
                    f"tolerance of {dtype}.{key}", expected="a number ≥ 0", given=bound, where=where
                )
    return table


def _tensors(
    item: dict[str, Any], key: str, where: str, required: bool = True
) -> dict[str, Tensor]:
    table = _object(item.get(key, None if required else {}), key, where)
    return {name: _tensor(value, f"{where}: {key}.{name}") for name, value in table.items()}


def _tensor(item: Any, where: str) -> Tensor:
    item = _object(item, "tensor", where)
    kind, shape, data = item.get("type"), item.get("shape"), item.get("data")
    if kind not in ("float", "int"):
        raise DataError("type", expected="'float' or 'int'", given=kind, where=where)
    if not isinstance(shape, list) or not all(type(s) is int and s >= 0 for s in shape):
        raise DataError("shape", expected="a list of sizes", given=shape, where=where)
    if not isinstance(data, list) or len(data) != math.prod(shape):
        given = len(data) if isinstance(data, list) else type(data).__name__
        raise DataError("data", expected=f"{math.prod(shape)} numbers", given=given, where=where)
    values = [_number(value, kind, where) for value in data]
    dtype = np.float64 if kind == "float" else np.int32
    return Tensor(np.array(values, dtype).reshape(shape), kind == "float")


_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def _number(value: Any, kind: str, where: str) -> float | int:
    if kind == "float":
        if isinstance(value, str) and value in _NON_FINITE:
            return _NON_FINITE[value]
        return _real(value, "data", "float values", where)
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise DataError("data", expected="int values of 32 bits", given=shown(value), where=where)
    return value


def _real(value: Any, what: str, expected: str, where: str) -> float:
    """A number of JSON as a float: integers are as long as they like there."""
    try:
        if type(value) in (int, float):
            return float(value)
    except OverflowError:
        value = "an integer out of range"
    raise DataError(what, expected=expected, given=shown(value), where=where)


def _scale(value: Any, where: str) -> np.ndarray:
    if isinstance(value, dict):
        return _tensor(value, where).values
    return np.float64(_real(value, "scale", "a number or a tensor", where))
