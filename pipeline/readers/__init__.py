"""Samplers that read kernel files: one file a module, named by the kernel's own word."""
