"""The turn engine: one run of the model for one user message."""

from chat.turns.engine import Control, run
from chat.turns.orders import ANY_PARENT, Begun, Kind, Order, Refused, Repeated

__all__ = ["ANY_PARENT", "Begun", "Control", "Kind", "Order", "Refused", "Repeated", "run"]
