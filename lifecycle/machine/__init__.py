"""The pure core: which state a lifecycle is in, which facts move it, which orders follow.

Nouns: a `State` is what a lifecycle is; an `Event` is a fact in the past tense; an `Effect` is an
order to the outside; a `Policy` holds the numbers; `decide(state, event, policy)` joins them over
one table and answers with a `Step`.

Flow: the owner of a lifecycle takes one event, asks `decide`, commits the step, and only then
performs its effects, whose results come back as events.

Nothing here reads a clock, a disk, a network or a random number: instants come with the events,
deadlines are absolute instants inside the states.
"""
