"""CPU time per Sudoku, PyTorch against onnxruntime: python benchmarks/onnx_speed.py writes results/onnx.json.

CPU time on one thread, so that a busy machine measures the same; both solve the same puzzles from the same noise.
"""

import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

OUT = Path(__file__).parent.parent / "results" / "onnx.json"
PUZZLES = 24


def main() -> None:
    torch.set_num_threads(1)
    from dbtm.checkpoint.loading import load
    from dbtm.evals.provenance import made
    from dbtm.service.exporting import export_onnx, load_onnx
    from dbtm.tasks.sudoku.task import Sudoku

    plain, wide = load("sudoku", "cpu"), load("sudoku", "cpu")
    wide.network.float().fold()
    assert isinstance(plain.task, Sudoku)
    batch = plain.task.batch(np.arange(PUZZLES))
    with tempfile.TemporaryDirectory() as folder:
        file = export_onnx("sudoku", Path(folder) / "sudoku.onnx")
        exported = load_onnx("sudoku", file.path, threads=1)
        traces, rows = {}, []
        for name, sampler in (("PyTorch", plain), ("PyTorch, float32", wide), ("onnxruntime", exported)):
            for size in (1, 16):
                sampler.batch = size
                sampler.sample(tokens=batch.tokens[:size], clean=batch.prompt[:size], nfe=1)
                start = time.process_time()
                trace = sampler.sample(tokens=batch.tokens, clean=batch.prompt, nfe=4)
                seconds = time.process_time() - start
                traces[name] = trace.tokens
                rows.append({"runtime": name, "batch": size, "ms_per_puzzle": round(1000 * seconds / PUZZLES, 1)})
    same = float((traces["PyTorch, float32"] == traces["onnxruntime"]).mean())
    document = {"rows": rows, "puzzles": PUZZLES, "nfe": 4, "threads": 1, "same_tokens": same}
    document |= {"size": file.size, "pytorch_dtype": str(plain.network.dtype), **made(torch.device("cpu"))}
    OUT.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
