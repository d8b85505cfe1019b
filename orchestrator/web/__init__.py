"""The server: the API over the lifecycles of one repository, and the door for webhooks.

Must not decide anything about lifecycles; whoever imports this package pays for FastAPI.
"""
