"""How each forge signs and words its webhooks: one module per kind, no state, no network."""
