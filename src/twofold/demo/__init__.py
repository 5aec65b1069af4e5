"""The built-in agent: offline, the same each time, in version 1 and version 2."""

from twofold.demo.demo_agent import demo_agent
from twofold.demo.scenarios import SCENARIOS
from twofold.demo.scene import Scenario

__all__ = ["SCENARIOS", "Scenario", "demo_agent"]
