# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What of the spectra needs the compiler: drawn mixers, checkpoints, models that are trained."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import jpmhc
from jpmhc import checkpoint, nn, spectra
from jpmhc.errors import ConfigError
from jpmhc.experiments.language_model import LanguageModel, ModelConfig
from jpmhc.optim import AdamW
from jpmhc.spectra import cli, output
from jpmhc.training import MetricsWriter, read_metrics


def test_a_generating_set_is_a_basis_of_the_manifold():
    basis = spectra.generating_sets(4, 4).basis
    drawn = spectra.draw_mixers("permutation", 4, 50, seed=1, basis=basis)
    allowed = sum(np.eye(4)[order] for order in basis) > 0
    assert np.allclose(drawn.sum(1), 1, atol=1e-6) and np.allclose(drawn.sum(2), 1, atol=1e-6)
    assert (drawn[:, ~allowed] == 0).all() and (drawn[:, allowed] > 0).all()
    block = nn.HyperConnection(lambda x: x, 8, manifold="permutation", basis=basis).init()
    assert jpmhc.compile(block, jpmhc.spec((3, 4, 8)))(np.ones((3, 4, 8), np.float32)).shape


@pytest.mark.parametrize("manifold", jpmhc.manifolds.names())
def test_every_manifold_can_be_drawn(manifold):
    drawn = spectra.draw_mixers(manifold, 4, 6, seed=1)
    assert drawn.shape == (6, 4, 4) and np.isfinite(drawn).all()
    if manifold == "birkhoff":
        np.testing.assert_allclose(drawn.sum(1), 1, atol=1e-6)
    found = spectra.monte_carlo(drawn.reshape(3, 2, 4, 4), 0.1, channels=2, samples=3)
    assert found.values.shape == (3, 8)


def test_mixers_of_a_checkpoint(tmp_path, capsys):
    model = nn.HyperConnection(lambda x: x, 8, manifold="birkhoff").init(3)
    checkpoint.save(tmp_path / "m.safetensors", {"model": {
        f"layers.{k}.{name}": array for k in (2, 10) for name, array in model.state_dict().items()
    }}, step=1)  # fmt: skip
    found = spectra.checkpoint_mixers(tmp_path / "m.safetensors", manifold="birkhoff", n=4)
    assert list(found) == ["layers.2", "layers.10"]
    bias = jpmhc.manifolds.get("birkhoff").initial_bias(4)
    weights = np.exp(bias.reshape(4, 4))  # circulant enough: rows and columns sum alike
    np.testing.assert_allclose(found["layers.2"][0], weights / weights.sum(0), atol=1e-6)
    drawn = spectra.checkpoint_mixers(
        tmp_path / "m.safetensors", manifold="birkhoff", n=4, tokens=5
    )
    assert drawn["layers.2"].shape == (5, 4, 4) and np.ptp(drawn["layers.2"], axis=0).max() > 0
    arguments = ["--checkpoint", str(tmp_path / "m.safetensors"), "--samples", "8", "--quiet"]
    assert cli.main(["monte-carlo", "--manifold", "birkhoff", *arguments]) == 0
    assert "8 samples of N = 100" in capsys.readouterr().out
    assert cli.main(["monte-carlo", *arguments]) == 1
    with pytest.raises(ConfigError, match="rows for n = 3"):
        spectra.checkpoint_mixers(tmp_path / "m.safetensors", manifold="birkhoff", n=3)


