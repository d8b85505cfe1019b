"""What the API and the pages both read: one function for each thing that is shown, and its form.

Values only. Must not change anything, and must not know of HTTP or HTML.
"""
