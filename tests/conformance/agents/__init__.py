"""Programs that the requirements are asked of, beside the demo agent."""
