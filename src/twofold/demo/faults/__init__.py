"""What agents in the field do that they should not, one scenario for each.

Every fault was met in a real agent. A client that survives them all has met the field.
"""

from twofold.demo.faults import ends, lines, messages, timing, tool_calls

SCENARIOS = (
    *tool_calls.SCENARIOS,
    *messages.SCENARIOS,
    *timing.SCENARIOS,
    *lines.SCENARIOS,
    *ends.SCENARIOS,
)
