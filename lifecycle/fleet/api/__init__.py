"""The public types of the fleet: options, queries, instances, events, quotas."""
