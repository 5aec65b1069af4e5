"""The requirements of the conformance kit, asked of our agents and of the bridge."""
