# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times compiled functions beside what a PyTorch user would run instead.

    python -m jpmhc.bench [--only REGEX] [--threads N] [--dtype f32] [--json OUT] [--list]

Of each case ours and every formulation of the peers run in turn, so that a drift of the machine
meets all alike; printed are medians, the ratio to the fastest peer, and the multiple of the floor:
the time in which the bytes that a case cannot avoid to move are copied. A family of cases is a
module with a function ``cases(tiny)``; see `jpmhc.bench.families`.
"""
