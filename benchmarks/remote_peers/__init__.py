"""Servers of the official SDKs, as contestants of `benchmarks.attaching`."""
