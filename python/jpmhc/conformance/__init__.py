# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conformance: cases with inputs and float64 truth, run through the compiler on any target.

``python -m jpmhc.conformance FILE… [--target cpu|emulator] [--dtype f32|bf16|f16] [--only REGEX]
[--json OUT]``. See `jpmhc.conformance.cases` for the format of a file.
"""

from jpmhc.conformance.cases import Case, Tensor, load_cases
from jpmhc.conformance.runner import Outcome, run_case

__all__ = ["Case", "Outcome", "Tensor", "load_cases", "run_case"]
