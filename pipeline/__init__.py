"""The flow: readings in, one snapshot a tick out. Knows no sampler by name and no sink."""
