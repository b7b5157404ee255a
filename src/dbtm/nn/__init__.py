"""Layers that carry a tangent, and the one backbone that all methods share."""

from dbtm.nn.backbone import Backbone
from dbtm.nn.cache import Cache

__all__ = ["Backbone", "Cache"]
