"""The requirements of the conformance kit, asked of our agents and of the bridge.

requirements.py   what is demanded, by id
subjects.py       the agents that it is demanded of, and how they are started
talk.py           a conversation with such a process in raw lines, all of it recorded
visit.py          the conversations with one subject, and what several probes share of them
probes.py         for each id a small test on a live conversation
rules.py          for each id a rule for everything that was recorded
verdicts.py       which probe or rule judges an id, and what came of it
failures.py       what is known to fail, and why
page.py           docs/conformance.md
"""
