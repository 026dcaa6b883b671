"""Conversations from and to other systems."""

from chat.transfer.messages import Imported, NotImportable, export_messages, import_messages

__all__ = ["Imported", "NotImportable", "export_messages", "import_messages"]
