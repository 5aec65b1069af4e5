"""What agents in the field do that they should not, one scenario for each.

Every fault was met in a real agent. A client that survives them all has met the field.
"""

from twofold.demo.faults import ends, lines, messages, timing, tool_calls

SCENARIOS = (
    *tool_calls._TOOL_CALLS,
    *messages._MESSAGES,
    *timing._TIMING,
    *lines._LINES,
    *ends._ENDS,
)
