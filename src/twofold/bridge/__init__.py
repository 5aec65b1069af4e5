"""Any v1 agent in a v2 client, any v2 agent in a v1 client: two sides and a translation."""

from twofold.bridge.bridge import Bridge
from twofold.bridge.loss_log import LossLog

__all__ = ["Bridge", "LossLog"]
