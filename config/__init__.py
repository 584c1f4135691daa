"""The configuration: its model, and the way from a file to it."""
