"""The server: the API over the lifecycles of one repository, and the receiver of webhooks.

Must not decide anything about lifecycles; importing this package imports FastAPI.
"""
