"""Everything that the demo agent can do, by name."""

from twofold.demo import faults, showcase, words
from twofold.demo.scene import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for scenario in (showcase.SCENARIO, *words._BY_WORD, *faults.SCENARIOS)
}
