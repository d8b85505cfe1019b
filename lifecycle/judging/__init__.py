"""What a commit is worth: its gates, what they judge by, and the merge of what was accepted.

Every judgement is about one commit on a clean tree; what the agent says about itself is not asked.
It must not decide what follows from a verdict: that is the machine's.
"""
