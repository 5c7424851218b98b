# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model of this project as a model of lm-evaluation-harness, and its tasks on local files.

    from lm_eval import simple_evaluate
    from jpmhc.eval.harness import HarnessModel, hellaswag_task

    simple_evaluate(HarnessModel(model, tokenizer), tasks=[hellaswag_task("hellaswag_val.jsonl")])

Importing this module needs the package lm_eval.

Raises:
    MissingDependencyError: lm_eval is not installed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from jpmhc._libraries import missing
from jpmhc.data.checks import one_of, whole
from jpmhc.data.tokenizers import Tokenizer
from jpmhc.errors import ConfigError, DataError
from jpmhc.eval.models import LanguageModel, generated, loglikelihood
from jpmhc.eval.multiple_choice import LETTERS, MMLU_FORMS, description, encode_pair
from jpmhc.eval.perplexity import perplexity

try:
    from lm_eval.api.model import LM
except ImportError as error:
    raise missing("lm_eval", "the adapter") from error

__all__ = ["HarnessModel", "hellaswag_task", "mmlu_task"]

_MOST_GENERATED = 256


class HarnessModel(LM):
    """What lm-evaluation-harness calls.

    Args:
        model: see `jpmhc.eval.models`. Requests to generate, and whether a continuation is the
            greedy one, need its `generate`.
        tokenizer: turns the harness's texts into tokens.
        length: the most tokens the model takes; longer contexts lose their beginning.
        prefix: the token before texts without context; by default the tokenizer's end token.

    Raises:
        ConfigError: no prefix is known, or the length is below 2.
    """

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer,
        *,
        length: int = 2048,
        prefix: int | None = None,
    ) -> None:
        super().__init__()
        prefix = tokenizer.end if prefix is None else prefix
        if prefix is None:
            raise ConfigError("no prefix", hint="this tokenizer has no end token: name one")
        self.model, self.tokenizer = model, tokenizer
        self.length, self.prefix = whole("length", length, 2), whole("prefix", prefix, 0)

    @property
    def tokenizer_name(self) -> str:
        """What tells the harness's caches which tokenizer this is."""
        return f"{self.tokenizer.name}-{self.tokenizer.fingerprint[:12]}"

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        """For each (context, continuation): log-likelihood, and whether it is the greedy one."""
        return [self._loglikelihood(*request.args) for request in requests]

    def _loglikelihood(self, context: str, continuation: str) -> tuple[float, bool]:
        if context:
            before, after = encode_pair(self.tokenizer, context, continuation)
        else:
            before, after = np.empty(0, np.int32), self.tokenizer.encode(continuation)
        if not before.size:
            before = np.array([self.prefix], dtype=np.int32)
        if not 1 <= after.size < self.length:
            expected = f"1..{self.length - 1} tokens"
            raise DataError(
                "bad continuation", expected=expected, given=after.size, where=repr(continuation)
            )
        tokens = np.concatenate([before, after])[-self.length :]
        total = float(loglikelihood(self.model, tokens)[-after.size :].sum())
        return total, self._is_greedy(tokens[: -after.size], after)

    def _is_greedy(self, before: np.ndarray, after: np.ndarray) -> bool:
        if not hasattr(self.model, "generate"):
            return False
        return np.array_equal(generated(self.model, before, after.size), after)

    def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
        """For each (text,): the log-likelihood of all of its tokens, each counted once."""
        sums = []
        for request in requests:
            tokens = self.tokenizer.encode(request.args[0])
            # Windows that overlap by one token: what the harness calls context_len 1.
            found = tokens.size and perplexity(
                self.model, tokens, length=self.length, stride=self.length - 1, prefix=self.prefix
            )
            sums.append(found.loglikelihood if found else 0.0)
        return sums

    def generate_until(self, requests: list[Any]) -> list[str]:
        """For each (context, options): the greedy continuation up to the first stop text."""
        return [self._generate(*request.args) for request in requests]

    def _generate(self, context: str, options: dict[str, Any]) -> str:
        if options.get("do_sample") or options.get("temperature"):
            raise ConfigError("cannot sample", expected="greedy generation", given=options)
        stops = options.get("until") or []
        stops = [stops] if isinstance(stops, str) else stops
        limit = min(options.get("max_gen_toks", _MOST_GENERATED), self.length - 1)
        tokens = self.tokenizer.encode(context)[-(self.length - limit) :]
        if not tokens.size:
            tokens = np.array([self.prefix], dtype=np.int32)
        text = self.tokenizer.decode(generated(self.model, tokens, limit))
        cuts = [text.find(stop) for stop in stops if stop and stop in text]
        return text[: min(cuts)] if cuts else text


def hellaswag_task(path: str | os.PathLike) -> dict[str, Any]:
    """The harness's task `hellaswag` on a local `hellaswag_*.jsonl`."""
    from lm_eval.tasks.hellaswag import utils

    return {
        "task": "hellaswag_local",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"validation": os.fspath(path)}},
        "output_type": "multiple_choice",
        "validation_split": "validation",
        "process_docs": utils.process_docs,
        "doc_to_text": "{{query}}",
        "doc_to_target": "{{label}}",
        "doc_to_choice": "choices",
        "metric_list": [_mean("acc"), _mean("acc_norm")],
    }


def mmlu_task(
    folder: str | os.PathLike, subject: str, *, form: str = "letter", shots: int = 5
) -> dict[str, Any]:
    """The harness's task `mmlu_SUBJECT` (or `..._continuation`) on the files of MMLU's archive.

    Args:
        folder, form, shots: as for `jpmhc.eval.multiple_choice.read_mmlu`.

    Raises:
        ConfigError: an unknown form.
    """
    from datasets import Features, Value

    one_of("form", form, MMLU_FORMS)
    letter = form == "letter"
    files = {
        part: os.fspath(Path(folder, part, f"{subject}_{part}.csv")) for part in ("dev", "test")
    }
    columns = ["question", "A", "B", "C", "D", "answer"]
    listed = "{{question.strip()}}\nA. {{A}}\nB. {{B}}\nC. {{C}}\nD. {{D}}\nAnswer:"
    return {
        "task": f"mmlu_{subject}_local" if letter else f"mmlu_{subject}_continuation_local",
        "dataset_path": "csv",
        # Every field is a text: an answer "2" would be read as the number 2.0 elsewhere.
        "dataset_kwargs": {
            "data_files": files,
            "column_names": columns,
            "features": Features({name: Value("string") for name in columns}),
            "keep_default_na": False,
        },
        "output_type": "multiple_choice",
        "test_split": "test",
        "fewshot_split": "dev",
        "fewshot_config": {"sampler": "first_n"},
        "num_fewshot": shots,
        "description": description(subject, form),
        "doc_to_text": listed if letter else "Question: {{question.strip()}}\nAnswer:",
        "doc_to_choice": list(LETTERS) if letter else "{{[A, B, C, D]}}",
        "doc_to_target": "{{['A', 'B', 'C', 'D'].index(answer)}}",
        "metric_list": [_mean("acc")] if letter else [_mean("acc"), _mean("acc_norm")],
    }


def _mean(metric: str) -> dict[str, Any]:
    return {"metric": metric, "aggregation": "mean", "higher_is_better": True}
