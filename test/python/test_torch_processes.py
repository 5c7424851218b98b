# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""jpmhc.torch beside other processes and libraries: DistributedDataParallel, forks, imports."""

import os
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch", reason="the extra jpmhc[torch] is not installed")

import jpmhc.torch as jt  # noqa: E402


def run(program, **environment):
    """Runs a program in a new process; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


COMPUTE = """
x = torch.randn(3, 4, 4, requires_grad=True)
jt.project(x, "birkhoff").sum().backward()
f = jpmhc.compile(lambda v: jpmhc.silu(v), jpmhc.spec((3,)))
assert f(np.zeros(3, np.float32)).sum() == 0
assert torch.linalg.svd(torch.randn(8, 8))[1].min() >= 0
print("fine")
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import torch; import jpmhc.torch as jt; import jpmhc; import numpy as np",
        "import jpmhc; jpmhc.compile; import jpmhc.torch as jt; import numpy as np; import torch",
    ],
    ids=["torch first", "jpmhc first"],
)
def test_imports_in_either_order(imports):
    assert run(imports + "\n" + COMPUTE) == "fine\n"


def test_without_torch_the_error_names_the_extra():
    program = """
    import sys
    sys.modules["torch"] = None
    from jpmhc.errors import MissingDependencyError
    try:
        import jpmhc.torch
    except MissingDependencyError as error:
        print(error)
    """
    assert "pip install 'jpmhc[torch]'" in run(program)


class Projections(torch.utils.data.Dataset):
    """Items that are computed by compiled code, in the worker."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        raw = torch.full((256, 4, 4), float(index)).triu()
        # The second function is compiled in the worker itself.
        return jt.project(raw, "stiefel"), jt.project(raw[: 3 + index], "birkhoff").sum()


def test_workers_forked_after_use_compute_the_same():
    torch.set_num_threads(2)
    data = Projections()
    want = [data[i] for i in range(len(data))]
    loader = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60
    )
    for got, expected in zip(loader, want, strict=True):
        assert torch.equal(got[0], expected[0]) and torch.equal(got[1], expected[1])


TRAINING = """
import os, sys
import torch
import torch.distributed as dist
import jpmhc.torch as jt

torch.set_num_threads(1)
rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = jt.HyperConnection(torch.nn.Linear(8, 8), 4, "birkhoff")
        self.schedule = jt.TRSPSchedule(3)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x):
        mixed = self.inner(x)[..., 1, :]
        return self.head(self.schedule(2, jt.mean_out(x), mixed))


torch.manual_seed(0)
model = Model()
if world > 1:
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world
    )
    forward = torch.nn.parallel.DistributedDataParallel(model)
else:
    forward = model
optimizer = jt.AdamAtan2(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(3)
for _ in range(5):
    # Equal streams, or their sum in place of one of them, would give the mixer a gradient of
    # rounding errors alone.
    x = torch.randn(4, 6, 4, 8, generator=generator)
    target = torch.randint(5, (4, 6), generator=generator)
    part = slice(rank * 4 // world, (rank + 1) * 4 // world)
    optimizer.zero_grad()
    jt.softmax_cross_entropy(forward(x[part]), target[part]).backward()
    optimizer.step()
torch.save(model.state_dict(), f"{folder}/{world}-{rank}.pt")
if world > 1:
    dist.destroy_process_group()
"""


def test_distributed_data_parallel(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TRAINING, str(rank), str(world), str(tmp_path)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, world in ((0, 2), (1, 2), (0, 1))
    ]
    for process in processes:
        _, messages = process.communicate(timeout=240)
        assert process.returncode == 0, messages[-3000:]
    first, second, joint = (torch.load(tmp_path / f"{name}.pt") for name in ("2-0", "2-1", "1-0"))
    for name, value in joint.items():
        assert torch.equal(first[name], second[name]), name
        # Sums of the gradients in another order, through five steps of 0.01.
        torch.testing.assert_close(first[name], value, rtol=1e-3, atol=2e-4)
