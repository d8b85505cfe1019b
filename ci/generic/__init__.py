"""Any CI: a command that is polled, or a webhook of the user's own form."""
