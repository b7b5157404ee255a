"""Layers that carry a tangent, and the backbone shared by all methods."""

from dbtm.nn.backbone import Backbone
from dbtm.nn.cache import Cache

__all__ = ["Backbone", "Cache"]
