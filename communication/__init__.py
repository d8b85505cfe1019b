"""The file contract with the agent: communications.json.

Nouns: a *mailbox* is one communications.json; an *entry* is what one agent says in it; a
*breakpoint* is the part of an entry that ends an attempt; a *reading* is the verdict on one look
(absent, quiet, signal, stale, invalid).

Flow: the agent (or `signal`) writes its entry; the one `MailboxWatcher` notices the change, loads
the file once, judges it for each subscriber and hands signals on. What cannot be trusted is no
signal, and is reported with its reason.
"""
