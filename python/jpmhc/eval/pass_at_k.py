# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""pass@k: how likely one of k samples is right, estimated without bias from N samples.

Of N samples c are right. k of them drawn without replacement are all wrong in a part
C(N - c, k) / C(N, k) of the draws, so that (JPmHC, section 4.4)

    pass@k = 1 - C(N - c, k) / C(N, k).

The quotient is a product of min(c, k) factors below 1; their logarithms are added, so that no
binomial is ever formed.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from jpmhc.data.checks import whole
from jpmhc.errors import ShapeError

__all__ = ["all_wrong", "pass_at_k", "pass_at_k_of_all"]

_MOST_OUTPUTS = 16


def all_wrong(n: int, right: int, k: int) -> float:
    """C(n - right, k) / C(n, k): the chance that k of n samples are all wrong.

    Raises:
        ConfigError: not 0 <= right <= n, or not 1 <= k <= n.
    """
    n = whole("number of samples", n, 1)
    right, k = whole("number of right samples", right, 0, n), whole("k", k, 1, n)
    return 0.0 if k > n - right else math.exp(_log_all_wrong(n, right, k))


def _log_all_wrong(n: int, right: int, k: int) -> float:
    # C(n - c, k) / C(n, k) is symmetric in c and k: the product of 1 - max / (n - j), j < min.
    few, many = sorted((right, k))
    return math.fsum(math.log1p(-many / (n - j)) for j in range(few))


def pass_at_k(n: int, right: int, k: int) -> float:
    """1 - C(n - right, k) / C(n, k), to about 1e-14 of itself for n up to 10**4.

    Raises:
        ConfigError: not 0 <= right <= n, or not 1 <= k <= n.
    """
    if all_wrong(n, right, k) == 0.0 and k > n - right:
        return 1.0
    return -math.expm1(_log_all_wrong(n, right, k))


def pass_at_k_of_all(right: np.ndarray, k: int) -> float:
    """The chance that k samples have each of several outputs right at least once.

    A sample answers all outputs of a task; the task is solved if for each output one of the k
    answers is right. For one output this is `pass_at_k`. In general it is, by inclusion and
    exclusion over sets S of outputs with n_S the samples that are wrong in all of S,
    the sum over S of (-1)^|S| C(n_S, k) / C(N, k).

    Args:
        right: bool [N, outputs].
        k: 1..N.

    Raises:
        ConfigError: k is not in 1..N.
        ShapeError: not a matrix of 1 to 16 outputs.
    """
    right = np.asarray(right, dtype=bool)
    if right.ndim != 2 or not 1 <= right.shape[1] <= _MOST_OUTPUTS:
        expected = f"[N, 1..{_MOST_OUTPUTS}]"
        raise ShapeError("bad outputs", expected=expected, given=list(right.shape))
    n, outputs = right.shape
    if outputs == 1:
        return pass_at_k(n, int(right.sum()), k)
    terms = [1.0]
    for size in range(1, outputs + 1):
        for chosen in combinations(range(outputs), size):
            some_right = int(right[:, chosen].any(axis=1).sum())
            terms.append((-1) ** size * all_wrong(n, some_right, k))
    return min(max(math.fsum(terms), 0.0), 1.0)
