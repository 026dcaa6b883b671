"""The demo model: a scripted, OpenAI-compatible endpoint of this server, and not an AI.

It answers from the request that it is given and from nothing else, so it shows what memory did.
"""

from chat.demo_model.seen import forget, requests_seen

__all__ = ["forget", "requests_seen"]
