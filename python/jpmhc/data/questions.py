# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Questions over documents from files in the formats of SQuAD and HotpotQA."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from jpmhc.data.reading import as_text, decoded, field, parse_json, read_bytes
from jpmhc.errors import DataError

__all__ = ["Question", "QuestionSet", "read_questions"]


@dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
        text: the question.
        answers: each is right.
        gold: indices of the documents that answer it.
        related: indices of documents of the same article, which do not.
    """

    text: str
    answers: tuple[str, ...]
    gold: tuple[int, ...]
    related: tuple[int, ...] = ()


@dataclass(frozen=True)
class QuestionSet:
    """Questions and all documents, each document once and sorted.

    Attributes:
        documents: their texts.
        questions: those that can be answered, in the order of the file.
        name: the file's name.
        sha256: of the file.
    """

    documents: tuple[str, ...]
    questions: tuple[Question, ...]
    name: str
    sha256: str


def read_questions(path: str | os.PathLike) -> QuestionSet:
    """A JSON file of SQuAD 1.1 or 2.0 (an object) or of HotpotQA (a list).

    Raises:
        DataError: the file cannot be read, is no JSON or in neither format (it names the record
            and the field), or has no question that can be answered.
    """
    content = read_bytes(path, "the questions")
    data = parse_json(decoded(content, path), path)
    if isinstance(data, list):
        found = _hotpotqa(data, path)
    else:
        found = _squad(field(data, "data", list, path), path)
    documents = sorted({text for _, _, gold, related in found for text in (*gold, *related)})
    number = {text: k for k, text in enumerate(documents)}
    questions = tuple(
        Question(text, answers, *(tuple(number[t] for t in texts) for texts in (gold, related)))
        for text, answers, gold, related in found
    )
    if not questions:
        raise DataError("no question that can be answered", where=path)
    digest = hashlib.sha256(content).hexdigest()
    return QuestionSet(tuple(documents), questions, Path(path).name, digest)


_Found = list[tuple[str, tuple[str, ...], list[str], list[str]]]


def _squad(articles: list, path: object) -> _Found:
    found: _Found = []
    for a, article in enumerate(articles):
        paragraphs = field(article, "paragraphs", list, f"{path}: data[{a}]")
        contexts = [
            field(p, "context", str, f"{path}: data[{a}].paragraphs[{k}]")
            for k, p in enumerate(paragraphs)
        ]
        for k, paragraph in enumerate(paragraphs):
            place = f"{path}: data[{a}].paragraphs[{k}]"
            others = [text for text in dict.fromkeys(contexts) if text != contexts[k]]
            for q, item in enumerate(field(paragraph, "qas", list, place)):
                where = f"{place}.qas[{q}]"
                text = field(item, "question", str, where)
                given = field(item, "answers", list, where)
                answers = [
                    field(answer, "text", str, f"{where}.answers[{n}]")
                    for n, answer in enumerate(given)
                ]
                if answers and not item.get("is_impossible", False):
                    found.append((text, tuple(dict.fromkeys(answers)), [contexts[k]], others))
    return found


def _hotpotqa(records: list, path: object) -> _Found:
    found: _Found = []
    for k, record in enumerate(records):
        where = f"{path}: record {k}"
        text = field(record, "question", str, where)
        answer = field(record, "answer", str, where)
        documents = []
        for n, item in enumerate(field(record, "context", list, where)):
            documents.append(_document(item, f"{where}.context[{n}]"))
        if documents:
            found.append((text, (answer,), list(dict.fromkeys(documents)), []))
    return found


def _document(item: object, where: str) -> str:
    """A paragraph of HotpotQA."""
    if not isinstance(item, list) or len(item) != 2 or not isinstance(item[1], list):
        raise DataError("bad context", expected="[title, sentences]", where=where)
    title = as_text(item[0], "title", where)
    sentences = [as_text(text, f"sentence {k}", where) for k, text in enumerate(item[1])]
    return f"{title}\n{''.join(sentences)}"
