"""The mailbox as an MCP server. Must not decide what counts as a signal."""
