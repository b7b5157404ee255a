"""`dbtm doctor`: what this machine offers, what is chosen, and why."""

from dbtm.cli.console import say


def doctor() -> None:
    """Print device, dtype and kernels, and why they were chosen."""
    import os
    import platform
    from importlib.metadata import version

    import torch

    from dbtm import __version__
    from dbtm.core.device import fast_bf16
    from dbtm.kernels.dispatch import choose, choose_delta, no_compiling

    cuda = torch.cuda.is_available()
    rows = [("dbtm", __version__), ("python", platform.python_version()), ("torch", torch.__version__)]
    rows += [(name, version(name)) for name in ("numpy", "scipy", "numba", "safetensors")]
    if cuda:
        properties = torch.cuda.get_device_properties(0)
        memory = properties.total_memory / 2**30
        rows.append(("device", f"cuda: {torch.cuda.device_count()} x {properties.name}, {memory:.0f} GiB each"))
        rows.append(
            (
                "dtype",
                "sampling: bf16 products, fp32 norms; training: fp32, or bf16 products where train.precision=bf16",
            )
        )
    else:
        rows.append(("device", f"cpu: {os.cpu_count()} cores, {torch.get_num_threads()} threads (PyTorch sees no GPU)"))
        native = (
            "native here, used for bf16 checkpoints" if fast_bf16(torch.device("cpu")) else "not native here, not used"
        )
        rows.append(("dtype", f"fp32 (train.precision=fp32); bf16 products are {native}"))
    for label, softcap in (("attention", 0.0), ("attention, softcap", 50.0)):
        backend, reason = choose(softcap)
        rows.append((label, f"{backend}: {reason}"))
    rows.append(("delta rule", "{}: {}".format(*choose_delta())))
    why_not = no_compiling(torch.device("cuda" if cuda else "cpu"))
    rows.append(("train.compile", f"left out: {why_not}" if why_not else "torch.compile has what it needs"))
    rows.append(("tangents", "by hand in every layer, under no_grad, beside the value"))
    rows.append(("sandbox", _sandbox()))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        say(f"{name:{width}}  {value}")


def _sandbox() -> str:
    """The sandbox for generated programs: the protections that work here, tried in a process just now."""
    from dbtm.core.errors import UsageError
    from dbtm.sandbox import Sandbox

    try:
        with Sandbox(workers=1) as sandbox:
            missing = f"; not available here: {', '.join(sandbox.missing)}" if sandbox.missing else ""
            return ", ".join(["allow-list", "audit hook", "own process", *sandbox.means]) + missing
    except UsageError as error:
        return str(error)
