# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a case through the compiler and measures its errors."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

import jpmhc
from jpmhc.conformance.builders import BUILDERS
from jpmhc.conformance.cases import Case
from jpmhc.dtypes import NUMPY
from jpmhc.errors import InternalError, JpmhcError, UnsupportedError


@dataclass
class Outcome:
    """What came of a case.

    `status` is "passed", "failed" or "skipped"; `reason` says why it did not pass; `errors` holds
    the measured error and `bounds` the allowed one for each tensor compared.
    """

    id: str
    op: str
    status: str
    reason: str = ""
    errors: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """A JSON object (non-finite errors as strings)."""
        content = asdict(self)
        content["errors"] = {k: v if np.isfinite(v) else str(v) for k, v in self.errors.items()}
        return content


def run_case(case: Case, target: str = "cpu", dtype: str = "f32") -> Outcome:
    """Compiles and runs a case: its output, and its gradients where the case has them."""
    skip = _skip_reason(case, dtype)
    if skip:
        return Outcome(case.id, case.op, "skipped", skip)
    try:
        got = _evaluate(case, target, dtype)
    except UnsupportedError as error:
        return Outcome(case.id, case.op, "skipped", str(error))
    except (JpmhcError, InternalError) as error:
        return Outcome(case.id, case.op, "failed", f"{type(error).__name__}: {error}")
    except KeyError as error:
        return Outcome(case.id, case.op, "failed", f"missing attribute {error}")
    except TypeError as error:
        return Outcome(case.id, case.op, "failed", f"arguments do not fit: {error}")
    return _judge(case, dtype, got)


def _skip_reason(case: Case, dtype: str) -> str:
    if case.op not in BUILDERS:
        return f"op '{case.op}' is not served"
    if case.dtypes is not None and dtype not in case.dtypes:
        return f"dtype {dtype} is not meant (case is for {', '.join(case.dtypes)})"
    if dtype not in case.tolerance:
        return f"tolerance for dtype {dtype}"
    return ""


def _evaluate(case: Case, target: str, dtype: str) -> dict[str, np.ndarray]:
    """Output and gradients by the names of the case's scales."""
    function = BUILDERS[case.op](case.attrs)
    inputs = {
        name: tensor.values.astype(NUMPY[dtype] if tensor.is_float else np.int32)
        for name, tensor in case.inputs.items()
    }
    if not case.grads:
        compiled = jpmhc.compile(lambda given: function(**given), inputs, target=target)
        return {"out": compiled(inputs)}
    varied = {name: inputs[name] for name in case.grads}
    fixed = {name: value for name, value in inputs.items() if name not in varied}
    cotangent = case.cotangents["out"].values.astype(NUMPY[dtype])
    pullback = jpmhc.vjp(lambda varied, fixed: function(**varied, **fixed), wrt=0)
    arguments = (cotangent, varied, fixed)
    out, grads = jpmhc.compile(pullback, *arguments, target=target)(*arguments)
    return {"out": out, **{f"grad.{name}": grads[name] for name in case.grads}}


def _judge(case: Case, dtype: str, got: dict[str, np.ndarray]) -> Outcome:
    outcome = Outcome(case.id, case.op, "passed")
    want = {
        **{name: tensor.values for name, tensor in case.outputs.items()},
        **{f"grad.{name}": tensor.values for name, tensor in case.grads.items()},
    }
    worst = []
    for name, values in want.items():
        bound = case.tolerance[dtype]["grad" if name.startswith("grad.") else "out"]
        error = error_of(got[name], values, case.scale[name])
        outcome.errors[name], outcome.bounds[name] = error, bound
        if not error <= bound:
            worst.append(f"{name} error {error:.3g} > {bound:.3g}")
    if worst:
        outcome.status, outcome.reason = "failed", ", ".join(worst)
    return outcome


def error_of(got: np.ndarray, want: np.ndarray, scale: np.ndarray) -> float:
    """max |got - want| / scale over finite wants; infinite if a shape or a non-finite differs."""
    got = np.asarray(got).astype(np.float64)
    if got.shape != want.shape:
        return float("inf")
    finite = np.isfinite(want)
    same_kind = np.array_equal(got[~finite], want[~finite], equal_nan=True)
    if not same_kind or not np.isfinite(got[finite]).all():
        return float("inf")
    difference = np.abs(got - np.where(finite, want, 0.0))[finite]
    divisor = np.broadcast_to(scale, want.shape)[finite]
    # Where the bound at a point is zero, the value must be met exactly.
    error = np.where(difference > 0, np.inf, 0.0)
    with np.errstate(over="ignore"):  # an infinite error is one
        np.divide(difference, divisor, out=error, where=divisor > 0)
    return float(error.max()) if error.size else 0.0
