"""The watchdog: a small process per runner that ends what the runner started, once it is gone.

Nouns: the *register* is a file in memory that runner and watchdog share; an *entry* stands for one
started tree. `program.py` is the process, using only the standard library; `client.py` is the
runner's side: it starts the process, keeps it alive and writes the register.

Flow: an entry is written before the tree is started and removed when nothing of it is left. The
watchdog sleeps until the runner is gone, then kills what is in the register.
"""
