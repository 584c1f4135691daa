"""The kernel side: probes compiled for the running kernel, and the maps they fill."""
