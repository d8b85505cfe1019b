"""The remote repository: addresses, fetch, push, and errors in plain words.

It must not show a secret in an address or a message.
"""
