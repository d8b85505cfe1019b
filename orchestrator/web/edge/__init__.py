"""The edge of the server: connections, access, bodies, errors, webhooks."""
