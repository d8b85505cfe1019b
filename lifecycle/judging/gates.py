"""Runs the gates on a commit, and on the base before any work, to tell old failures from new.

Every judgement is about one commit, laid out by the runner; what the agent says about itself, and
what lies in its workspace, is not asked.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from lifecycle.errors import PlanError
from lifecycle.judging.code_origin import hint, other_code
from lifecycle.judging.failure_digest import OUTPUT_BYTES, GateFailure, failure_of
from lifecycle.judging.flagged_files import configuration, flagged
from lifecycle.judging.mutation_check import CANARIES, break_files, breakable, key_of
from lifecycle.machine import events as on
from lifecycle.machine.states import Gate, Verifying
from lifecycle.mask_values import refuse_markers
from lifecycle.setup.agent_workspace import end, look_once, whole
from lifecycle.setup.checkouts import stale_hint
from lifecycle.setup.commands import gate_of
from lifecycle.setup.setup import JudgedCheckout
from lifecycle.shortage_retry import fault_of, text_of
from runtime.errors import RuntimeFault, SetUpUndecidedError, ShortageError
from runtime.git.porcelain import some_of
from runtime.logs.files import tail

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.machine.events import Event
    from lifecycle.services import MachineServices
    from lifecycle.setup.setup import SettingUp
    from lifecycle.working_copy import LocalCopy
    from runtime.workspace import Workspace


class Question(NamedTuple):
    """What is judged: the commit of an attempt, by which commands."""

    local: LocalCopy
    effect_id: str
    attempt: int
    head: str
    commands: tuple[str, ...]


def _leading_out(folder: Path, files: tuple[str, ...]) -> tuple[str, ...]:
    """Return the changed links that lead to what is in no commit."""
    top = f"{os.path.realpath(folder)}/"
    return tuple(
        name
        for name in files
        if (folder / name).is_symlink() and not os.path.realpath(folder / name).startswith(top)
    )


GOING_ON = ("gate", "merge")
"""Labels of judgements on files that were not changed on purpose."""


def _red(command: str, text: str) -> Gate:
    return Gate(command=command, ok=False, code=1, excerpt=text)


class GateRunner:
    """Runs the gates of all lifecycles of one repository."""

    def __init__(self, machine: MachineServices, setting_up: SettingUp) -> None:
        self._machine, self._shared = machine, machine.shared
        self._setting_up = setting_up

    async def baseline(
        self, local: LocalCopy, effect_id: str, workspace: Workspace
    ) -> tuple[tuple[Gate, ...], str]:
        """Run the gates on the untouched code; with the digest of how they failed."""
        settings = self._shared.settings()
        commands, base = settings.verify_of(local.task), workspace.base_commit
        if not commands or not settings.baseline or not base:
            return (), ""
        try:
            gates = await self.on_commit(local, effect_id, base, commands, attempt=0)
        except SetUpUndecidedError:  # of work that this one builds on; asked at the first verdict
            return (), ""
        return gates, self._failure(local, 0, gates, commands).digest

    def _failure(
        self, local: LocalCopy, attempt: int, gates: tuple[Gate, ...], commands: tuple[str, ...]
    ) -> GateFailure:
        """Return how they failed; of what has a log, more than its excerpt counts."""
        red = []
        for number, gate in enumerate(gates, 1):
            if not gate.ok:
                printed = gate.excerpt
                if commands[number - 1 : number] == (gate.command,):
                    log = self._machine.paths.gate_log(local.agent_id, attempt, number)
                    printed = tail(log, OUTPUT_BYTES) or printed
                red.append((gate, printed))
        return failure_of(red)

    async def run(self, local: LocalCopy, effect_id: str, attempt: int, head: str) -> Event:
        """Run the gates on the commit that the agent says is done."""
        commands = self._shared.settings().verify_of(local.task)
        question = Question(local, effect_id, attempt, head, commands)
        notes: tuple[str, ...] = ()
        try:
            workspace = await whole(self._machine, local)
            await look_once(self._machine, local, workspace)
            files = tuple(file.path for file in local.head.files)
            reviewer = self._shared.settings().review_of(local.task)
            flags = flagged(files, (*commands, reviewer))
            work = local.record.work
            if isinstance(work, Verifying) and work.setup_approved:
                await self._setting_up.approve(local, effect_id, head)
            if head:
                gates = await self.on_commit(local, effect_id, head, commands, attempt=attempt)
                if all(gate.ok for gate in gates):
                    before = await self._as_they_were(question, workspace.base_commit, flags)
                    canary = await self._canary(question, breakable(files, flags))
                    notes = (*before, *canary)
                    if canary and self._shared.settings().canary == "require":
                        gates = (*gates, _red("canary", canary[0]))
            else:  # a folder without git, where nothing can be laid out
                there = JudgedCheckout(workspace.path, head)
                gates = await self._gates(question, there)
        except SetUpUndecidedError as asked:
            return on.GatesFinished(at=self._now(), attempt=attempt, gates=(), asks=str(asked))
        except (RuntimeFault, PlanError, OSError) as error:
            return on.GatesFinished(
                at=self._now(),
                attempt=attempt,
                gates=(),
                problem=text_of(error),
                fault=fault_of(error),
            )
        failure = self._failure(local, attempt, gates, commands)
        before_work = local.record.facts.get("baseline_digest")
        return on.GatesFinished(
            at=self._now(),
            attempt=attempt,
            gates=gates,
            flagged=flags,
            notes=notes,
            digest=failure.digest,
            lines=failure.lines,
            as_before=bool(failure.digest) and failure.digest == before_work,
        )

    async def on_commit(  # noqa: PLR0913  # each names one fact of the judgement
        self,
        local: LocalCopy,
        effect_id: str,
        commit: str,
        commands: tuple[str, ...],
        *,
        attempt: int,
        label: str = "gate",
    ) -> tuple[Gate, ...]:
        """Run commands on the files of a commit, in the lifecycle's judging checkout.

        The label tells the logs of several judgements of one attempt apart.
        """
        question = Question(local, effect_id, attempt, commit, commands)
        place = await self._laid_out(question)
        if place.red is not None:
            return (place.red,)
        gates = await self._gates(question, place, label)
        leading = _leading_out(place.folder, tuple(file.path for file in local.head.files))
        if leading:
            text = (
                f"these links lead out of the repository, and what is there is in no commit: "
                f"{some_of(leading)}. Commit the files themselves"
            )
            gates = (*gates, _red("readlink", text))
        return gates

    async def _laid_out(self, question: Question) -> JudgedCheckout:
        """Lay the judged commit out, ready for its gates."""
        return await self._setting_up.lay_out(
            question.local, question.effect_id, question.head, attempt=question.attempt
        )

    async def _as_they_were(
        self, question: Question, base: str, flags: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Judge changed tests and gates also in their old form; say what that came to."""
        local = question.local
        old = [file.path for file in local.head.files if file.kind != "added"]
        changed = [name for name in old if name in set(flags)]
        if not changed or not base:
            return ()
        place = await self._laid_out(question)
        await self._machine.checkouts.restore(local.agent_id, base, changed)
        gates = await self._gates(question, place, "before")
        red = [gate for gate in gates if not gate.ok]
        told = "all green" if not red else f"{len(red)} failed (`{red[0].command}` {red[0].end})"
        return (f"with {some_of(changed)} as before the change: {told}",)

    async def _canary(self, question: Question, files: tuple[str, ...]) -> tuple[str, ...]:
        """See that the gates turn red when what changed is broken; else say that they do not look.

        Once for the same gates and files; the result is stored with the lifecycle.
        """
        local, store = question.local, self._shared.store
        if self._shared.settings().canary == "off" or not files:
            return ()
        key = key_of(question.commands, files)
        known = (await store.all(CANARIES)).get(local.agent_id, {})
        if known.get("key") != key:
            place = await self._laid_out(question)
            broken = break_files(place.folder, files)
            green = bool(broken) and all(
                gate.ok for gate in await self._gates(question, place, "canary", first_red=True)
            )
            known = {"key": key, "green": green, "broken": some_of(broken)}
            await store.put(CANARIES, local.agent_id, known)
        if not known["green"]:
            return ()
        shown = f"they stay green with {known['broken']} broken on purpose"
        stale = stale_hint(self._machine, local.agent_id)
        told = f"the verify commands do not look at what changed: {shown}"
        return (told, *filter(None, (stale,)))

    async def _gates(
        self,
        question: Question,
        place: JudgedCheckout,
        label: str = "gate",
        *,
        first_red: bool = False,
    ) -> tuple[Gate, ...]:
        local, attempt, commands = question.local, question.attempt, question.commands
        refuse_markers(f"a verify command of {local.task.id}", commands)
        elsewhere = other_code(self._machine, place.folder, commands, is_baseline=attempt == 0)
        if elsewhere is not None:
            return (elsewhere,)
        timeout = self._shared.settings().gate_timeout
        gates, made = [], place.made
        for number, command in enumerate(commands, 1):
            mark = f"{question.effect_id}.{label}{number}"
            for identity in self._machine.terminals.find_marked(mark):
                await end(self._machine, identity)
            result = await self._machine.commands.run(
                command,
                cwd=place.folder,
                log=self._machine.paths.gate_log(local.agent_id, attempt, number, label),
                timeout=timeout,
                env=self._machine.ports.env_of(local.agent_id),
                mark=mark,
                fixed=place.fixed,
                made=made,
            )
            gates.append(gate_of(result, hint(self._machine, place.folder, result)))
            if first_red and not result.ok:
                break
            if label in GOING_ON and place.commit:
                goes_on = number < len(commands)
                if edited := await self._edited(local, command, place, goes_on=goes_on):
                    gates.append(edited)
                    break
                await place.check(goes_on=goes_on)
        return tuple(gates)

    async def _edited(
        self, local: LocalCopy, command: str, place: JudgedCheckout, *, goes_on: bool
    ) -> Gate | None:
        """Look at what a gate did, so that none decides about those that come after it.

        Green or red, it judged something else than the commit that would be merged.
        """
        checkouts = self._machine.checkouts
        try:
            changed = await checkouts.changed(local.agent_id)
            left = await checkouts.left(local.agent_id) if goes_on else ()
        except ShortageError:
            raise
        except RuntimeFault as error:
            text = f"after `{command}` the files cannot be compared any more: {error}"
            return _red("git status", text)
        if changed:
            text = f"`{command}` changed files that are committed: {some_of(changed)}"
            return _red("git diff --quiet", text)
        made = place.made or ()
        folders = tuple(each for each in made if each.endswith("/"))
        beside = [each for each in left if each not in made and not each.startswith(folders)]
        if rules := configuration(beside):
            text = (
                f"`{command}` left files that later commands may go by, and that are in no commit: "
                f"{some_of(rules)}. Write them elsewhere, or name them in .gitignore"
            )
            return _red("git status", text)
        if goes_on:
            await checkouts.renew_git(local.agent_id)
        return None

    def _now(self) -> float:
        return self._shared.clock.now()
