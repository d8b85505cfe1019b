"""What each fact means in each state, by subject. Pure, like the machine around it.

Only `machine.table` calls these rules; none of them may look at a clock, a disk or a network.
"""
