"""The tools that are built in: what is remembered, earlier conversations, the time."""
