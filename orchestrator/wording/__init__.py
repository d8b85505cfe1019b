"""What people and programs read about a lifecycle: words, rows, JSON forms and their schemas.

Owns every text for a state or a fact, and every form of `--json`, the API and `export`. Must not
decide anything about a lifecycle, and must not read a store, a clock or the environment: it is
given records, stored values and instants.

What `ps` needs (`states`, `lifecycle_row`) imports nothing heavy.
"""
