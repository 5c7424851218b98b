# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Green's functions: the numerical solvers, one function each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jpmhc import _spectral
from jpmhc.spectra.model import upper_half_plane

Progress = Callable[[int, int], None]


def scalar_dyson(
    a: float,
    sigma2: float,
    z: ArrayLike,
    *,
    all_roots: bool = False,
    progress: Progress | None = None,
) -> NDArray[np.complex128] | tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """G(z) = (1/N) tr (z − YᵀY)⁻¹ of Y = aI + σX by the corrected cubic.

    z σ⁴ G³ − 2 z σ² G² + (z + σ² − a²) G − 1 = 0 with G ~ 1/z. It follows from JPmHC's equations
    (61)–(63); the paper's own cubic (4), (8) does not tend to 1/z and is wrong. The root is
    followed along the vertical line from large |z| down to z, with a step that is halved wherever
    two roots come too near to tell them apart.

    Args:
        a: the multiple of the identity, any finite number.
        sigma2: variance times N of the noise's entries, ≥ 0.
        z: points in the upper half plane, any shape.
        all_roots: also return the three roots of each point, shape z.shape + (3,), the right one
            first (where σ² = 0 the others are infinite).
        progress: called as progress(done, total) about ten times a second.

    Raises:
        ConfigError: σ² < 0, a not finite, or a z outside the upper half plane.
        DTypeError: z holds no numbers.
    """
    z = upper_half_plane(z)
    found = _spectral.scalar_dyson(
        float(a), float(sigma2), np.ascontiguousarray(z.ravel()), all_roots, progress
    )
    if not all_roots:
        return found.reshape(z.shape)
    g, roots = found
    return g.reshape(z.shape), roots.reshape(*z.shape, 3)
