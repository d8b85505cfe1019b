"""The pages of the dashboard: HTML for what the API says, and forms for what it can be asked.

One module per page, each with `router(services)`. A page reads through `orchestrator.web.reading`,
as the API does, and must not ask the store for what the API does not tell.
"""
