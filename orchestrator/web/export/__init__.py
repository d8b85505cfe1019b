"""Lifecycles as one static page, to attach to a pull request or a mail.

Must not change a record.
"""
