"""What is done to a pull request of ours after it is open: words, people, base, queue, branch.

Must not decide whether a pull request is merged, nor know any forge by name.
"""
