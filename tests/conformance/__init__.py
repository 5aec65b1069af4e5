"""The requirements of the conformance kit, asked of our agents and of the bridge.

requirements.py   what is demanded, by id
subjects.py       the agents that it is demanded of, and how they are started
agents/           those of them that are there only for this
talk.py           a conversation with such a process in raw lines, all of it recorded
visit.py          the conversations with one subject
exchanges.py      what several probes and rules look at, done once with a subject
probes.py         for each id a small test on a live conversation
rules.py          for each id a rule for everything that was recorded
schema.py         the objections of the official schemas
verdicts.py       what came of every requirement for a subject
failures.py       what is known to fail, and why
page.py           docs/conformance.md
"""
