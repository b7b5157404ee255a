"""Two nodes of two processes each, in two network namespaces: python benchmarks/two_nodes.py [results/two-nodes.json]

Needs Linux, root and `ip`. The nodes see each other through one link alone and meet by `torchrun --nnodes 2`, each with
a loopback of its own. Every layout must train what one process trains, in float32: the weights after a few steps are
compared, relative to their largest, and beside them the bytes of checkpoint that every process wrote.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import torch

from dbtm.checkpoint import folder as checkpoint
from dbtm.evals.provenance import made

SETTINGS = [
    "train.batch=16", "train.steps=10", "optim.warmup=1", "train.device=cpu", "model.width=64", "model.depth=4",
    "model.heads=4", "train.micro_batch=4", "optim.name=adamw",
]  # fmt: skip
NODES = {"dbtm-node-0": "10.77.0.1", "dbtm-node-1": "10.77.0.2"}
LAYOUTS = ("replicate", "shard", "hybrid")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def two_namespaces():
    """Two namespaces with one link between them; gone afterwards."""
    try:
        for name in NODES:
            ip("netns", "add", name)
        ip("link", "add", "link0", "netns", "dbtm-node-0", "type", "veth", "peer", "link1", "netns", "dbtm-node-1")
        for number, (name, address) in enumerate(NODES.items()):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", f"link{number}")
            ip("-n", name, "link", "set", f"link{number}", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in NODES:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def train(run: Path, layout: str) -> list[str]:
    words = ["-m", "dbtm", "train", "markov", "--out", str(run)]
    settings = [*SETTINGS, f"train.layout={layout}"]
    return words + [word for setting in settings for word in ("--set", setting)]


def together(run: Path, layout: str) -> None:
    """The command of docs/scale.md on both nodes."""
    first, jobs = NODES["dbtm-node-0"], []
    for number, name in enumerate(NODES):
        words = ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
        words += ["--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:29400"]
        words += ["--local-addr", NODES[name], "--rdzv-conf", f"is_host={int(number == 0)}"]  # one host name for both
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": f"link{number}"}
        jobs.append(subprocess.Popen([*words, *train(run, layout)], env=environment, stderr=subprocess.PIPE))
    for job in jobs:
        _, errors = job.communicate(timeout=300)
        if job.returncode:
            sys.exit(errors.decode()[-4000:])


def compared(one: Path, other: Path) -> float:
    """The largest difference of a weight, over the largest weight, of the averages and of the weights in training."""
    worst = 0.0
    for part in ("model", "ema"):
        a, b = (checkpoint.read_tensors(checkpoint.find(run), part) for run in (one, other))
        floats = [key for key in a if a[key].is_floating_point()]
        top = max(float(a[key].abs().max()) for key in floats)
        worst = max(worst, *(float((a[key] - b[key]).abs().max()) / top for key in floats))
    return worst


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, two_namespaces():
        one = Path(folder) / "one"
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, *train(one, "auto")], env=environment, check=True, capture_output=True)
        for layout in LAYOUTS:
            run = Path(folder) / layout
            together(run, layout)
            newest = checkpoint.find(run)
            sizes = [sum(p.stat().st_size for p in newest.glob(f"*-0000{rank}.safetensors")) for rank in (1, 2, 3, 4)]
            rows.append({"layout": layout, "largest_difference": compared(one, run), "checkpoint_bytes": sizes})
            print(f"{layout:10} differs by {rows[-1]['largest_difference']:.1e}; bytes per process {sizes}", flush=True)
    document = {"nodes": 2, "processes_per_node": 2, "rows": rows, "recipe": "markov", "settings": SETTINGS, "seed": 0}
    if len(sys.argv) > 1:
        made_by = made(torch.device("cpu"))
        Path(sys.argv[1]).write_text(json.dumps({**document, **made_by}, indent=1) + "\n")
    if any(row["largest_difference"] > 1e-5 for row in rows):
        sys.exit("the layouts differ")


if __name__ == "__main__":
    main()
