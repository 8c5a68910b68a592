"""From specs to the Plan: steps, what they need, why they cannot run here, what they would take. Pure."""
