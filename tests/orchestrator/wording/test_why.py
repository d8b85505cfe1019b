"""The sentence that says why a lifecycle is where it is, for every state."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lifecycle.machine import events as on
from lifecycle.machine.events import Event, Fault
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import (
    About,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Gate,
    Process,
    Queued,
    Reason,
    Rejected,
    Signal,
    State,
    Suspended,
    Tally,
)
from lifecycle.machine.table import decide, rule_name
from lifecycle.record import AgentLifecycle, JournalEntry
from lifecycle.settings import Settings
from orchestrator.wording.states import waiting_for
from orchestrator.wording.why import why
from orchestrator.wording.why_facts import WhyContext

POLICY = Policy(
    max_retries=3,
    max_attempts=100,
    retry_interval=30.0,
    retry_interval_cap=600.0,
    blocked_timeout=1000.0,
    pr_merge_timeout=500.0,
    stuck_limit=5,
    max_faults=2,
    has_gates=True,
    review_summaries=False,
    seed=0,
)
AGENT = "agent-T001"
ALIVE = Process(pid=42, start_time=1, boot_id="b", spawn_id="s")
BLOCKED = Signal(type="blocked", blocked_on=("T000",), reason="no API yet")


class Life:
    """Walks the real machine and keeps its journal, as an owner would."""

    def __init__(self, policy: Policy = POLICY, state: State | None = None) -> None:
        self.policy = policy
        self.state: State = state or Queued()
        self.journal: list[JournalEntry] = []

    def take(self, *events: Event) -> Life:
        for event in events:
            before = self.state
            step = decide(before, event, self.policy)
            self.journal.append(
                JournalEntry(
                    agent_id=AGENT,
                    seq=len(self.journal) + 1,
                    at=event.at,
                    event=event,
                    rule="late" if step.late else rule_name(before, event),
                    before=type(before).__name__,
                    after=type(step.state).__name__,
                    late=step.late,
                )
            )
            self.state = step.state
        return self

    def begin(self) -> Life:
        return self.take(
            on.Admitted(at=1),
            on.WorkspaceReady(at=2, attempt=1, branch=f"agent/{AGENT}", base_commit="b"),
        )

    def work(self, attempt: int = 1, at: float = 3) -> Life:
        return self.take(on.AgentSpawned(at=at, attempt=attempt, process=ALIVE))

    def exit(self, attempt: int = 1, word: Signal | None = None, code: int = 0) -> Life:
        return self.take(on.AgentExited(at=4, attempt=attempt, exit_code=code, word=word))

    def captured(self, attempt: int = 1, tree: str = "t") -> Life:
        return self.take(on.SnapshotTaken(at=5, attempt=attempt, head="c0ffee", tree=tree))

    def rest(self, word: Signal) -> Life:
        return self.begin().work().exit(word=word).captured()

    def why(self, *, now: float = 6.0, has_runner: bool = True) -> str:
        record = AgentLifecycle(agent_id=AGENT, task="Do it", work=self.state)
        record.facts = {"branch": f"agent/{AGENT}", "base_branch": "main"}
        record.derive()
        view = WhyContext(
            journal=self.journal,
            now=now,
            when=lambda at: f"@{at:g}",
            settings=Settings(max_retries=3),
            has_runner=has_runner,
        )
        return why(record, view)


def test_queued_names_the_dependencies_and_the_way_around() -> None:
    said = Life(state=Queued(waiting_on=("T000", "T002"))).why()
    assert said == (
        "Queued since @0 because it depends on T000, T002, which are not complete; "
        "it starts when that is done, or with `loopwright unblock agent-T001`."
    )


def test_queued_without_dependencies_waits_for_a_place() -> None:
    assert "because at most 4 agents run at once (max_live_agents)" in Life().why()


def test_preparing_and_spawning_name_what_led_there() -> None:
    life = Life().take(on.Admitted(at=1))
    assert life.why().startswith(
        "Starting: preparing the workspace of attempt 1 because it got a slot"
    )
    life.take(on.WorkspaceReady(at=2, attempt=1, branch="b", base_commit="c"))
    said = life.why()
    assert said.startswith("Starting the agent of attempt 1 because")


def test_working_names_process_cause_limits_and_what_a_person_asked_for() -> None:
    life = Life().begin().work()
    assert life.why().startswith("Working on attempt 1 since @3 (process 42) because")
    assert "a limit (14400 s in all or 1800 s without a sign of life)" in life.why()
    life.take(on.PauseRequested(at=4, by="ada"))
    assert "ada asked to pause after this attempt" in life.why()


def test_a_later_attempt_names_the_fact_that_woke_it_and_not_the_free_place() -> None:
    life = (
        Life()
        .rest(BLOCKED)
        .take(on.CiReported(at=9, type="build.success", green=True), on.Admitted(at=10))
    )
    assert "Starting the agent of attempt 2 because CI reported build.success" in life.why()
    life.work(attempt=2, at=11)
    assert "because CI reported build.success" in life.why()


def test_stopping_and_capturing_name_the_outcome() -> None:
    life = Life().begin().work().take(on.BreakpointReached(at=4, attempt=1, word=BLOCKED))
    assert life.why() == (
        "Stopping the agent of attempt 1 because attempt 1 signalled `blocked`; "
        "after at most 10 s its processes are killed."
    )
    life.take(on.AgentStopped(at=5, attempt=1))
    assert "saving the work of attempt 1 because attempt 1 signalled `blocked`" in (
        life.why().lower()
    )
    life.take(on.SnapshotFailed(at=6, attempt=1, text="disk full"))
    assert "it failed and is tried again at @" in life.why()


@pytest.mark.parametrize(("idle", "how"), [(True, "no sign of life"), (False, "took too long")])
def test_a_limit_is_named(idle: bool, how: str) -> None:  # noqa: FBT001  # a parameter of the case
    life = Life().begin().work().take(on.LimitReached(at=4, attempt=1, idle=idle, text="60 s"))
    assert how in life.why()


def test_verifying_names_the_commit() -> None:
    life = Life().rest(Signal(type="task_complete", summary="done"))
    assert life.why() == (
        "Verifying: running the verify commands on c0ffee because attempt 1 signalled "
        "`task_complete`; it completes if all succeed."
    )


def test_blocked_names_who_on_what_and_every_way_out() -> None:
    life = Life().rest(BLOCKED).take(on.BlockersLooked(at=6, tasks=("T000",)))
    assert life.why() == (
        'Waiting since @5 because attempt 1 signalled `blocked` on T000: "no API yet"; '
        "it is unblocked when T000 completes (said by the agent), or someone runs "
        "`loopwright unblock agent-T001`; given up at @1005."
    )


@pytest.mark.parametrize(
    ("names", "way"),
    [
        ((), "when CI reports on agent/agent-T001, or"),
        (("the CI run",), "when CI reports on agent/agent-T001, or"),
        (("a key",), "when CI reports on a commit of agent/agent-T001 made since, or"),
        (("T000", "ci"), "when T000 completes (said by the agent) and CI reports on agent/agent-T"),
    ],
)
def test_blocked_says_what_all_has_to_happen(names: tuple[str, ...], way: str) -> None:
    life = Life().rest(Signal(type="blocked", blocked_on=names, reason="not yet"))
    tasks = tuple(name for name in names if name == "T000")
    assert way in life.take(on.BlockersLooked(at=6, tasks=tasks)).why()


def test_what_is_cleared_already_is_told() -> None:
    life = Life().rest(Signal(type="blocked", blocked_on=("T000", "ci")))
    life.take(
        on.BlockersLooked(at=6, tasks=("T000",)),
        on.CiReported(at=7, type="build_success", green=True, text="7 passed"),
    )
    assert "; CI reports build_success. 7 passed; it is unblocked when T000 completes" in life.why()


def test_a_block_that_no_time_ends_says_why_and_both_ways_out() -> None:
    failed = on.BlockersLooked(at=6, tasks=("T000",), failed=("T000",), why="person: not wanted")
    said = Life().rest(BLOCKED).take(failed).why()
    assert "it is blocked on T000, which did not complete: person: not wanted" in said
    assert "a later completion counts; continue with `loopwright unblock agent-T001 TEXT`" in said


def test_the_merge_of_what_was_waited_for_is_told() -> None:
    life = Life().rest(BLOCKED).take(on.BlockersLooked(at=6, done=("T000",)), on.Admitted(at=7))
    assert life.why().startswith("Merging what is complete of T000 into its branch for attempt 2")
    assert "because the blockers were checked: T000 completed" in life.why()


def test_blocked_for_a_reason_without_a_name_quotes_the_reason() -> None:
    said = Life().rest(Signal(type="blocked", reason="the moon is wrong")).why()
    assert 'signalled `blocked` on "the moon is wrong";' in said
    assert "completes" not in said


def test_a_pull_request_names_url_and_deadline() -> None:
    life = Life().rest(Signal(type="pr_created", pr_url="https://x/7"))
    assert "for the merge of https://x/7 because attempt 1 signalled `pr_created`" in life.why()
    assert "given up at @505" in life.why()
    life.take(on.PullRequestOpened(at=6, number=7, url="https://x/7"))
    assert "https://x/7 (number 7) because" in life.why()


def test_why_there_is_no_pull_request_yet_is_told_whole() -> None:
    life = Life().rest(Signal(type="pr_created"))
    reason = f"agent/a could not be pushed: {'a rule that takes many words, ' * 20}ask ada"
    life.take(on.PullRequestUnknown(at=6, text=reason, fault=Fault.ENVIRONMENT))
    assert f"there is none yet: {reason}; tried again every " in life.why()
    said = waiting_for("PrPending", vars(life.state), 7.0, str)
    assert said == f"its pull request, which cannot be opened yet: {reason}"
    life.take(on.PullRequestOpened(at=8, number=7, url="https://x/7"))
    assert reason not in life.why()
    assert waiting_for("PrPending", vars(life.state), 9.0, str) == "the merge of https://x/7"


def test_backing_off_names_the_failure_the_counters_and_the_instant() -> None:
    life = Life().begin().work().exit(code=3).captured()
    said = life.why()
    assert re.match(r"Waiting until @[\d.]+ for attempt 2 because of \"error: exit code 3\"", said)
    assert "; 1 of 3 retries used" in said
    assert "`loopwright resume agent-T001` cuts the wait short" in said


def test_attempts_that_checks_or_bots_woke_are_counted_against_their_limit() -> None:
    life = Life().rest(Signal(type="pr_created"))
    life.take(
        on.PullRequestOpened(at=8, number=7, url="https://x/7"),
        on.Reviewed(at=9, number=7, text="changes asked for by coderabbitai[bot]", by_bots=True),
    )
    assert "1 attempts for red checks or review bots in a row (limit 5)" in life.why()


def test_a_due_attempt_waits_for_a_place() -> None:
    life = Life().begin().work().exit(code=3).captured()
    assert isinstance(life.state, BackingOff)
    said = life.why(now=life.state.until)
    assert said.startswith(
        'Waiting for a free slot: attempt 2 is due because of "error: exit code 3"'
    )
    assert "; at most 4 agents run at once" in said


def test_failures_alike_and_of_the_surroundings_are_counted() -> None:
    life = Life().begin().work().exit(code=3).captured()
    assert isinstance(life.state, BackingOff)
    life.take(on.Admitted(at=life.state.until)).work(2).exit(2, code=3).captured(2)
    assert "2 of 3 retries used, 2 without progress in a row (limit 3)" in life.why()
    faulty = (
        Life()
        .begin()
        .take(on.SpawnFailed(at=3, attempt=1, text="too many processes", fault=Fault.ENVIRONMENT))
    )
    assert "1 environment failures in a row (limit 10)" in faulty.why()


def test_a_question_is_quoted_with_the_way_to_answer() -> None:
    said = Life().rest(Signal(type="question", question="Tabs?")).why()
    assert said == (
        'Needs you since @5 because attempt 1 asked "Tabs?"; continue '
        "with `loopwright answer agent-T001 TEXT`; given up at @1005."
    )


def test_given_up_waits_say_what_was_waited_for_and_how_to_go_on() -> None:
    blocked = Life().rest(BLOCKED).take(on.DeadlinePassed(at=1005))
    assert "because T000 did not change within blocked_timeout" in (blocked.why())
    pending = Life().rest(Signal(type="pr_created", pr_url="u")).take(on.DeadlinePassed(at=505))
    assert "because u was neither merged nor closed within pr_merge_timeout" in pending.why()
    assert "a later merge counts" in pending.why()


def test_a_failed_dependency_names_it_and_both_ways_out() -> None:
    life = Life(state=Queued(waiting_on=("T000",)))
    life.take(on.DependencySettled(at=2, task_id="T000", done=False, text="gone"))
    said = life.why()
    assert "because T000 ended without completing" in said
    assert "`loopwright unblock agent-T001`" in said
    assert "`loopwright reject agent-T001`" in said


def test_a_review_names_the_commands_to_read_and_to_release() -> None:
    state = AwaitingHuman(about=About.REVIEW, text="", since=3.0, tally=Tally(attempt=4))
    said = Life(state=state).why()
    assert "because review_summaries holds attempt 4" in said
    assert "`loopwright summary approve agent-T001`" in said


def test_suspended_names_who_and_what_is_held() -> None:
    life = Life().rest(BLOCKED).take(on.PauseRequested(at=7, by="ada"))
    said = life.why()
    assert said.startswith("Paused since @7 by ada; `loopwright resume")
    assert "continues it where it was: waiting since @5 because attempt 1 signalled" in said


def test_suspended_at_the_end_of_an_attempt_names_the_rule_of_the_inner_wait() -> None:
    life = Life().begin().work().take(on.PauseRequested(at=3.5, by="ada"))
    life.exit(word=BLOCKED).captured()
    assert isinstance(life.state, Suspended)
    assert life.why().startswith("Paused since @5 by ada")
    assert "continues it where it was: waiting since @5" in life.why()
    assert "; it is unblocked when" in life.why()


def test_what_moved_while_it_was_suspended_is_the_cause_of_the_inner_state() -> None:
    life = (
        Life()
        .rest(BLOCKED)
        .take(on.PauseRequested(at=7, by="ada"), on.Unblocked(at=8, by="eve", note="API is there"))
    )
    assert 'because of "unblocked by eve: API is there"' in life.why()


def done(*gates: Gate) -> Life:
    life = Life().rest(Signal(type="task_complete", summary="done"))
    return life.take(on.GatesFinished(at=6, attempt=1, gates=gates, flagged=("tests/test_x.py",)))


def test_completed_names_the_proof_the_flags_and_what_a_person_may_do() -> None:
    life = done(Gate(command="pytest", ok=True, code=0))
    assert life.why() == (
        "Done since @6 because attempt 1 signalled `task_complete` and the verify commands "
        "passed on c0ffee; `loopwright accept agent-T001` merges it, `loopwright "
        "guide agent-T001 TEXT` sends it back, `loopwright reject agent-T001` drops it; look at "
        "tests/test_x.py: it changed tests or gates."
    )


def test_a_merge_under_way_and_a_refused_one_are_told() -> None:
    life = done(Gate(command="pytest", ok=True, code=0)).take(on.AcceptRequested(at=7, by="ada"))
    assert "its merge is under way" in life.why()
    life.take(on.MergeFailed(at=8, text="conflicts in a.py"))
    assert 'its merge was refused: "conflicts in a.py"' in life.why()


def test_completed_without_gates_says_so() -> None:
    life = Life(replace(POLICY, has_gates=False)).rest(Signal(type="task_complete", summary="done"))
    assert "and there are no verify commands on c0ffee" in life.why()


def test_accepted_names_commit_and_base() -> None:
    life = done(Gate(command="pytest", ok=True, code=0)).take(
        on.AcceptRequested(at=7), on.MergeSucceeded(at=8, commit="beef")
    )
    assert isinstance(life.state, Accepted)
    assert life.why() == (
        "Accepted at @8 because its work was merged into main as beef; nothing is left to do."
    )


def test_rejected_for_every_reason_names_it_with_evidence_and_no_rule_of_ours() -> None:
    said = {}
    by_person = Life().rest(BLOCKED).take(on.RejectRequested(at=7, by="ada", why="not wanted"))
    said[Reason.PERSON] = by_person.take(
        on.WorkspaceRemoved(at=8, saved_ref="refs/loopwright/saved/x")
    ).why()
    life = Life().begin()
    for attempt in (1, 2, 3, 4):
        life.work(attempt).exit(attempt, code=3).captured(attempt, tree=f"t{attempt}")
        if isinstance(life.state, BackingOff):
            life.take(on.Admitted(at=life.state.until))
    said[Reason.MAX_RETRIES] = life.why()
    said[Reason.ERROR] = (
        Life()
        .begin()
        .take(on.SpawnFailed(at=3, attempt=1, text="no such program", fault=Fault.USER))
        .why()
    )
    for reason in (Reason.BUDGET, Reason.USAGE_LIMIT, Reason.ENVIRONMENT):
        said[reason] = Life(state=Rejected(reason=reason, text="evidence of it")).why()
    assert set(said) == set(Reason)
    for reason, text in said.items():
        assert "rule" not in text
        by_a_person = reason is Reason.PERSON
        assert text.startswith("Rejected at @" if by_a_person else "Given up at @")
        resumable = "`loopwright resume agent-T001` continues it" in text
        assert resumable is (reason is not Reason.PERSON)
    assert "because rejected by ada: not wanted" in said[Reason.PERSON]
    assert "its work is kept under refs/loopwright/saved/x" in said[Reason.PERSON]
    assert "3 of 3 retries used; the last: error: exit code 3" in said[Reason.MAX_RETRIES]
    assert "only you can fix: no such program" in said[Reason.ERROR]


def test_without_a_runner_the_sentence_says_that_nothing_moves() -> None:
    assert (
        Life()
        .rest(BLOCKED)
        .why(has_runner=False)
        .startswith(
            "Stopped: no runner is alive, so nothing moves until `loopwright up`; waiting since @5"
        )
    )
    over = done(Gate(command="x", ok=True, code=0))
    assert "no runner" not in over.why(has_runner=False)


def test_a_journal_that_begins_too_late_still_gives_a_sentence() -> None:
    life = Life().rest(BLOCKED)
    life.journal.clear()
    assert life.why().startswith("Waiting since @5 because attempt 1 signalled `blocked` on T000")


def test_a_question_is_told_whole_on_one_line_unless_it_has_no_end() -> None:
    said = Life().rest(Signal(type="question", question="why\n" * 400)).why()
    assert "\n" not in said
    assert said.count("why") == 400
    assert len(Life().rest(Signal(type="question", question="why\n" * 5000)).why()) < 2500
