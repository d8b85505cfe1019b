"""What a lifecycle is, and the loop that drives it.

Nouns: a `Task` is to be done by an `Agent` (`plan`); their `AgentLifecycle` is the canonical record
(`record`, `store`); an attempt is one fresh process (`perform`, `attempt`); between two attempts
stands a `ContextSnapshot`, rendered into a summary (`context`, `gather`).

Flow: `loop.AgentLifecycleLoop` joins the parts and opens an `engine.Engine`, which gives each
lifecycle an `owner.Owner`. The owner takes one fact, asks `machine.table.decide`, commits the step
to the store, and only then has the `performer` carry out its orders.
"""
