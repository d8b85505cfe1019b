"""The file contract with the agent: communications.json.

Nouns: a *mailbox* is one communications.json; an *entry* is what one agent says in it; a
*breakpoint* is the part of an entry that ends an attempt; a *reading* is the result of one read
(absent, quiet, signal, stale, invalid).

Flow: the agent (or `signal`) writes its entry; the one `MailboxWatcher` notices the change, loads
the file once, evaluates it for each subscriber and delivers signals. What cannot be trusted is not
a signal, and is reported with its reason. Must not know of lifecycles.
"""
