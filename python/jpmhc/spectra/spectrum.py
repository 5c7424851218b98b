# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The limiting distribution of singular values itself: atoms, edges, moments, quantiles.

Nothing is smoothed: inside the support the equations are solved on the real axis, where their
solution is the limit from above; outside it the solution there is real, and t₀ = w G(w²) falls.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray

from jpmhc.errors import ConfigError
from jpmhc.spectra import automatic
from jpmhc.spectra.model import Layers, points
from jpmhc.spectra.solvers import Progress

__all__ = ["Edge", "Interval", "Spectrum", "SpectrumWarning", "spectrum"]

#: A point counts as inside the support from this imaginary part of t₀ on, relative to |t₀| and to
#: 1/√m₁: far smaller values are rounding.
_INSIDE = 1e-8
#: Panels of an interval: their number is doubled up to the last until the mass stands still.
_PANELS, _ORDER = (24, 48, 96, 192), 10
#: Lowest singular value looked at, in units of √m₁: rounding hides what lies much below it.
_LOWEST = 1e-9
#: Rounding of an interval's mass: quantiles that close to a gap's mass are at its lower side.
_MASS_ROUNDING = 1e-9
#: Most sweeps for a point, and for one of a shallow product `_SWEEPS_LAYERS` over the depth; a
#: point that takes more is one that rounding keeps from converging.
_SWEEPS, _SWEEPS_LAYERS = 1000, 20000
#: Residual of a point that counts: rounding keeps some points of deep products from the solver's
#: own tolerance, and where it does harm, mass and mean square show it.
_RESIDUAL = 1e-6
#: Points that are solved at once, from the largest down, while looking for the support.
_BLOCK = 20
#: Range of the variable u of `Interval`; at its ends s is within 1e-14 of the interval's ends.
_RANGE = 3.0


class SpectrumWarning(UserWarning):
    """A spectrum whose mass or mean square is not what it must be; the warning says by how much."""


@dataclass(frozen=True)
class Edge:
    """An end of the support.

    Attributes:
        location: the singular value.
        kind: "soft": the density begins like a square root; "hard": at zero, which singular
            values cannot cross; "unresolved": below what is resolved, given as 0; "other":
            another behaviour, such as where two intervals touch.
        error: the distance to a second estimate, from the slope of G outside the support (1/G′²
            vanishes linearly at a square root); the bisection's width for other kinds.
    """

    location: float
    kind: str
    error: float


