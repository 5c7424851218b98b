# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `jpmhc-spectra`: spectra of mixers, of side paths and of representations.

Each subcommand is the function of the same name in `jpmhc.spectra`. It prints a table, or with
--json everything as one JSON object, and with -o FOLDER writes files, all or none. The exit code is
0; 1 after an error, which is said in one line; 2 for a wrong command line; 3 where some points did
not converge, which are NaN and named; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jpmhc._pipes import ends_with_its_reader
from jpmhc.errors import ConfigError, DataError, JpmhcError, unknown_name
from jpmhc.spectra import output
from jpmhc.spectra.figure_one import panel_mixers
from jpmhc.training import Progress

__all__ = ["PROGRAM", "main", "parser"]

PROGRAM = "jpmhc-spectra"


@dataclass(frozen=True)
class Report:
    """What a subcommand found: a text, a JSON object, files, and whether all points converged."""

    kind: str
    text: str
    content: dict[str, Any]
    files: Callable[[], dict[str, bytes]]
    converged: bool = True


Reporter = Callable[[argparse.Namespace, Callable[[int, int], None] | None], Report]


@dataclass(frozen=True)
class Command:
    """A subcommand: its name, what it does, its options, examples, and how it runs."""

    name: str
    summary: str
    examples: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Reporter


