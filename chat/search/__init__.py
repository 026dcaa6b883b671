"""Search by words: over pieces of documents, and over messages."""
