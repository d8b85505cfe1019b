"""Sets up judging checkouts, and makes sure that only the set-up changes what it made.

A set-up is made on a fresh checkout, always. What it made is listed in the runner's own folder and
compared before and after the commands that judge; when it differs it is made again.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from lifecycle.machine.states import Gate
from lifecycle.setup.commands import run_commands
from lifecycle.setup.plans import OF_COMMIT, Plans
from runtime.errors import RuntimeFault, SetUpFailedError, SetUpUndecidedError
from runtime.git.porcelain import some_of
from runtime.setup import copies, manifest
from runtime.setup.copies import INSTALLED
from runtime.setup.made_by_setup import JUDGING, SetupStamp, drop_stamp, read_stamp, write_stamp

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.services import MachineServices
    from lifecycle.setup.commands import SetupFailure
    from lifecycle.setup.plans import SetupPlan, SetupSource
    from lifecycle.setup.subjects import SetupSubject

MANIFEST = f"{JUDGING}.manifest"
BASE = "base"
"""Names the note about what the set-up makes without files of an agent."""
FETCHED = "fetched"
"""Names the note about which commit's files were fetched: those that a filter puts into place."""
FIXED_AT_MOST = 64
"""Places made read-only in a sandbox one by one; of more only the folders."""


class CheckoutSetups:
    """The set-ups of all judging checkouts of one repository."""

    def __init__(self, machine: MachineServices) -> None:
        self._machine, self._shared = machine, machine.shared
        self._plans = Plans(machine)

    async def keep(self, subject: SetupSubject, commit: str) -> tuple[str, ...]:
        """Return what stays when this commit is laid out: what was made for the same inputs."""
        stamp = self._stamp(subject)
        if stamp is None or not _serves(stamp, await self._plans.of(subject, commit)):
            return ()
        return stamp.made

    async def ready(self, subject: SetupSubject, commit: str) -> Gate | None:
        """Set up the checkout in which this commit is laid out, if it is not.

        Returns what fails for the change that is judged. SetUpFailedError when the set-up fails
        with the inputs of the base, SetUpUndecidedError when a person has to decide first.
        """
        plan = await self._plans.of(subject, commit)
        if planted := await self._planted(subject, plan):
            return _red(planted)
        stamp = self._stamp(subject)
        serves = stamp is not None and _serves(stamp, plan) and await self._fetched(subject, plan)
        if serves and await self.intact(subject):
            return None
        source = await self._plans.judged_with(subject, plan)
        failure = await self._make(subject, plan, source)
        if failure is None:
            return None
        if source.trusted:
            raise SetUpFailedError(f"set-up command failed on the base: {failure.text}")
        return await self._blamed(subject, plan, source, failure)

    async def intact(self, subject: SetupSubject) -> bool:
        """Take away what commands put among what the set-up made; tell whether the rest is whole.

        If it is not, it counts as not set up from now on.
        """
        stamp = self._stamp(subject)
        if stamp is None:
            return False
        damage = await asyncio.to_thread(self._damage, subject, stamp)
        if not damage:
            return True
        drop_stamp(self._machine.paths.setup(subject.name), JUDGING)
        self._shared.report("setup_changed", agent_id=subject.name, changed=damage)
        return False

    def fixed(self, subject: SetupSubject) -> tuple[Path, ...]:
        """Return what commands that judge cannot write, where they run in a sandbox."""
        stamp = self._stamp(subject)
        if stamp is None:
            return ()
        folder = self._machine.checkouts.folder(subject.name)
        made = stamp.made if len(stamp.made) <= FIXED_AT_MOST else _folders(stamp.made)
        places = (folder / name for name in made)
        return tuple(place for place in places if place.exists() and not place.is_symlink())

    def made(self, subject: SetupSubject) -> tuple[str, ...]:
        """Return what the set-up made."""
        stamp = self._stamp(subject)
        return stamp.made if stamp is not None else ()

    async def _make(
        self, subject: SetupSubject, plan: SetupPlan, source: SetupSource
    ) -> SetupFailure | None:
        """Make it again, with nothing left of what was there."""
        checkouts, own = self._machine.checkouts, self._machine.paths.setup(subject.name)
        drop_stamp(own, JUDGING)
        folder = await checkouts.lay_out(subject.name, source.commit)
        missed = await asyncio.to_thread(copies.copy_in, self._machine.repo, plan.copied, folder)
        if missed:
            raise SetUpFailedError(f"these files could not be copied: {', '.join(missed)}")
        failure = await run_commands(
            self._machine, subject, folder, mark="judging-setup", network=source.network
        )
        if failure is not None:
            return failure
        made = await checkouts.untracked(subject.name)
        if source.trusted:
            write_stamp(own, BASE, SetupStamp(plan.key, made))
        changed = await checkouts.changed(subject.name)
        fetched = (
            await checkouts.pointers(subject.name, source.commit, changed, followed=True)
            if changed
            else ()
        )
        if fetched:
            await checkouts.hold(subject.name, fetched)
        if source.commit != plan.commit or changed:
            await checkouts.lay_out(subject.name, plan.commit, keep=(*made, *fetched))
            made = await checkouts.untracked(subject.name)
        write_stamp(own, FETCHED, SetupStamp(plan.commit, fetched))
        key = plan.key if source.lasting else plan.own_key
        await asyncio.to_thread(self._note, subject, folder, SetupStamp(key, (*made, *fetched)))
        return None

    async def _planted(self, subject: SetupSubject, plan: SetupPlan) -> tuple[str, ...]:
        """Return what agents committed where the set-up of the base installs packages."""
        found = await self._plans.named_like_installed(subject, plan)
        made = await self._made_on_base(subject, plan) if found else ()
        return tuple(path for path in found if any(_meet(path, name) for name in made))

    async def _fetched(self, subject: SetupSubject, plan: SetupPlan) -> bool:
        """Tell whether files that pass a filter are those for which the set-up ran."""
        known = read_stamp(self._machine.paths.setup(subject.name), FETCHED)
        if known is None:
            return False
        then = (await self._machine.setup_facts.tree(known.key)).files
        now = (await self._machine.setup_facts.tree(plan.commit)).files
        if any(path not in now for path in known.made):
            return False
        changed = [path for path, told in now.items() if told != then.get(path)]
        if not changed or not any(path.endswith(".gitattributes") for path in now):
            return True
        return not await self._machine.checkouts.pointers(subject.name, plan.commit, changed)

    async def _made_on_base(self, subject: SetupSubject, plan: SetupPlan) -> tuple[str, ...]:
        """Return what the set-up of the base makes; if that is not known, run it and lay out again.

        What the judged commit holds there would hide it.
        """
        own, base = (
            self._machine.paths.setup(subject.name),
            await self._plans.of(subject, subject.base),
        )
        known = read_stamp(own, BASE)
        if known is not None and known.key == base.key:
            return known.made
        failure = await self._make(subject, base, await self._plans.judged_with(subject, base))
        if failure is not None:
            raise SetUpFailedError(f"set-up command failed on the base: {failure.text}")
        stamp = self._stamp(subject)
        made = stamp.made if stamp is not None else ()
        await self._machine.checkouts.lay_out(subject.name, plan.commit, keep=made)
        return made

    def _note(self, subject: SetupSubject, folder: Path, stamp: SetupStamp) -> None:
        own = self._machine.paths.setup(subject.name)
        manifest.save(own / MANIFEST, manifest.take(folder, stamp.made))
        write_stamp(own, JUDGING, stamp)

    async def _blamed(
        self, subject: SetupSubject, plan: SetupPlan, source: SetupSource, failure: SetupFailure
    ) -> Gate:
        """Say whether a failure is the change's: with the inputs of the base it must work."""
        base = await self._plans.of(subject, subject.base)
        theirs = await self._plans.judged_with(subject, base)
        try:
            on_base = await self._make(subject, base, theirs)
        except RuntimeFault as error:
            raise SetUpFailedError(f"set-up on the base: {error}") from error
        if on_base is not None:
            raise SetUpFailedError(f"set-up command failed on the base: {on_base.text}")
        if not source.limited:
            return failure.gate
        changed = some_of(await self._plans.changed(subject, plan))
        raise SetUpUndecidedError(
            f"the agent changed what the set-up installs ({changed}) and has no network, so "
            f"the set-up had none either: {failure.text}. Read the change: `git diff "
            f"{subject.base[:12]} {plan.commit[:12]}`. Then `loopwright unblock {subject.name}` "
            f"runs this set-up with network, or `loopwright guide {subject.name} TEXT` sends the "
            "work back"
        )

    def _damage(self, subject: SetupSubject, stamp: SetupStamp) -> str:
        own = self._machine.paths.setup(subject.name)
        folder = self._machine.checkouts.folder(subject.name)
        known = manifest.load(own / MANIFEST)
        if known is None:
            return "(its list is gone)"
        found = manifest.compare(folder, stamp.made, known)
        try:
            manifest.remove_new(folder, found)
        except OSError as problem:
            return str(problem.filename)
        return some_of(found.changed)

    def _stamp(self, subject: SetupSubject) -> SetupStamp | None:
        return read_stamp(self._machine.paths.setup(subject.name), JUDGING)


