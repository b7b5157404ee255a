"""Networks whose weights come from a file: built without random initial weights, and within a size limit.

PyTorch's "meta" device does both, but its first use imports the compiler, which takes as long as importing PyTorch.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import init
from torch.overrides import TorchFunctionMode


class TooLarge(RuntimeError):
    """More elements were requested than allowed."""


class Unfilled(TorchFunctionMode):
    """A context that skips random initialization and allows at most `most` new elements."""

    def __init__(self, most: int):
        super().__init__()
        self.left = most

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _IN_PLACE:
            return args[0] if args else kwargs["tensor"]
        if func in _ELEMENTWISE and args[0].is_meta and not any(isinstance(x, Tensor) for x in args[1:]):
            return args[0]  # no values to compute with, and computing on "meta" imports the compiler
        if func in _MAKERS:
            self.left -= math.prod(_sizes(args, kwargs))
            if self.left < 0:
                raise TooLarge
        return func(*args, **kwargs) if func not in _RANDOM else torch.empty(*args, **kwargs)


_IN_PLACE = {Tensor.normal_, Tensor.uniform_, init.normal_, init.uniform_, init.kaiming_uniform_}
_ELEMENTWISE = {Tensor.mul, Tensor.__mul__, Tensor.__rmul__, torch.exp, Tensor.expm1, Tensor.log}
_RANDOM = {torch.randn, torch.rand}
_MAKERS = {torch.empty, torch.zeros, torch.ones, *_RANDOM}


def _sizes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[int]:
    """The sizes in a call that creates a tensor: separate numbers, or one sequence of them."""
    given = kwargs.get("size", args)
    return given[0] if given and not isinstance(given[0], int) else given
