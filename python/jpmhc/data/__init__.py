# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The data of the documented experiments, in Python and NumPy alone.

`arc`: grids of ARC-AGI; `needle`: the bridged needle corpus; `ruler`: RULER; `packing`, `text`
and `instructions`: text for language models. `jpmhc.eval` scores what models make of them;
`python -m jpmhc.data` writes and shows them.
"""
