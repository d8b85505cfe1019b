"""Lifecycles on Temporal: a workflow decides, workers act, the coordinator keeps and shares.

The only room that knows `temporalio`. What a lifecycle does is decided by `lifecycle.drive` alone;
what a worker does is in `lifecycle.worker`. Must not be imported unless this engine is chosen.
"""
