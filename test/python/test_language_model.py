# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The second example: a byte-level language model with side paths."""

from pathlib import Path

import numpy as np
import pytest

import jpmhc
from jpmhc.errors import ConfigError
from jpmhc.eval import models
from jpmhc.eval.perplexity import perplexity
from jpmhc.experiments import language_model as lm

ALICE = Path(__file__).parent.parent / "data" / "alice.txt"


def arguments(*more):
    small = ["--layers", "3", "--dim", "24", "--heads", "2", "--context", "32", "--batch", "8"]
    return [str(ALICE), *small, "--steps", "60", "--lr", "1e-2", "--sample", "40", *more]


def test_it_learns_a_text_and_prints_a_sample(capsys):
    result = lm.run(lm.parser().parse_args(arguments()))
    assert len(result.losses) == 60
    first, last = np.mean(result.losses[:3]), np.mean(result.losses[-10:])
    # From about ln 256 = 5.5 to below the 3.2 nats of the bytes' own frequencies in English.
    assert first > 4.5 and last < 3.2
    assert result.sample.startswith("The ") and len(result.sample.encode()) >= 44
    assert 2 < result.held_out_bits < 5.5
    again = lm.run(lm.parser().parse_args(arguments()))
    assert again == result


def test_the_command_prints_the_sample(capsys):
    assert lm.main(arguments("--steps", "1", "--prompt", "Alice")) == 0
    out = capsys.readouterr().out
    assert "bits a byte" in out and "\nAlice" in out


def test_later_bytes_change_no_earlier_prediction():
    model = lm.LanguageModel(lm.ModelConfig(layers=3, dim=16, heads=2, context=24)).init(1)
    tokens = np.random.default_rng(0).integers(0, 256, (1, 24)).astype(np.int32)
    forward = jpmhc.compile(model, tokens)
    before = forward(tokens)
    changed = tokens.copy()
    changed[0, 15:] = (changed[0, 15:] + 1) % 256
    after = forward(changed)
    np.testing.assert_array_equal(before[0, :15], after[0, :15])
    assert (before[0, 15:] != after[0, 15:]).any(-1).all()


def test_the_side_path_is_on_every_layer_with_doubling_widths():
    model = lm.LanguageModel(lm.ModelConfig(layers=4, dim=16, heads=2, context=6)).init(0)
    tokens = jpmhc.spec((1, 6), "i32")
    ir = jpmhc.compile(model, tokens).print_ir("graph")
    assert ir.count("jpmhc.side_path") == ir.count("jpmhc.coverage_gate") == 4
    gates = [name for name, _ in model.named_parameters() if "gate." in name]
    assert len(gates) == 5  # w1, b1, w2, b2 and beta, shared by all layers


@pytest.mark.parametrize(
    "more, message",
    [
        (["--layers", "0"], "layers: expected an integer ≥ 1, got 0"),
        (["--steps", "0"], "--steps: expected at least 1, got 0"),
        (["--context", "10000000"], "text too short"),
        (["--temperature", "0", "--steps", "1"], "temperature: expected a number > 0"),
        (["--prompt", "", "--steps", "1"], "prompt: expected at least one byte"),
    ],
)
def test_wrong_options_end_in_one_line(more, message, capsys):
    assert lm.main(arguments(*more)) == 1
    assert message in capsys.readouterr().err


def test_a_missing_text_is_an_error(tmp_path, capsys):
    assert lm.main([str(tmp_path / "none.txt")]) == 1
    assert "cannot read the text" in capsys.readouterr().err


def test_the_temperature_is_checked():
    model = lm.LanguageModel(lm.ModelConfig(layers=1, dim=8, heads=2, context=8)).init(0)
    with pytest.raises(ConfigError):
        lm.Sampler(model).continue_text("a", 1, float("nan"))


def test_the_compiled_model_is_scored_as_its_loss_says():
    model = lm.LanguageModel(lm.ModelConfig(layers=2, dim=16, heads=2, context=32)).init(1)
    tokens = np.fromfile(ALICE, dtype=np.uint8)[:32].astype(np.int32)
    labels = np.append(tokens[1:], np.int32(-100))[None]
    loss = jpmhc.compile(model.loss, tokens[None], labels)(tokens[None], labels)
    scored = models.LogitsModel(jpmhc.compile(model, tokens[None]), length=32)
    found = perplexity(scored, tokens, length=32)
    # The loss is a sum of float32, the score one of float64 of float32 logits.
    assert np.log(found.per_token) == pytest.approx(float(loss), rel=1e-5)
    # What fills up a shorter text changes nothing.
    np.testing.assert_array_equal(
        models.loglikelihood(scored, tokens[:20]), models.loglikelihood(scored, tokens)[:19]
    )
    first = models.generated(scored, tokens[:20], 3)
    again = models.generated(scored, np.append(tokens[:20], first[:1]), 2)
    assert first.shape == (3,) and (first[1:] == again).all()