def stale_hint(machine: MachineServices, name: str) -> str:
    """Say, for a verdict that may be wrong by it, what the set-up built from another commit."""
    stamp = read_stamp(machine.paths.setup(name), JUDGING)
    if stamp is None or OF_COMMIT in stamp.key or machine.shared.settings().setup_inputs:
        return ""
    built = [
        folder
        for folder in _folders(stamp.made)
        if INSTALLED.isdisjoint(folder.split("/")) and not folder.endswith(".egg-info/")
    ]
    if not built:
        return ""
    return (
        f"the set-up made {some_of(built)}, maybe from other code than this commit's. If that is a "
        "build, move it to `verify`, or name its sources in `setup_inputs`"
    )


def _serves(stamp: SetupStamp, plan: SetupPlan) -> bool:
    return stamp.key in (plan.key, plan.own_key)


def _meet(path: str, made: str) -> bool:
    """Tell whether one of the two is the other, or lies in it."""
    one, other = f"{path}/", f"{made.removesuffix('/')}/"
    return one.startswith(other) or other.startswith(one)


def _red(files: tuple[str, ...]) -> Gate:
    names = files[0].split("/")
    last = next(number for number, name in enumerate(names, 1) if name in INSTALLED)
    folder = "/".join(names[:last])
    text = (
        f"the commit holds files where the set-up installs packages: {some_of(files)}. Take them "
        f"out of it (`git rm -r --cached {folder}`) and ignore that folder (.gitignore)"
    )
    return Gate(command="set-up", ok=False, code=1, excerpt=text)


def _folders(made: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in made if name.endswith(os.sep))
