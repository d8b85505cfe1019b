"""The rooms joined: settings from files, loops of a plan in one process, the command line.

Flow: `config` reads settings, `wiring` joins the parts of a repository, `service` runs one loop or
a whole plan and handles signals, `cli` is what people type. Nothing here decides what a fact means
for a lifecycle; that is `lifecycle.machine`.
"""
