"""The terminal: what people see and type."""
