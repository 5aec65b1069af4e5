"""How peers say it: JSON-RPC 2.0, without any I/O."""