@dataclass(frozen=True)
class Interval:
    """A connected part of the support, with the density on nodes in it.

    s = lower + (upper − lower) δ, δ = 1/(1 + exp(−π sinh u)): algebraic behaviour at the ends
    becomes smooth decay in u. In each of equal panels of u the density is a polynomial through
    Gauss and Legendre's nodes.

    Attributes:
        lower: lower end.
        upper: upper end.
        mass: of the interval.
    """

    lower: Edge
    upper: Edge
    mass: float
    _coefficients: NDArray[np.float64] = field(repr=False)
    _integrals: NDArray[np.float64] = field(repr=False)

    @property
    def width(self) -> float:
        """upper − lower."""
        return self.upper.location - self.lower.location

    def mass_above(self, s: NDArray[np.float64]) -> NDArray[np.float64]:
        """∫ ρ over the part of the interval above s."""
        below = np.clip((s - self.lower.location) / self.width, 0, 1)
        above = np.clip((self.upper.location - s) / self.width, 0, 1)
        with np.errstate(divide="ignore"):
            u = np.arcsinh((np.log(below) - np.log(above)) / np.pi)
        return self._mass_above_u(np.clip(u, -_RANGE, _RANGE))

    def _mass_above_u(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        panels = len(self._integrals)
        position = (u + _RANGE) / (2 * _RANGE) * panels
        panel = np.clip(position.astype(int), 0, panels - 1)
        local = 2 * (position - panel) - 1
        after = np.append(self._integrals[::-1].cumsum()[::-1], 0.0)[panel + 1]
        primitive = legendre.legint(self._coefficients, axis=1)
        half = _RANGE / panels
        at = legendre.legval(local, primitive[panel].T, tensor=False)
        end = legendre.legval(np.ones_like(local), primitive[panel].T, tensor=False)
        return after + half * (end - at)

    def locate(self, above: float) -> float:
        """The s of the interval with that mass above it."""
        low, high = -_RANGE, _RANGE
        for _ in range(60):
            middle = (low + high) / 2
            if self._mass_above_u(np.array(middle)) > above:
                low = middle
            else:
                high = middle
        return float(_position(np.array(low), self.lower.location, self.upper.location)[0])


def _position(u: NDArray, lower: float, upper: float) -> tuple[NDArray, NDArray]:
    """s(u) and ds/du of `Interval`."""
    exponential = np.exp(-np.pi * np.sinh(u))
    delta = 1 / (1 + exponential)
    slope = np.pi * np.cosh(u) * exponential * delta**2
    return lower + (upper - lower) * delta, (upper - lower) * slope


class Spectrum:
    """The limiting distribution of the singular values of J.

    Attributes:
        layers: what it belongs to.
        zero_mass: mass of the atom at 0, exact from ranks.
        atoms: (location, mass) of each atom, in order; with noise there is at most that at 0.
        intervals: connected parts of the continuous support, in order.
        unresolved_mass: of singular values above 0 but below what is resolved, as deep products
            have them; known exactly, though not where it lies.
        resolved_from: below this singular value rounding hides the spectrum; 0 where it is seen
            down to 1e-9 √m₁.
        moments: float64 [4], m_k = lim (1/N) tr (JᵀJ)ᵏ, by a contour around the support.
        moment_error: relative distance of m₁ from its exact recursion.
        mass_error: |total mass − 1|; None where a hard edge lets the density diverge at 0 and the
            mass near it is taken to be what is missing.
        mean_square_error: relative distance of ∫ s² ρ from the exact m₁, which tests the edges and
            the density together.
    """

    def __init__(self, layers: Layers, *, progress: Progress | None = None) -> None:
        self.layers = layers
        self.zero_mass = layers.zero_mass
        self._progress = progress
        self._span, self._percent = (0.0, 0.0), 0
        scalar = layers.orthogonal_scales is not None
        self._solved = automatic.scalar_layers(layers) if scalar else layers
        self.intervals: list[Interval] = []
        self.mass_error: float | None = 0.0
        self.unresolved_mass = self.resolved_from = 0.0
        self.mean_square_error = self.moment_error = self._mean_square = 0.0
        if not layers.sigma2.any():
            self._take_atoms()
            return
        self.atoms = [(0.0, self.zero_mass)] if self.zero_mass > 0 else []
        support = self._find_support()
        for k, (lower, upper) in enumerate(support):
            self._span = (70 + 25 * k / len(support), 70 + 25 * (k + 1) / len(support))
            self.intervals.append(self._integrate(lower, upper))
        self._span = (95, 100)
        self._take_moments()
        self._audit()

    # ------------------------------------------------------------------ what users ask

    def density(self, s: ArrayLike) -> NDArray[np.float64]:
        """The continuous part's density at s ≥ 0, any shape; 0 outside the support.

        Raises:
            ConfigError: a negative or non-finite s.
        """
        s = _singular_values(s)
        inside = np.zeros(s.shape, bool)
        for interval in self.intervals:
            inside |= (s > interval.lower.location) & (s < interval.upper.location)
        density = np.zeros(s.shape)
        if inside.any():
            density[inside] = np.maximum(-2 / np.pi * self._solve(s[inside])[0].imag, 0)
        return density

    def cdf(self, s: ArrayLike) -> NDArray[np.float64]:
        """The fraction of singular values ≤ s, any shape.

        Raises:
            ConfigError: a negative or non-finite s.
        """
        s = _singular_values(s)
        above = np.zeros(s.shape)
        for location, mass in self.atoms:
            above += mass * (s < location)
        for interval in self.intervals:
            above += interval.mass_above(s)
        return np.clip(1 - above, 0, 1)

    def quantile(self, p: ArrayLike) -> NDArray[np.float64]:
        """The smallest s with cdf(s) ≥ p, for 0 < p ≤ 1, any shape.

        Raises:
            ConfigError: a p outside (0, 1].
        """
        p = points(p, "p", dtype=np.float64)
        if not ((p > 0) & (p <= 1)).all():
            raise ConfigError("p", expected="fractions in (0, 1]", given=p.tolist())
        return np.array([self._quantile(float(x)) for x in p.ravel()]).reshape(p.shape)

    def fraction_below(self, epsilon: ArrayLike) -> NDArray[np.float64]:
        """The fraction of singular values ≤ ε: directions in which gradients have died."""
        return self.cdf(epsilon)

    @property
    def largest(self) -> float:
        """The upper end of the support."""
        ends = [location for location, _ in self.atoms]
        return max(ends + [interval.upper.location for interval in self.intervals])

    @property
    def smallest(self) -> float:
        """The lower end of the support; 0 where that lies below what is resolved."""
        ends = [location for location, _ in self.atoms]
        if self.unresolved_mass > 0:
            return 0.0
        return min(ends + [interval.lower.location for interval in self.intervals])

    @property
    def condition_number(self) -> float:
        """largest / smallest; infinite where the support reaches below what is resolved."""
        return self.largest / self.smallest if self.smallest > 0 else float("inf")

    def as_dict(self) -> dict[str, Any]:
        """Everything but the density, for JSON."""
        names = ("zero_mass", "atoms", "unresolved_mass", "resolved_from", "moments", "smallest",
                 "largest", "condition_number", "moment_error", "mass_error",
                 "mean_square_error")  # fmt: skip
        intervals = [
            {"lower": vars(i.lower), "upper": vars(i.upper), "mass": i.mass} for i in self.intervals
        ]
        return {"intervals": intervals, **{name: getattr(self, name) for name in names}}

    # ------------------------------------------------------------------ solving

    def _solve(self, s: NDArray, chunk: int = 25) -> tuple[NDArray, NDArray]:
        """t₀ at s + i0, and whether it is known there."""
        found = self._run(s, [], chunk)
        t, residual = found["value"], found["residual"]
        # Rounding leaves an imaginary part of about the residual where t₀ is real.
        rounding = 100 * residual * (np.abs(t) + 1 / self._root)
        t = np.where(-t.imag > rounding, t, t.real)
        return t.reshape(s.shape), (residual < _RESIDUAL).reshape(s.shape)

    def _slope(self, s: NDArray) -> NDArray:
        """dt₀/ds at points outside the support."""
        return self._run(s, ["slope"])["slope"].real.reshape(s.shape)

    def _run(self, s: NDArray, wanted: list[str], chunk: int = 25) -> dict[str, NDArray]:
        # From the largest down: the smaller, the harder to solve without a good start.
        order = np.argsort(-s, axis=None)
        points = s.ravel()[order].astype(complex)
        most = max(_SWEEPS, _SWEEPS_LAYERS // self.layers.depth)
        found = self._solved.chain.solve(
            points, None, "newton", 0.0, most, chunk, wanted, self._observer()
        )
        back = np.argsort(order)
        return {name: values[back] for name, values in found.items()}

    def _observer(self) -> Progress | None:
        """What a run of the solver calls: the run is a part of the whole, in percent."""
        progress = self._progress
        if progress is None:
            return None
        low, high = self._span

        def observe(done: int, total: int) -> None:
            self._percent = max(self._percent, int(low + (high - low) * done / max(total, 1)))
            progress(self._percent, 100)

        return observe

    def _take_atoms(self) -> None:
        """Without noise J is the product of its mixers."""
        product = np.eye(self.layers.size)
        for mixer in self.layers.mixers:
            product = mixer @ product
        values = np.linalg.svd(product, compute_uv=False)[::-1]
        values[: round(self.zero_mass * self.layers.size)] = 0
        self.atoms: list[tuple[float, float]] = []
        for value in values:
            if self.atoms and abs(value - self.atoms[-1][0]) <= 1e-12 * values[-1]:
                self.atoms[-1] = (self.atoms[-1][0], self.atoms[-1][1] + 1 / len(values))
            else:
                self.atoms.append((float(value), 1 / len(values)))
        self.moments = np.array([np.mean(values ** (2 * k)) for k in range(1, 5)])

    def _find_support(self) -> list[tuple[Edge, Edge]]:
        s, t = self._search(self._grid())
        self._span = (60, 70)
        for _ in range(40):
            extra = _suspects(s, t, self._is_inside(t))
            if not extra.size:
                break
            found, converged = self._solve(extra)
            s = np.concatenate([s, extra[converged]])
            t = np.concatenate([t, found[converged]])
            order = np.argsort(s)
            s, t = s[order], t[order]
        inside = self._is_inside(t)
        lower = np.flatnonzero(~inside[:-1] & inside[1:])
        upper = np.flatnonzero(inside[:-1] & ~inside[1:])
        cusps = _cusps(s, t, inside)
        starts = np.sort(np.concatenate([self._bisect(s[lower], s[lower + 1]), cusps]))
        ends = np.sort(np.concatenate([self._bisect(s[upper], s[upper + 1]), cusps]))
        first, last = [], []
        if inside[0]:
            hard = inside[s < 1e4 * s[0]].all()
            first = [Edge(0.0, "hard" if hard else "unresolved", 0.0)]
        else:
            # Below the lowest point t₀ is that of so much mass at 0.
            self.unresolved_mass = max(float(s[0] * t[0].real) - self.zero_mass, 0.0)
            if self.unresolved_mass < _RESIDUAL:
                self.unresolved_mass = 0.0
        if inside[-1]:
            last = [Edge(float(s[-1]), "other", float(s[-1]))]
        # Steps along an edge's neighbourhood stay well within the interval and the gap beside it.
        ordered = np.unique(np.concatenate([[0.0], starts, ends, [2 * s[-1]]]))
        begin = self._edges(starts, -1.0, _room(starts, ordered))
        finish = self._edges(ends, 1.0, _room(ends, ordered))
        return list(zip(first + begin, finish + last, strict=True))

    def _search(self, grid: NDArray) -> tuple[NDArray, NDArray]:
        """s and t₀ from the top of the grid down to where rounding hides all."""
        s, t = [], []
        for stop in range(len(grid), 0, -_BLOCK):
            block = grid[max(stop - _BLOCK, 0) : stop]
            self._span = (60 * (1 - stop / len(grid)), 60 * (1 - (stop - len(block)) / len(grid)))
            found, converged = self._solve(block, _BLOCK // 2)
            if s and 2 * converged.sum() < len(block):
                self.resolved_from = float(s[-1][0])
                break
            s.append(block[converged])
            t.append(found[converged])
        return np.concatenate(s[::-1]), np.concatenate(t[::-1])

    @property
    def _root(self) -> float:
        return float(np.sqrt(self.layers.first_moment))

    def _is_inside(self, t: NDArray) -> NDArray[np.bool_]:
        return -t.imag > _INSIDE * np.maximum(np.abs(t), 0.1 / self._root)

    def _grid(self) -> NDArray:
        """Where to look for the support: fine from a tenth of the root mean square up."""
        root = self._root
        norms = np.linalg.norm(self.layers.mixers, 2, axis=(1, 2))
        bound = float(np.log(norms + 2 * np.sqrt(self.layers.sigma2)).sum())
        top = min(1.01 * np.exp(min(bound, 600.0)), 1e3 * root)
        top = max(top, 1.01 * root)
        # Narrow bands lie near the singular values of the mixers' product.
        product = np.eye(self.layers.size)
        for mixer in self.layers.mixers:
            product = mixer @ product
        seeds = np.linalg.svd(product, compute_uv=False)
        grid = np.concatenate(
            [
                np.geomspace(_LOWEST, 1e-6, 40, endpoint=False) * root,
                np.geomspace(1e-6, 0.1, 200, endpoint=False) * root,
                np.geomspace(0.1 * root, top, int(np.log(10 * top / root) / 0.012) + 2),
                seeds[(seeds > _LOWEST * root) & (seeds < top)],
            ]
        )
        return np.unique(grid)

    def _bisect(self, low: NDArray, high: NDArray) -> NDArray:
        """The ends of the support between pairs of points, as points just outside of it.

        Each point is solved from nothing: a real start may stay real a little inside.
        """
        low, high = low.copy(), high.copy()
        low_inside = self._is_inside(self._solve(low, 1)[0])
        while (high - low > 1e-12 * high).any():
            middle = (low + high) / 2
            if ((middle == low) | (middle == high)).all():
                break
            same = self._is_inside(self._solve(middle, 1)[0]) == low_inside
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        return np.where(low_inside, high, low)

    def _edges(self, location: NDArray, direction: float, room: NDArray) -> list[Edge]:
        """Kinds and errors of edges; `direction` points out of the support."""
        kinds = self._kinds(location, direction, room)
        second = self._extrapolate(location, direction, room)
        return [
            Edge(float(e), kind, float(abs(e - other) if kind == "soft" else 1e-12 * e))
            for e, kind, other in zip(location, kinds, second, strict=True)
        ]

    def _kinds(self, edge: NDArray, direction: float, room: NDArray) -> list[str]:
        """From the exponent with which the density begins."""
        step = 1e-5 * room
        near = np.abs(self._solve(edge - direction * step, 1)[0].imag)
        far = np.abs(self._solve(edge - 4 * direction * step, 1)[0].imag)
        with np.errstate(divide="ignore", invalid="ignore"):
            exponent = np.log(far / near) / np.log(4)
        return ["soft" if abs(x - 0.5) < 0.05 else "other" for x in exponent]

    def _extrapolate(self, edge: NDArray, direction: float, room: NDArray) -> NDArray:
        """Where 1/t₀′², seen from outside the support, vanishes."""
        distance = 1e-5 * room
        y = []
        for factor in (1.0, 2.0, 4.0):
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = self._slope(edge + direction * factor * distance)
                y.append(1 / slope**2)
        # y = a d + b d^(3/2) + c d² in the true distance d; three points and the unknown edge:
        # secants with the half-power removed once.
        roots = []
        for (f0, y0), (f1, y1) in (((1.0, y[0]), (2.0, y[1])), ((2.0, y[1]), (4.0, y[2]))):
            with np.errstate(divide="ignore", invalid="ignore"):
                roots.append((f0 - y0 * (f1 - f0) / (y1 - y0)) * distance)
        weight = 2.0**1.5
        return edge + direction * (weight * roots[0] - roots[1]) / (weight - 1)

    def _integrate(self, lower: Edge, upper: Edge) -> Interval:
        """The interval between two edges, with as many panels as its density needs."""
        mass = None
        for panels in _PANELS:
            interval, square, lost = self._integrate_with(panels, lower, upper)
            if lost or (mass is not None and abs(interval.mass - mass) < 1e-10):
                break
            mass = interval.mass
        self._mean_square += square
        return interval

    def _integrate_with(self, panels: int, lower: Edge, upper: Edge) -> tuple[Interval, float, int]:
        """The interval with so many panels, its part of the mean square, and nodes that failed."""
        nodes, weights = legendre.leggauss(_ORDER)
        half = _RANGE / panels
        centres = -_RANGE + half * (2 * np.arange(panels) + 1)
        u = centres[:, None] + half * nodes
        s, slope = _position(u, lower.location, upper.location)
        t, converged = np.zeros(s.shape, complex), np.zeros(s.shape, bool)
        seen = s >= self.resolved_from
        t[seen], converged[seen] = self._solve(s[seen])
        t = np.where(converged, t, 0)
        density = np.maximum(-2 / np.pi * t.imag, 0) * slope
        # Near a hard edge the mass is what is missing above it (see `Spectrum.mass_error`).
        hidden = np.maximum(self.resolved_from, 1e-5 * self._root)
        converged |= (s < hidden) & (lower.location == 0)
        if not converged.all():
            warnings.warn(
                f"{(~converged).sum()} of {s.size} nodes of the density between "
                f"{lower.location:.6g} and {upper.location:.6g} did not converge and count as 0",
                SpectrumWarning,
                stacklevel=6,
            )
        basis = legendre.legvander(nodes, _ORDER - 1)
        coefficients = np.linalg.solve(basis, density.T).T
        integrals = half * density @ weights
        square = half * float(((density * s**2) @ weights).sum())
        interval = Interval(lower, upper, float(integrals.sum()), coefficients, integrals)
        return interval, square, int((~converged).sum())

    def _take_moments(self) -> None:
        """m_k = (1/2πi) ∮ zᵏ G dz on a circle of 1.5 times the largest square."""
        count = 48
        radius = 1.5 * self.largest**2
        z = radius * np.exp(1j * np.pi * (np.arange(count) + 0.5) / count)
        w = np.sqrt(z)
        found = self._solved.chain.solve(w, None, "newton", 0.0, 20000, 25, [], self._observer())
        g = found["value"] / w
        self.moments = np.array([np.mean(z ** (k + 1) * g).real for k in range(1, 5)])
        exact = self.layers.first_moment
        self.moment_error = abs(self.moments[0] - exact) / exact

    def _audit(self) -> None:
        """Compares mass and mean square with what they must be, and adds what a hard edge hides."""
        exact = self.layers.first_moment
        self.mean_square_error = abs(self._mean_square - exact) / exact
        missing = (
            1
            - self.zero_mass
            - self.unresolved_mass
            - sum(interval.mass for interval in self.intervals)
        )
        hard = bool(self.intervals) and self.intervals[0].lower.location == 0
        self.mass_error = None if hard else abs(missing)
        excess = max(-missing, 0.0) if hard else abs(missing)
        if max(excess, self.mean_square_error) > 1e-6:
            warnings.warn(
                f"the support that was found has mass {1 - missing:.8f} and its mean square is off "
                f"by {self.mean_square_error:.1e}; an interval may be missing",
                SpectrumWarning,
                stacklevel=5,
            )

    def _quantile(self, p: float) -> float:
        above = 1 - p
        parts = [(interval.lower.location, interval) for interval in self.intervals]
        parts += [(location, mass) for location, mass in self.atoms]
        for location, part in sorted(parts, key=lambda part: -part[0]):
            mass = part.mass if isinstance(part, Interval) else part
            # A mass is known to rounding: what is left over at a gap is not above it.
            if above < mass - _MASS_ROUNDING:
                at = max(above, 0.0)
                return part.locate(at) if isinstance(part, Interval) else location
            above -= mass
        return self.smallest


def _singular_values(s: ArrayLike) -> NDArray[np.float64]:
    s = points(s, "s", dtype=np.float64)
    if (s < 0).any():
        raise ConfigError("s", expected="singular values ≥ 0", given=float(s.min()))
    return s


def _room(edge: NDArray, ordered: NDArray) -> NDArray:
    """The distance of each edge to the nearest other one."""
    at = np.searchsorted(ordered, edge)
    after = ordered[np.minimum(at + 1, len(ordered) - 1)] - edge
    return np.minimum(edge - ordered[at - 1], after)


def _suspects(s: NDArray, t: NDArray, inside: NDArray) -> NDArray:
    """Points to add where a band or a gap may hide between neighbours.

    Outside the support t₀ falls, so a rise between two such points means a band between them; a
    minimum of the density that stays sharp under the magnifying glass may hold a gap.
    """
    rho = -t.imag
    rise = ~inside[:-1] & ~inside[1:] & (t.real[1:] > t.real[:-1])
    low = np.zeros(len(s), bool)
    low[1:-1] = inside[:-2] & inside[1:-1] & inside[2:]
    low[1:-1] &= rho[1:-1] < 0.95 * np.minimum(rho[:-2], rho[2:])
    cells = rise | low[:-1] | low[1:]
    cells &= s[1:] - s[:-1] > 1e-9 * s[1:]
    return (s[:-1] + s[1:])[cells] / 2


def _cusps(s: NDArray, t: NDArray, inside: NDArray) -> NDArray:
    """Sharp minima inside the support, where quadrature has to begin anew."""
    rho = -t.imag
    lowest = np.flatnonzero((rho[1:-1] < rho[:-2]) & (rho[1:-1] < rho[2:])) + 1
    lowest = lowest[inside[lowest - 1] & inside[lowest] & inside[lowest + 1]]
    around = np.minimum(np.interp(0.98 * s[lowest], s, rho), np.interp(1.02 * s[lowest], s, rho))
    return s[lowest[rho[lowest] < 0.6 * around]]


def spectrum(
    mixers: Sequence[ArrayLike], sigma2: ArrayLike, *, progress: Progress | None = None
) -> Spectrum:
    """The limiting distribution of the singular values of J = Y_L ... Y_1.

    Args:
        mixers: L ≥ 1 real q×q arrays, the first applied first.
        sigma2: σ_l² ≥ 0, one number or one a layer.
        progress: called as progress(percent, 100) about ten times a second.

    Raises:
        ShapeError, ConfigError, DTypeError: as `Layers.of`; a product that vanishes.

    Warns:
        SpectrumWarning: mass or mean square differ from what they must be by over 1e-6.
    """
    layers = Layers.of(mixers, sigma2)
    layers.chain  # noqa: B018  a product that vanishes is refused here
    return Spectrum(layers, progress=progress)
