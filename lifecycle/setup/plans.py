"""The steps that the set-up of a commit consists of, and whose code decides it.

Reads settings and commits. It must not run a command or write to any folder.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.mask_values import refuse_markers
from runtime.setup import copies
from runtime.setup.copies import INSTALLED, goes_over
from runtime.setup.globs import INCLUDE_FILE
from runtime.setup.inputs import differing, digest, inputs_of

if TYPE_CHECKING:
    from lifecycle.services import MachineServices
    from lifecycle.settings import Network
    from lifecycle.setup.subjects import SetupSubject
    from runtime.setup.inputs import Tree

OF_COMMIT = " of "
APPROVED = "setup_approved"
"""Documents: commits with whose files a person lets the set-up use the network, by their inputs."""


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """The set-up of one commit."""

    commit: str
    commands: tuple[str, ...]
    copied: tuple[str, ...]
    """Files of the user's checkout that are copied first."""
    inputs: tuple[str, ...]
    inputs_key: str
    """Equal for commits of which the set-up makes the same."""
    key: str
    """The same, with the copied files as they are now."""

    @property
    def own_key(self) -> str:
        """Of what was made with files of this very commit, and serves no other."""
        return f"{self.key}{OF_COMMIT}{self.commit}"


@dataclass(frozen=True, slots=True)
class SetupSource:
    """With whose files the set-up runs, and how far it reaches."""

    commit: str
    network: Network
    trusted: bool
    """No agent changed the inputs: what fails with them is not an agent's fault."""
    limited: bool = False
    """It has less network than the set-up of the base."""
    lasting: bool = True
    """What is made serves other commits with the same inputs: no unread code took part in it."""


class Plans:
    """Plans the set-ups of one repository."""

    def __init__(self, machine: MachineServices) -> None:
        self._machine, self._shared = machine, machine.shared

    async def of(self, subject: SetupSubject, commit: str) -> SetupPlan:
        """Plan the set-up of a commit."""
        settings, commands = self._shared.settings(), subject.commands
        refuse_markers(f"a set-up command of {subject.name}", commands)
        tree = await self._machine.setup_facts.tree(commit)
        inputs, inputs_key = self._inputs(subject, tree)
        copied = await self._copied(settings.copy, tree)
        signed = copies.signature(self._machine.repo, copied)
        key = hashlib.sha256(f"{inputs_key}\0{signed}".encode(errors="surrogateescape"))
        return SetupPlan(commit, commands, copied, inputs, inputs_key, key.hexdigest())

    async def _copied(self, patterns: tuple[str, ...], tree: Tree) -> tuple[str, ...]:
        """Return the files of the user's checkout that a person wants in this commit's folders."""
        repo, facts = self._machine.repo, self._machine.setup_facts
        included = await facts.included()
        # Asked afterwards: what was merged while git listed them waits, too.
        if included and INCLUDE_FILE in self._machine.held_files():
            included = ()
        if not patterns and not included:
            return ()
        links = await facts.links()
        copied = copies.named(repo, patterns, tree.files, links)
        return copied + tuple(
            name
            for name in included
            if name not in copied and name not in tree.files and not goes_over(repo, name, links)
        )

    def _inputs(self, subject: SetupSubject, tree: Tree) -> tuple[tuple[str, ...], str]:
        patterns, commands = self._shared.settings().setup_inputs, subject.commands
        inputs = inputs_of(tree, commands, patterns) if commands else ()
        return inputs, digest(tree, inputs, commands)

    async def source(self, subject: SetupSubject, plan: SetupPlan) -> SetupSource:
        """Say with whose files this set-up runs.

        Where the inputs are those of the base, with the base's: code that an agent wrote and the
        set-up would run (a build script, a hook of a package) gets no network by that. Else with
        its own, and no more network than the agent has.
        """
        settings = self._shared.settings()
        for commit in dict.fromkeys((subject.base, subject.target)):
            tree = await self._machine.setup_facts.tree(commit)
            if self._inputs(subject, tree)[1] == plan.inputs_key:
                return SetupSource(commit, settings.setup_network, trusted=True)
        approved = (await self._shared.store.all(APPROVED)).get(plan.inputs_key)
        if approved is not None:
            return SetupSource(str(approved["commit"]), settings.setup_network, trusted=False)
        limited = settings.network == "none" and settings.setup_network == "allow"
        return SetupSource(
            plan.commit, settings.network, trusted=False, limited=limited, lasting=False
        )

    async def judged_with(self, subject: SetupSubject, plan: SetupPlan) -> SetupSource:
        """Say the same where a commit is judged: if it can be, with the files of this commit.

        It can where nothing is gained by that: the agent has the same network itself.
        """
        settings = self._shared.settings()
        if settings.network != settings.setup_network:
            return await self.source(subject, plan)
        ours = plan.commit in (subject.base, subject.target)
        return SetupSource(plan.commit, settings.network, trusted=ours, lasting=ours)

    async def changed(self, subject: SetupSubject, plan: SetupPlan) -> tuple[str, ...]:
        """Return the inputs that are not as in the base."""
        tree = await self._machine.setup_facts.tree(plan.commit)
        base = await self._machine.setup_facts.tree(subject.base)
        return differing(tree, base, {*plan.inputs, *self._inputs(subject, base)[0]})

    async def named_like_installed(self, subject: SetupSubject, plan: SetupPlan) -> tuple[str, ...]:
        """Return the files that agents committed in folders called like those of packages."""
        tree = await self._machine.setup_facts.tree(plan.commit)
        base = await self._machine.setup_facts.tree(subject.base)
        new = tree.files.keys() - base.files.keys()
        return tuple(sorted(path for path in new if not INSTALLED.isdisjoint(path.split("/"))))

    async def approve(self, subject: SetupSubject, commit: str) -> None:
        """Remember that a person lets the set-up of this commit use the network."""
        tree = await self._machine.setup_facts.tree(commit)
        await self._shared.store.put(APPROVED, self._inputs(subject, tree)[1], {"commit": commit})
