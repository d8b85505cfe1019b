"""What the outside world says about our commits: verdicts, pull requests and events about both.

Nouns: a provider (`interface.CIProvider`) watches one repository; a build judges one commit; a
verdict is the judgement; a pull request offers a branch to its base; an event tells a change.
Flow: `bind` the ports, `start`, report commits with `pushed`, ask for the `verdict`, open and
`merge` pull requests; `subscribe` to be notified. `local.LocalCIProvider` needs no server.
"""
