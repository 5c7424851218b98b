# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Input that no careful user gives: each is a typed error that says expected, given and where."""

import json
import os
import threading
import zlib

import numpy as np
import pytest

import jpmhc
from jpmhc import checkpoint, errors, nn, ops, optim

SPEC = jpmhc.spec((4, 3))
WIDTH = jpmhc.scalar_spec("index")


def _traced(fn, *specs):
    return lambda: jpmhc.compile(fn, *(specs or (SPEC,)))


def _called(dtype, value, scalar=False):
    spec = jpmhc.scalar_spec(dtype) if scalar else jpmhc.spec((), dtype)
    return lambda: jpmhc.compile(lambda a: a + 1, spec)(value)


def _step(**options):
    model = options.pop("model", nn.Linear(3, 2))
    loss = options.pop("loss", lambda a: a.sum())
    return lambda: jpmhc.TrainStep(model, loss, optim.AdamW(), SPEC, **options)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        # Numbers that the element type cannot hold.
        (_called("i32", 2**40), errors.DTypeError),
        (_called("i32", 1.5), errors.DTypeError),
        (_called("f32", np.complex64(1j)), errors.DTypeError),
        (_called("f32", np.str_("abc")), errors.DTypeError),
        (_called("i64", 2**70, scalar=True), errors.DTypeError),
        (_called("i64", True, scalar=True), errors.DTypeError),
        (_called("f32", "3.0", scalar=True), errors.DTypeError),
        (_traced(lambda a: a + 1e300), errors.DTypeError),
        (_traced(lambda a: a + 10**400), errors.DTypeError),
        (_traced(lambda a: a + float("nan"), jpmhc.spec((2,), "i32")), errors.DTypeError),
        (_traced(lambda a: a + 2**40, jpmhc.spec((2,), "i32")), errors.DTypeError),
        (_traced(lambda a: a + 2**80, WIDTH), errors.DTypeError),
        (_traced(lambda a: 2**80), errors.DTypeError),
        # Attributes of another kind.
        (_traced(lambda a: ops.rms_norm(a, eps="1")), errors.ConfigError),
        (_traced(lambda a: ops.rms_norm(a, eps=None)), errors.ConfigError),
        (_traced(lambda a: ops.rms_norm(a, eps=float("nan"))), errors.ConfigError),
        (_traced(lambda a: ops.rms_norm(a, eps=10**400)), errors.ConfigError),
        (_traced(lambda a: ops.tribox(a, 2, passes="x")), errors.ConfigError),
        (_traced(lambda a: ops.tribox(a, 2, passes=1.5)), errors.ConfigError),
        (_traced(lambda a: ops.tribox(a, 1.5)), errors.ConfigError),
        (_traced(lambda a: ops.tribox(a, float("nan"))), errors.ConfigError),
        (_traced(lambda a: ops.tribox(a, np.int64(0))), errors.ConfigError),
        (_traced(lambda a: ops.project(a, "free", "2")), errors.ConfigError),
        (
            _traced(lambda a: ops.attention(a, a, a, causal="no"), jpmhc.spec((1, 2, 2, 4))),
            errors.ConfigError,
        ),
        (
            _traced(lambda a: ops.attention(a, a, a, window=1.5), jpmhc.spec((1, 2, 2, 4))),
            errors.ConfigError,
        ),
        # Names that are no text.
        (lambda: jpmhc.compile(lambda a: a, SPEC, target=None), errors.ConfigError),
        (lambda: nn.HyperConnection(lambda v: v, 4, manifold=None), errors.ConfigError),
        (lambda: nn.HyperConnection(lambda v: v, 4, norm=3), errors.ConfigError),
        # Specs.
        (lambda: jpmhc.spec(3), errors.ShapeError),
        (lambda: jpmhc.spec("ab"), errors.ShapeError),
        (lambda: jpmhc.spec((2,), "i32", high="a"), errors.ConfigError),
        (lambda: jpmhc.spec((2,), "f32", high=5), errors.ConfigError),
        # Tensors of too few axes.
        (_traced(lambda a: ops.project(a, "free", 2), jpmhc.spec(())), errors.ShapeError),
        (_traced(lambda a: ops.dense_tribox(a, a), jpmhc.spec((4,))), errors.ShapeError),
        (_traced(lambda a: ops.dense_tribox(a, 1.0)), errors.ShapeError),
        (_traced(lambda a: nn.SidePath(1)(a, a), jpmhc.spec((4,))), errors.ShapeError),
        # Parts of models and steps that are something else.
        (lambda: nn.HyperConnection(3, 4), errors.ConfigError),
        (lambda: nn.HyperConnection(lambda v: v, 4, post_scale="a"), errors.ConfigError),
        (lambda: nn.SidePath(1, gate=3), errors.ConfigError),
        (lambda: nn.Attention(8, 2, tokens=0), errors.ConfigError),
        (_step(model=3), errors.ConfigError),
        (_step(loss=3), errors.ConfigError),
        (_step(sparse_optimizer=3), errors.ConfigError),
        (_step(max_grad_norm="a"), errors.ConfigError),
        (_step(max_grad_norm=True), errors.ConfigError),
        (
            _traced(lambda p: ops.adamw(p, p, p, p, lr=float("nan"), step=1), jpmhc.spec((3,))),
            errors.ConfigError,
        ),
        *(
            (
                _traced(lambda p, b=betas: ops.adamw(p, p, p, p, lr=1.0, step=1, betas=b)),
                errors.ConfigError,
            )
            for betas in ([], [0.5], (0.5, 0.5, 0.5), None, 0.5, {})
        ),
        (lambda: optim.AdamW(lr=1e300), errors.ConfigError),
        (lambda: optim.AdamW(lr=10**400), errors.ConfigError),
        (lambda: optim.AdamW(betas=(float("nan"), 0.9)), errors.ConfigError),
        (lambda: jpmhc.value_and_grad(3), errors.ConfigError),
        (lambda: jpmhc.value_and_grad(lambda a: a, "a"), errors.ConfigError),
        (lambda: jpmhc.value_and_grad(lambda a: a, 1.0), errors.ConfigError),
        (lambda: jpmhc.value_and_grad(lambda a: a, (0, 0)), errors.ConfigError),
    ],
)
def test_bad_input_is_a_typed_error(call, error):
    with pytest.raises(error) as caught:
        call()
    assert caught.value.expected is not None
    assert caught.value.given is not None
    assert len(str(caught.value)) < 2000
    assert caught.value.where is not None


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 1.5])
def test_a_scalar_result_is_an_array_and_takes_any_number(value):
    add = jpmhc.compile(lambda a: a + value, jpmhc.scalar_spec())
    result = add(2.0)
    assert result.shape == ()
    np.testing.assert_array_equal(result, np.float32(2.0 + value))