def test_laboratory(tmp_path):
    told = []
    found = spectra.mixers(
        ["birkhoff", "stiefel", "identity"],
        n=3,
        depth=12,
        draws=20,
        progress=lambda *pair: told.append(pair),
    )
    # Three rounds of Sinkhorn, four ways of Cayley's, the identity, and two measurements.
    assert told == [(k, 10) for k in range(1, 11)]
    variants = {variant.name: variant for variant in found.variants}
    product = np.eye(3)
    for mixer in spectra.draw_mixers("birkhoff", 3, 240, rounds=20)[:12]:
        product = mixer @ product
    expected = np.linalg.svd(product, compute_uv=False)
    got = variants["birkhoff, rounds 20"].singular_values[0, -1]
    np.testing.assert_allclose(got[:2], expected[:2], rtol=1e-6)
    second = np.median(variants["birkhoff, rounds 20"].singular_values[:, :, 1], axis=0)
    assert second[-1] < 1e-3 < second[0]
    np.testing.assert_allclose(variants["stiefel, exact"].singular_values, 1, atol=1e-5)
    assert variants["stiefel, steps 2"].orthogonality[0] > 1e-4
    assert (
        variants["stiefel, steps 3"].orthogonality[0]
        < variants["stiefel, steps 2"].orthogonality[0]
    )
    # E‖g‖² grows by 1 + σ² a layer of the identity: by e^0.05 in all; its spread is 1/√(20·75).
    growth = np.mean(variants["identity"].gradient[:, -1] ** 2)
    assert growth == pytest.approx(math.exp(0.05), abs=0.1)
    assert found.sinkhorn[1.0][20][0] < found.sinkhorn[1.0][1][0]
    assert found.cayley[1.0][0][1] < 1e-6
    paths = found.write(tmp_path / "out")
    assert sorted(p.name for p in paths) == [f"mixers.{k}" for k in ("csv", "json", "png", "svg")]
    assert json.loads((tmp_path / "out/mixers.json").read_text())["kind"] == "mixers"
    with pytest.raises(ConfigError, match="birkhoff"):
        spectra.mixers(["birkhof"])


def test_model_while_it_is_trained(tmp_path):
    model = LanguageModel(ModelConfig(layers=2, dim=16, heads=2, context=8)).init(0)
    spec = jpmhc.spec((2, 8), "i32")
    tokens = np.random.default_rng(0).integers(0, 256, (2, 8)).astype(np.int32)
    probe = spectra.LayerProbe(model, spec)
    assert "forward" not in vars(model.layers[0])  # tracing left the model as it was
    states = probe.states(tokens)
    assert [h.shape for h in states.values()] == [(2, 8, 16)] * 2
    logits = jpmhc.compile(model, spec)(tokens)
    final = states["layers.1"].astype(np.float64)
    normed = final / np.sqrt(np.mean(final**2, -1, keepdims=True) + 1e-5)
    weights = {name: array.astype(np.float64) for name, array in model.state_dict().items()}
    by_hand = (normed * weights["norm.gain"]) @ weights["head.weight"].T
    np.testing.assert_allclose(by_hand, logits, atol=1e-4)
    step = jpmhc.TrainStep(model, model.loss, AdamW(lr=1e-2), spec, spec)
    with MetricsWriter(tmp_path / "metrics.jsonl") as writer:
        callback = spectra.DiagnosticsCallback(probe, tokens, every=2, writer=writer)
        for _ in range(4):
            step(tokens, np.roll(tokens, -1, 1))
            callback(step)
    assert [number for number, _, _ in callback.history] == [1, 3]
    first, second = (diagnosis for _, diagnosis, _ in callback.history)
    assert (first.stable_rank != second.stable_rank).all()  # it sees the present parameters
    norms = spectra.gradient_norms(step, depth=9)
    total = math.sqrt(
        sum(float(np.sum(g.astype(np.float64) ** 2)) for g in step.gradients.values())
    )
    assert math.sqrt(sum(n * n for n in norms.values())) == pytest.approx(total)
    assert set(norms) == set(model.state_dict())
    records = read_metrics(tmp_path / "metrics.jsonl")
    assert [r["step"] for r in records] == [1, 3]
    assert records[1]["spectra_stable_rank"] == pytest.approx(second.stable_rank.mean())
    assert output.picture_bytes(callback.figure(), "png").startswith(b"\x89PNG")
    found = spectra.diagnose_contexts(
        lambda context: spectra.diagnose({k: h[:, :context] for k, h in states.items()}), [4, 8]
    )
    assert [d.context for d in found] == [4, 8]
    assert output.picture_bytes(spectra.draw_contexts({"model": found}), "png")


def test_command_samples_drawn_mixers(capsys):
    arguments = ["--manifold", "stiefel", "--depth", "2", "--samples", "9", "--channels", "5"]
    assert cli.main(["monte-carlo", *arguments, "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["size"] == 20
