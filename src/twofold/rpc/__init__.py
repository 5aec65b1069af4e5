"""JSON-RPC 2.0 without any I/O: lines, messages, batches, errors, pending requests."""
