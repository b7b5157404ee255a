"""The map T = softmax(f): layers that carry a tangent, the DiT trunk, the quality head."""

from dbtm.nn.quality import QualityHead
from dbtm.nn.transport_map import TransportMap

__all__ = ["QualityHead", "TransportMap"]