def parser() -> argparse.ArgumentParser:
    """The command line; a parsed one has the `Command` as `command`."""
    result = argparse.ArgumentParser(
        prog=PROGRAM,
        description=__doc__.split("\n\n")[0],
        epilog=__doc__.split("\n\n", 1)[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = result.add_subparsers(dest="name", metavar="SUBCOMMAND", required=True)
    for command in _COMMANDS:
        sub = subparsers.add_parser(
            command.name,
            help=command.summary,
            description=command.summary,
            epilog="examples:\n" + command.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        common = sub.add_argument_group("common options")
        common.add_argument(
            "-o", "--output", type=Path, metavar="FOLDER", help="write files here, all or none"
        )
        common.add_argument("--json", action="store_true", help="print JSON instead of a table")
        common.add_argument("--quiet", action="store_true", help="no progress")
        sub.set_defaults(command=command)
    return result


@ends_with_its_reader
def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return the exit code."""
    options = parser().parse_args(arguments)
    try:
        if options.output is not None:
            output.check_folder(options.output)
        report = _run(options)
        if options.output is not None:
            paths = output.write_files(options.output, report.files())
            print("\n".join(f"wrote {path}" for path in paths), file=sys.stderr)
        if options.json:
            print(output.json_bytes(report.kind, report.content).decode(), end="")
        else:
            print(report.text)
    except JpmhcError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return 130
    return 0 if report.converged else 3


def _run(options: argparse.Namespace) -> Report:
    if options.quiet:
        return options.command.run(options, None)
    bars: list[Progress] = []

    def progress(done: int, total: int) -> None:
        if not bars:
            bars.append(Progress(total, start=done, interval=0.2 if sys.stderr.isatty() else 5))
        bars[0].update(done)

    try:
        return options.command.run(options, progress)
    finally:
        if bars and sys.stderr.isatty():
            bars[0].close()


# Mixers on the command line.


def _add_mixers(sub: argparse.ArgumentParser) -> None:
    known = ", ".join(panel_mixers())
    sub.add_argument(
        "--mixer",
        action="append",
        metavar="NAME|FILE",
        help=f"of a layer, the first applied first; repeat it for several. {known}, or a .npy or "
        ".json file of one [q, q] or of several [L, q, q]. By default identity",
    )
    sub.add_argument("--depth", type=int, default=1, metavar="L", help="repeat the mixers L times")
    sub.add_argument(
        "--sigma2", type=float, nargs="+", default=[0.05], help="variance of all layers or of each"
    )


def _mixers(options: argparse.Namespace) -> tuple[list[np.ndarray], Any]:
    """Mixers and variances."""
    if options.depth < 1:
        raise ConfigError("--depth", expected="at least 1", given=options.depth)
    block = [m for name in options.mixer or ["identity"] for m in _mixers_of(name)]
    sigma2 = options.sigma2
    return block * options.depth, sigma2[0] if len(sigma2) == 1 else sigma2


def _mixers_of(name: str) -> list[np.ndarray]:
    known = panel_mixers()
    if name in known:
        return [known[name]]
    path = Path(name)
    if path.suffix not in (".npy", ".json"):
        raise unknown_name("mixer", name, known)
    array = _load(path)
    return list(array) if array.ndim == 3 else [array]


def _load(path: Path) -> np.ndarray:
    """An array of a .npy or .json file."""
    try:
        if path.suffix == ".json":
            return np.asarray(json.loads(path.read_text()), np.float64)
        return np.load(path, allow_pickle=False)
    except OSError as error:
        raise DataError("cannot read", given=error.strerror or error, where=path) from error
    except (ValueError, TypeError, EOFError) as error:
        raise DataError("not an array", given=error, where=path) from error


def _curve_figure(title: str, x: np.ndarray, ys: dict[str, np.ndarray], xlabel: str) -> Any:
    figure = output.new_figure(7, 4.2)
    axes = figure.subplots()
    for (name, y), colour in zip(ys.items(), output.COLOURS, strict=False):
        axes.plot(x, y, color=colour, linewidth=1.4, label=name)
    if len(ys) > 1:
        axes.legend(frameon=False, fontsize=9)
    output.dress(axes, title, xlabel, next(iter(ys)) if len(ys) == 1 else "")
    return figure


def _pictures(name: str, figure: Any) -> dict[str, bytes]:
    return {f"{name}.{kind}": output.picture_bytes(figure, kind) for kind in ("png", "svg")}


# The subcommands.


def _add_greens(sub: argparse.ArgumentParser) -> None:
    _add_mixers(sub)
    sub.add_argument(
        "--z", type=_complex, nargs="+", required=True, help="points such as 0.5+0.05j"
    )
    _add_explain(sub)


def _add_explain(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--explain", action="store_true", help="say which solver was taken, why, and how far off"
    )


def _explained(solution: Any, options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """What --explain adds to the text and to the JSON object."""
    if not options.explain:
        return "", {}
    names = ("method", "reason", "error", "second")
    about = {name: getattr(solution, name) for name in names}
    return f"\n{solution}", {**about, "residual": float(solution.residual.max(initial=0))}


def _complex(text: str) -> complex:
    try:
        return complex(text.replace(" ", "").replace("i", "j"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number like 0.5+0.05j, got {text}") from None


def _run_greens(options: argparse.Namespace, progress: Callable[[int, int], None] | None) -> Report:
    from jpmhc.spectra import solve, solvers

    mixers, sigma2 = _mixers(options)
    z = np.array(options.z)
    solution = solve(mixers, sigma2, z, check=options.explain, progress=progress)
    solvers.warn_of_failures(solution.converged, z)
    g = solution.value
    more, about = _explained(solution, options)
    rows = [[str(a), b.real, b.imag] for a, b in zip(options.z, g, strict=True)]
    text = "\n".join(f"G{a} = {b:.12f}" for a, b in zip(options.z, g, strict=True))
    return Report(
        "greens-function",
        text + more,
        {"z": z, "g": g, "layers": len(mixers), "sigma2": sigma2, **about},
        lambda: {"greens-function.csv": output.csv_bytes(["z", "re", "im"], rows)},
        bool(np.isfinite(g).all()),
    )


def _add_density(sub: argparse.ArgumentParser) -> None:
    _add_mixers(sub)
    sub.add_argument("--points", type=int, default=400, help="of the curve")
    sub.add_argument("--largest", type=float, default=2.0, help="singular value of the last point")
    sub.add_argument("--eta", type=float, default=1e-3, help="smoothing")
    _add_explain(sub)


def _run_density(
    options: argparse.Namespace, progress: Callable[[int, int], None] | None
) -> Report:
    from jpmhc.spectra import automatic, solvers

    if options.points < 2 or not options.largest > 0:
        expected = "--points of at least 2 and --largest above 0"
        raise ConfigError("curve", expected=expected, given=(options.points, options.largest))
    mixers, sigma2 = _mixers(options)
    s = np.linspace(0, options.largest, options.points + 1)[1:]
    density, solution = automatic.solve_density(
        mixers, sigma2, s, options.eta, check=options.explain, progress=progress
    )
    solvers.warn_of_failures(solution.converged, s)
    mass = float(np.sum(0.5 * (density[1:] + density[:-1]) * np.diff(s)))
    text = (
        f"{len(mixers)} layers, {options.points} points up to {options.largest:g}: mass {mass:.4f}"
    )
    if np.isfinite(density).any():
        most = int(np.nanargmax(density))
        text += f", largest density {density[most]:.4f} at {s[most]:.4f}"
    more, about = _explained(solution, options)

    def files() -> dict[str, bytes]:
        title = f"Singular values of {len(mixers)} layers, η = {options.eta:g}"
        figure = _curve_figure(title, s, {"density": density}, "singular value")
        rows = list(zip(s, density, strict=True))
        return {
            **_pictures("density", figure),
            "density.csv": output.csv_bytes(["s", "density"], rows),
        }

    content = {"s": s, "density": density, "eta": options.eta, "mass": mass, "sigma2": sigma2}
    converged = bool(np.isfinite(density).all())
    return Report("singular-value-density", text + more, {**content, **about}, files, converged)


def _add_spectrum(sub: argparse.ArgumentParser) -> None:
    _add_mixers(sub)
    add = sub.add_argument
    add("--quantiles", type=float, nargs="+", default=[0.01, 0.25, 0.5, 0.75, 0.99], metavar="P")
    add("--below", type=float, nargs="+", default=[1e-3, 1e-2, 1e-1], metavar="EPSILON",
        help="fractions of singular values up to these")  # fmt: skip


def _run_spectrum(
    options: argparse.Namespace, progress: Callable[[int, int], None] | None
) -> Report:
    from jpmhc.spectra import spectrum

    mixers, sigma2 = _mixers(options)
    if not all(0 < p <= 1 for p in options.quantiles):
        raise ConfigError("--quantiles", expected="parts in (0, 1]", given=options.quantiles)
    if not all(0 <= s < np.inf for s in options.below):
        raise ConfigError("--below", expected="singular values ≥ 0", given=options.below)
    found = spectrum(mixers, sigma2, progress=progress)
    quantiles, below = found.quantile(options.quantiles), found.fraction_below(options.below)
    rows = [
        [f"{at:.10g}", f"{at:.10g}", "atom", "atom", f"{mass:.8f}", None]
        for at, mass in found.atoms
    ] + [
        [f"{i.lower.location:.10g}", f"{i.upper.location:.10g}", i.lower.kind, i.upper.kind,
         f"{i.mass:.8f}", f"{max(i.lower.error, i.upper.error):.0e}"]
        for i in found.intervals
    ]  # fmt: skip
    parts = [
        output.table(["from", "to", "edge", "edge", "mass", "edges' error"], rows),
        output.table(
            ["moment", "of squares"],
            [[f"m{k + 1}", f"{m:.10g}"] for k, m in enumerate(found.moments)],
        ),
        output.table(
            ["part", "singular value"],
            [[f"{p:g}", f"{s:.6g}"] for p, s in zip(options.quantiles, quantiles, strict=True)],
        ),
        output.table(
            ["up to", "part"],
            [[f"{s:g}", f"{p:.6f}"] for s, p in zip(options.below, below, strict=True)],
        ),
        f"condition number {found.condition_number:.6g}; mass at 0 {found.zero_mass:.6f}, above it "
        f"but unresolved {found.unresolved_mass:.6f} (below {found.resolved_from:.1e})\n"
        f"checks: m1 off by {found.moment_error:.0e}, mean square by {found.mean_square_error:.0e}"
        + ("" if found.mass_error is None else f", mass by {found.mass_error:.0e}"),
    ]
    content = {
        **found.as_dict(),
        "quantiles": dict(zip(map(str, options.quantiles), quantiles, strict=True)),
        "fraction_below": dict(zip(map(str, options.below), below, strict=True)),
        "layers": len(mixers),
        "sigma2": sigma2,
    }

    def files() -> dict[str, bytes]:
        s = np.linspace(0, 1.05 * found.largest, 1001)[1:]
        density = found.density(s)
        figure = _curve_figure(
            f"Singular values of {len(mixers)} layers, nothing smoothed",
            s, {"density": density}, "singular value",
        )  # fmt: skip
        return {
            **_pictures("spectrum", figure),
            "spectrum.csv": output.csv_bytes(["s", "density"], list(zip(s, density, strict=True))),
            "spectrum.json": output.json_bytes("spectrum", content),
        }

    return Report("spectrum", "\n\n".join(parts), content, files)


def _add_monte_carlo(sub: argparse.ArgumentParser) -> None:
    _add_mixers(sub)
    add = sub.add_argument
    add("--channels", type=int, default=25, metavar="P", help="N = qP")
    add("--samples", type=int, default=300)
    add("--bins", type=int, default=200)
    add("--seed", type=int, default=0)
    add("--haar", action="store_true", help="a random rotation after each layer")
    add("--manifold", help="draw the mixers of each sample from it, in place of --mixer")
    add(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="take the layers of a trained model of that manifold, for random tokens",
    )
    add("--streams", type=int, default=4, metavar="N", help="of the drawn mixers")
    add("--scale", type=float, default=1.0, help="of the raw numbers of the drawn mixers")


def _sampled_mixers(options: argparse.Namespace) -> tuple[Any, Any]:
    """Mixers [L, q, q], or of each sample, and variances."""
    from jpmhc.spectra import checkpoint_mixers, draw_mixers

    if options.manifold is None:
        if options.checkpoint is not None:
            raise ConfigError("--checkpoint", expected="--manifold NAME beside it", given="none")
        return _mixers(options)
    if options.mixer or options.depth < 1:
        given = options.mixer or options.depth
        raise ConfigError("--manifold", expected="no --mixer, --depth above 0", given=given)
    sigma2 = options.sigma2[0] if len(options.sigma2) == 1 else options.sigma2
    streams, samples, seed = options.streams, options.samples, options.seed
    if options.checkpoint is not None:
        blocks = checkpoint_mixers(
            options.checkpoint, manifold=options.manifold, n=streams, tokens=samples, seed=seed
        )
        return np.stack(list(blocks.values()) * options.depth, 1), sigma2
    count = samples * options.depth
    drawn = draw_mixers(options.manifold, streams, count, scale=options.scale, seed=seed)
    return drawn.reshape(samples, options.depth, streams, streams), sigma2


def _run_monte_carlo(
    options: argparse.Namespace, progress: Callable[[int, int], None] | None
) -> Report:
    from jpmhc.spectra import monte_carlo

    mixers, sigma2 = _sampled_mixers(options)
    found = monte_carlo(
        mixers,
        sigma2,
        channels=options.channels,
        samples=options.samples,
        seed=options.seed,
        haar=options.haar,
        bins=options.bins,
        keep=False,
        progress=progress,
    )
    rows = [
        [f"m{k + 1}", m, e]
        for k, (m, e) in enumerate(zip(found.moments, found.moments_error, strict=True))
    ]
    text = f"{found.samples} samples of N = {found.size} in {found.seconds:.1f} s\n\n"
    text += output.table(["moment", "mean", "standard error"], rows)

    def files() -> dict[str, bytes]:
        figure = output.new_figure(7, 4.2)
        axes = figure.subplots()
        axes.stairs(found.density, found.edges, fill=True, color="#c9d3df")
        output.dress(
            axes, f"{found.samples} samples of N = {found.size}", "singular value", "density"
        )
        columns = (found.edges[:-1], found.edges[1:], found.density, found.density_error)
        names = ["from", "to", "density", "standard_error"]
        return {
            **_pictures("monte-carlo", figure),
            "monte-carlo.csv": output.csv_bytes(names, list(zip(*columns, strict=True))),
        }

    return Report("monte-carlo", text, found.as_dict(), files)


def _add_panel(sub: argparse.ArgumentParser) -> None:
    add = sub.add_argument
    add("--samples", type=int, default=300, help="of the Monte Carlo, and as many for the floor")
    add("--channels", type=int, default=25, metavar="P", help="N = 4P")
    add("--points", type=int, default=400, help="of each curve")
    add("--depths", type=int, nargs="+", default=[1, 2, 10], metavar="L")
    add("--noise", type=float, default=0.05, help="L times the variance of a layer")
    add("--seed", type=int, default=2026)


def _run_panel(options: argparse.Namespace, progress: Callable[[int, int], None] | None) -> Report:
    from jpmhc.spectra import panel

    found = panel(
        depths=options.depths,
        noise=options.noise,
        channels=options.channels,
        samples=options.samples,
        points=options.points,
        seed=options.seed,
        progress=progress,
    )
    content, converged = found.as_dict(), not found.failures()
    return Report("panel", found.text(), content, found.files, converged)


def _add_laboratory(sub: argparse.ArgumentParser) -> None:
    add = sub.add_argument
    add("--manifold", action="append", metavar="NAME", help="repeat it; all by default")
    add("--streams", type=int, default=4, metavar="N")
    add("--depth", type=int, default=32, metavar="L")
    add("--draws", type=int, default=200)
    add("--scale", type=float, default=1.0, help="standard deviation of the raw numbers")
    add("--noise", type=float, default=0.05, help="L times the variance of a layer")
    add("--seed", type=int, default=0)


def _run_laboratory(
    options: argparse.Namespace, progress: Callable[[int, int], None] | None
) -> Report:
    from jpmhc.spectra import mixers

    found = mixers(
        options.manifold,
        n=options.streams,
        depth=options.depth,
        draws=options.draws,
        scale=options.scale,
        noise=options.noise,
        seed=options.seed,
        progress=progress,
    )
    return Report("mixers", found.text(), found.as_dict(), found.files)


def _add_generating_sets(sub: argparse.ArgumentParser) -> None:
    add = sub.add_argument
    add("n", type=int, help="streams")
    add("count", type=int, help="permutations in the set")
    add("--method", choices=["auto", "exhaustive", "annealing"], default="auto")
    add("--proposals", type=int, default=4000, help="of each restart of the annealing")
    add("--restarts", type=int, default=4, help="of the annealing")
    add("--seed", type=int, default=0, help="of the annealing")


def _run_generating_sets(
    options: argparse.Namespace, progress: Callable[[int, int], None] | None
) -> Report:
    from jpmhc.spectra import generating_sets

    found = generating_sets(
        options.n,
        options.count,
        method=options.method,
        seed=options.seed,
        proposals=options.proposals,
        restarts=options.restarts,
        progress=progress,
    )
    lines = [
        f"{found.count} permutations of {found.n}, {found.method}",
        f"largest |λ₁| - |λ₂|  {found.gap:.10f}"
        + (f", of {found.ties} sets" if found.ties is not None else ""),
        f"its 1 - σ₂           {found.singular_gap:.10f}",
    ]
    if found.largest_singular_gap is not None:
        lines.append(f"largest 1 - σ₂       {found.largest_singular_gap:.10f}")
    lines += [f"basis={found.basis}", ""]
    lines += [f"{name}: {value}" for name, value in found.record.items()]
    content = found.as_dict()
    return Report(
        "generating-sets",
        "\n".join(lines),
        content,
        lambda: {"generating-sets.json": output.json_bytes("generating-sets", content)},
    )


def _add_side_path(sub: argparse.ArgumentParser) -> None:
    add = sub.add_argument
    add("--tokens", type=int, default=512, metavar="T", help="of the bands")
    add("--layers", type=int, default=8, metavar="D")
    add("--gate", type=float, default=0.5, help="g of the bands")
    add("--exponent", type=float, default=float(np.log(2)), help="φ of the gate")
    add("--attention", default="sink", help="none, sink, uniform or local")
    add("--contexts", type=int, nargs="+", metavar="T", help="of the coverage")


def _run_side_path(
    options: argparse.Namespace, progress: Callable[[int, int], None] | None
) -> Report:
    from jpmhc.spectra import side_path

    found = side_path(
        options.tokens,
        options.layers,
        gate=options.gate,
        exponent=options.exponent,
        attention=options.attention,
        contexts=options.contexts,
        progress=progress,
    )
    content = found.as_dict()

    def files() -> dict[str, bytes]:
        return {
            **_pictures("side-path", found.figure()),
            "side-path.json": output.json_bytes("side-path", content),
        }

    return Report("side-path", found.text(), content, files)


def _add_diagnose(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "files", type=Path, nargs="+", help=".npy or .json files of [..., T, d], one a layer"
    )


def _run_diagnose(
    options: argparse.Namespace, progress: Callable[[int, int], None] | None
) -> Report:
    from jpmhc.spectra import diagnose

    found = diagnose({path.stem: _load(path) for path in options.files})
    content = found.as_dict()
    return Report(
        "diagnose",
        found.text(),
        content,
        lambda: {"diagnose.json": output.json_bytes("diagnose", content)},
    )


_COMMANDS = (
    Command(
        "greens-function",
        "Green's function of JᵀJ at complex points",
        "  jpmhc-spectra greens-function --mixer bistochastic --depth 2 --sigma2 0.025 "
        "--z 0.5+0.05j\n"
        "  jpmhc-spectra greens-function --mixer mixers.npy --z 1+0.1j 2+0.1j --json\n"
        "  jpmhc-spectra greens-function --mixer gaussian --depth 10 --z 1+0.1j --explain",
        _add_greens,
        _run_greens,
    ),
    Command(
        "singular-value-density",
        "density of the singular values of J",
        "  jpmhc-spectra singular-value-density --mixer gaussian --depth 10 --sigma2 0.005 "
        "--largest 4 -o out",
        _add_density,
        _run_density,
    ),
    Command(
        "spectrum",
        "edges, masses, moments and quantiles of the singular values, nothing smoothed",
        "  jpmhc-spectra spectrum --mixer gaussian --depth 2 --sigma2 0.025\n"
        "  jpmhc-spectra spectrum --mixer bistochastic --depth 10 --sigma2 0.005 --below 1e-4 "
        "--json",
        _add_spectrum,
        _run_spectrum,
    ),
    Command(
        "monte-carlo",
        "singular values of sampled products",
        "  jpmhc-spectra monte-carlo --mixer bistochastic --depth 10 --sigma2 0.005\n"
        "  jpmhc-spectra monte-carlo --manifold stiefel --depth 10 --sigma2 0.005 -o out\n"
        "  jpmhc-spectra monte-carlo --manifold birkhoff --checkpoint model.safetensors",
        _add_monte_carlo,
        _run_monte_carlo,
    ),
    Command(
        "panel",
        "theory over Monte Carlo for four mixers at three depths",
        "  jpmhc-spectra panel -o panel\n  jpmhc-spectra panel --samples 50 --depths 1 4 16",
        _add_panel,
        _run_panel,
    ),
    Command(
        "mixers",
        "compare manifolds against depth",
        "  jpmhc-spectra mixers -o mixers\n"
        "  jpmhc-spectra mixers --manifold birkhoff --manifold stiefel --depth 64 --scale 3",
        _add_laboratory,
        _run_laboratory,
    ),
    Command(
        "generating-sets",
        "permutations whose random walk mixes fastest",
        "  jpmhc-spectra generating-sets 4 4\n"
        "  jpmhc-spectra generating-sets 6 4 --method annealing --proposals 10000 --json",
        _add_generating_sets,
        _run_generating_sets,
    ),
    Command(
        "side-path",
        "theory of TRSP's side paths, and where it fails",
        "  jpmhc-spectra side-path --tokens 1024 --layers 10 -o side-path\n"
        "  jpmhc-spectra side-path --attention local --json",
        _add_side_path,
        _run_side_path,
    ),
    Command(
        "diagnose",
        "is a representation collapsing?",
        "  jpmhc-spectra diagnose layer0.npy layer1.npy layer2.npy",
        _add_diagnose,
        _run_diagnose,
    ),
)