def test_gradient_by_a_scalar_argument():
    def loss(w, a):
        return (a * w).sum()

    gradient = jpmhc.compile(
        lambda w, a: jpmhc.value_and_grad(loss, 0)(w, a)[1], jpmhc.scalar_spec(), jpmhc.spec((3,))
    )
    assert gradient(5.0, np.float32([1, 2, 4])) == 7.0


def test_threads_may_share_a_compiled_function():
    draws = np.random.default_rng(0)
    f = jpmhc.compile(
        lambda a, b: jpmhc.exp(a @ b).sum(1), jpmhc.spec((32, 32)), jpmhc.spec((32, 32))
    )
    inputs = [draws.normal(0, 0.1, (2, 32, 32)).astype(np.float32) for _ in range(3)]
    wanted = [f(a, b) for a, b in inputs]
    wrong = []

    def work(i):
        for _ in range(50):
            if not np.array_equal(f(*inputs[i]), wanted[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _file(path, text):
    """A safetensors file without arrays, whose metadata is the given text with a right checksum."""
    metadata = {
        "format": checkpoint.FORMAT,
        "format_version": str(checkpoint.FORMAT_VERSION),
        "json": text,
        "json_crc32": str(zlib.crc32(text.encode())),
    }
    header = json.dumps({"__metadata__": metadata}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[1]",
        "[" * 100_000,
        '{"step": "a", "rng_state": {}, "config": {}, "checksums": {}}',
        '{"step": 1, "rng_state": 3, "config": {}, "checksums": {}}',
        '{"step": 1, "rng_state": {}, "config": {}, "checksums": {"model": 3}}',
    ],
)
def test_checkpoint_of_odd_metadata(tmp_path, text):
    path = _file(tmp_path / "odd", text)
    with pytest.raises(errors.CheckpointError, match="odd"):
        checkpoint.read(path)


@pytest.mark.parametrize("path", [None, 3, "a\0b"])
def test_checkpoint_of_no_path(path):
    for call in (checkpoint.read, checkpoint.read_metadata, lambda p: checkpoint.save(p, {})):
        with pytest.raises(errors.CheckpointError, match="expected a path"):
            call(path)


@pytest.mark.parametrize(
    ("sections", "options"),
    [
        ([1], {}),
        ({"a": [1]}, {}),
        ({3: {"b": np.ones(1)}}, {}),
        ({"a": {3: np.ones(1)}}, {}),
        ({"a": {"b": [[1], [1, 2]]}}, {}),
        ({}, {"step": "a"}),
        ({}, {"step": 1.5}),
        ({}, {"config": [1]}),
        ({}, {"rng_state": "a"}),
    ],
)
def test_checkpoint_that_cannot_be_stored(tmp_path, sections, options):
    with pytest.raises(errors.CheckpointError, match="expected"):
        checkpoint.save(tmp_path / "c", sections, **options)
    assert os.listdir(tmp_path) == []


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    """A pipe stands for devices: as root, renaming onto one would delete it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    checkpoint.save(pipe, {"a": {"b": np.ones(3, np.float32)}})
    reader.join(timeout=30)
    assert pipe.is_fifo()
    (tmp_path / "copy").write_bytes(received[0])
    arrays, _ = checkpoint.read(tmp_path / "copy")
    np.testing.assert_array_equal(arrays["a"]["b"], 1)
