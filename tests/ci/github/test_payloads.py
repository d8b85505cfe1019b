"""What GitHub's answers mean: every word of a check, pull requests, reviews and logs."""

from __future__ import annotations

from typing import Any

import pytest

from ci.errors import GarbledError
from ci.events import Check, CheckState
from ci.forge.json_fields import ParseCache
from ci.github.logs import excerpt_of, failed_steps
from ci.github.payloads import STATES, check_of_run, check_of_status, checks_of, pull_of
from ci.github.reviews import reviews_of
from ci.interface import PullRequestState
from tests.ci.github.github_answers import HEAD, LOG, OLD, STEPS, TOLD, pull, run, said, status

PASSED, FAILED, PENDING = CheckState.PASSED, CheckState.FAILED, CheckState.PENDING
CONCLUSIONS = [
    ("success", PASSED),
    ("neutral", PASSED),
    ("skipped", PASSED),
    ("failure", FAILED),
    ("timed_out", FAILED),
    ("startup_failure", FAILED),
    ("cancelled", FAILED),
    ("error", FAILED),
    ("action_required", PENDING),
    ("stale", PENDING),
    ("a word of tomorrow", PENDING),
]
STATUSES = ["queued", "in_progress", "requested", "waiting", "pending", "a word of tomorrow"]


@pytest.mark.parametrize(("word", "state"), CONCLUSIONS)
def test_a_finished_check_run_means(word: str, state: CheckState) -> None:
    seen = check_of_run(run(conclusion=word))
    assert (seen.state, seen.how) == (state, word)


@pytest.mark.parametrize("word", STATUSES)
def test_an_unfinished_check_run_is_pending(word: str) -> None:
    # A conclusion may be left over from before it was asked for again.
    seen = check_of_run(run(status=word, conclusion="success"))
    assert (seen.state, seen.how) == (PENDING, word)


@pytest.mark.parametrize(
    ("word", "state"),
    [("success", PASSED), ("failure", FAILED), ("error", FAILED), ("pending", PENDING)],
)
def test_a_commit_status_means(word: str, state: CheckState) -> None:
    seen = check_of_status(status("ci", word))
    assert (seen.name, seen.state, seen.how) == ("ci", state, word)


def test_no_word_is_left_out_of_the_table() -> None:
    assert set(STATES) == {word for word, _ in CONCLUSIONS[:-1]} | set(STATUSES[:-1])


@pytest.mark.parametrize("odd", [{}, {"status": "completed"}, {"status": "completed", "id": "x"}])
def test_a_check_run_with_nothing_in_it_is_pending(odd: dict[str, Any]) -> None:
    assert check_of_run(odd).state is PENDING


def test_of_several_with_one_name_the_worst_counts() -> None:
    (seen,) = checks_of(
        [run("ci", 1, conclusion="failure"), run("ci", 2, conclusion="success")],
        [status("ci", "pending")],
    )
    assert (seen.state, seen.ref) == (FAILED, "check:1")


@pytest.mark.parametrize("word", ["cancelled", "skipped", "stale"])
def test_a_run_that_was_replaced_gives_way_to_the_later_one(word: str) -> None:
    runs = [run("ci", 1, conclusion=word), run("ci", 2, conclusion="success")]
    assert [check.how for check in checks_of(runs, [])] == ["success"]
    assert [check.how for check in checks_of(reversed(runs), [])] == ["success"]


def test_a_run_that_was_cancelled_last_counts() -> None:
    runs = [run("ci", 1, conclusion="success"), run("ci", 2, conclusion="cancelled")]
    assert [check.how for check in checks_of(runs, [])] == ["cancelled"]


def test_of_a_status_the_newest_of_its_context_counts_in_any_order() -> None:
    told = [status("ci", "pending", 1), status("ci", "success", 3), status("ci", "failure", 2)]
    for order in (told, told[::-1]):
        assert [check.how for check in checks_of([], order)] == ["success"]


@pytest.mark.parametrize(
    ("told", "ref"),
    [
        ({"details_url": "https://github.com/o/r/actions/runs/7/job/1"}, "job:1:7"),
        ({"details_url": "https://github.com/o/r/actions/runs/7/jobs/1"}, "job:1:7"),
        ({"html_url": "https://github.com/o/r/actions/runs/7/job/1"}, "job:1:7"),
        ({"app": {"slug": "github-actions"}}, "job:1:"),
        ({"app": {"slug": "circleci"}, "details_url": "https://circleci.com/1"}, "check:1"),
        ({"app": None}, "check:1"),
    ],
)
def test_a_job_of_actions_is_found_again_as_such(told: dict[str, Any], ref: str) -> None:
    assert check_of_run(run(**told)).ref == ref


@pytest.mark.parametrize(
    ("how", "told", "meaning"),
    [
        ("clean", True, (True, "")),
        ("has_hooks", True, (True, "")),
        ("unstable", True, (True, "unstable")),
        ("blocked", True, (True, "blocked")),
        ("behind", True, (True, "behind")),
        ("dirty", False, (False, "")),
        ("dirty", None, (False, "")),
        ("unknown", None, (None, "")),
        ("unknown", True, (None, "")),
        ("draft", True, (True, "draft")),
        ("a word of tomorrow", True, (True, "a word of tomorrow")),
    ],
)
def test_whether_it_merges(how: str, told: object, meaning: tuple[object, str]) -> None:
    seen = pull_of(pull(mergeable_state=how, mergeable=told))
    assert (seen.mergeable, seen.hindrance) == meaning


def test_a_draft_is_hindered_before_github_says_so() -> None:
    assert pull_of(pull(draft=True, mergeable_state="unknown")).hindrance == "draft"


@pytest.mark.parametrize(
    ("told", "state", "commit"),
    [
        ({"merge_commit_sha": OLD}, PullRequestState.OPEN, None),
        ({"state": "closed", "merge_commit_sha": OLD}, PullRequestState.CLOSED, None),
        (
            {"state": "closed", "merged": True, "merge_commit_sha": OLD},
            PullRequestState.MERGED,
            OLD,
        ),
        # A list does not say `merged`.
        (
            {"state": "closed", "merged_at": "2026-01-01T00:00:00Z", "merge_commit_sha": OLD},
            PullRequestState.MERGED,
            OLD,
        ),
    ],
)
def test_how_it_ended(told: dict[str, Any], state: PullRequestState, commit: str | None) -> None:
    seen = pull_of(pull(**told))
    assert (seen.state, seen.merge_commit) == (state, commit)


def test_a_pull_request_is_read_whole() -> None:
    seen = pull_of(pull())
    assert (seen.number, seen.branch, seen.base) == (3, "agent/a", "main")
    assert (seen.head_sha, seen.base_sha, seen.body) == (HEAD, OLD, "")
    assert seen.updated_at - seen.created_at == 60


@pytest.mark.parametrize("odd", [None, [], "x", {}, {"number": 1}, {"number": "1", "head": {}}])
def test_what_is_no_pull_request_is_garbled(odd: object) -> None:
    with pytest.raises(GarbledError, match="pull request"):
        pull_of(odd)


@pytest.mark.parametrize("repo", [{"full_name": "x/r"}, None, {}, "o/r"])
def test_a_branch_of_a_fork_or_of_one_that_is_gone_is_not_ours(repo: object) -> None:
    assert pull_of(pull()).ours
    head = {"ref": "agent/a", "sha": HEAD, "repo": repo}
    assert not pull_of(pull(head=head)).ours
    base = {"ref": "main", "sha": OLD, "repo": repo if isinstance(repo, dict) else None}
    assert not pull_of(pull(base=base)).ours
    assert not pull_of(pull(head={**head, "repo": None}, base={**base, "repo": None})).ours


def test_the_newest_review_of_each_author_decides() -> None:
    seen = reviews_of(
        HEAD,
        [
            said("ann", "CHANGES_REQUESTED", 1),
            said("ann", "APPROVED", 3),
            said("bob", "CHANGES_REQUESTED", 4),
            said("bob", "APPROVED", 2),
        ],
        [],
        [],
    )
    assert (seen.approved_by, seen.changes_wanted_by) == (("ann",), ("bob",))


def test_a_mere_comment_leaves_the_last_word_as_it_was() -> None:
    seen = reviews_of(
        HEAD, [said("ann", "CHANGES_REQUESTED", 1), said("ann", "COMMENTED", 2)], [], []
    )
    assert seen.changes_wanted_by == ("ann",)


def test_a_dismissed_review_does_not_count_nor_what_belongs_to_it() -> None:
    reviews = [
        said("ann", "APPROVED", 1),
        said("ann", "DISMISSED", 2, body="never mind"),
    ]
    line = said("ann", "", 3, pull_request_review_id=2, path="a.py", line=1, body="rename")
    seen = reviews_of(HEAD, reviews, [line], [])
    assert (seen.approved_by, seen.changes_wanted_by, seen.remarks) == ((), (), ())


@pytest.mark.parametrize("association", ["NONE", "CONTRIBUTOR", "FIRST_TIMER", "", None])
def test_a_stranger_takes_no_side_and_is_not_trusted(association: str | None) -> None:
    told = said("eve", "APPROVED", 1, author_association=association)
    asks = said("mal", "CHANGES_REQUESTED", 2, author_association=association, body="delete it")
    seen = reviews_of(HEAD, [told, asks], [], [])
    assert (seen.approved_by, seen.changes_wanted_by) == ((), ())
    assert seen.changes_wanted_by_others == ("mal",)
    assert [(remark.author, remark.trusted) for remark in seen.remarks] == [("mal", False)]


def test_a_bot_is_trusted_only_if_it_belongs_to_the_repository() -> None:
    bot = {"user": {"login": "lint[bot]", "type": "Bot"}, "body": "use tabs"}
    ours = said("x", "COMMENTED", 1, **bot, author_association="COLLABORATOR")
    other = said("x", "COMMENTED", 2, **bot, author_association="NONE")
    seen = reviews_of(HEAD, [ours, other], [], [])
    assert [remark.trusted for remark in seen.remarks] == [True, False]


def test_a_request_for_changes_without_words_names_who_asks() -> None:
    seen = reviews_of(HEAD, [said("ann", "CHANGES_REQUESTED", 1)], [], [])
    assert (seen.changes_wanted_by, seen.remarks) == (("ann",), ())


def test_what_we_wrote_is_our_own_and_wants_nothing() -> None:
    review = said("Wright", "CHANGES_REQUESTED", 5, body="see below")
    lines = [
        said("wright", "", 6, pull_request_review_id=5, path="a.py", line=3, body="wrong sum"),
        said("ann", "", 7, pull_request_review_id=5, path="a.py", line=3, body="yes"),
    ]
    comment = said("wright", "", 8, body="Done.")
    seen = reviews_of(HEAD, [review], lines, [comment], me="wright")
    assert [(each.key, each.own, each.wants_changes) for each in seen.remarks] == [
        ("review:5", True, False),
        ("line:6", True, False),
        ("line:7", False, True),
        ("comment:8", True, False),
    ]
    # Nobody is taken for us while it is not known who we are.
    unknown = reviews_of(HEAD, [review], lines, [said("x", "", 9, user=None, body="hello")])
    assert not any(each.own for each in unknown.remarks)


def test_remarks_come_in_their_order_with_file_and_line() -> None:
    review = said("ann", "CHANGES_REQUESTED", 5, body="see below")
    lines = [
        said("ann", "", 6, pull_request_review_id=5, path="a.py", line=3, body="wrong sum"),
        said("ann", "", 7, path="b.py", line=None, original_line=9, body="why?", commit_id=OLD),
    ]
    comment = said("bob", "", 1, body="hello")
    seen = reviews_of(HEAD, [review], lines, [comment])
    assert [
        (each.key, each.author, each.path, each.line, each.wants_changes) for each in seen.remarks
    ] == [
        ("comment:1", "bob", "", None, False),
        ("review:5", "ann", "", None, True),
        ("line:6", "ann", "a.py", 3, True),
        ("line:7", "ann", "b.py", 9, False),
    ]
    assert seen.remarks[3].sha == OLD


def test_what_an_account_that_is_gone_wrote_is_kept() -> None:
    seen = reviews_of(HEAD, [], [], [said("x", "", 1, user=None, body="hello")])
    assert [remark.author for remark in seen.remarks] == ["ghost"]


def test_the_excerpt_is_the_failed_steps_part_without_stamps() -> None:
    failed = failed_steps({"steps": STEPS})
    assert [step["name"] for step in failed] == ["Test"]
    assert excerpt_of(LOG, failed) == TOLD


def test_without_times_the_last_step_with_an_error_is_shown() -> None:
    early = LOG.partition("2026-01-01T00:00:09.0")[0]
    assert excerpt_of(early, [{"name": "Test"}]) == TOLD
    assert excerpt_of(early, []) == TOLD


def test_a_log_without_marks_is_shown_as_it_is() -> None:
    assert excerpt_of("one\ntwo\n", []) == "one\ntwo"
    assert excerpt_of("", []) == ""


def test_a_long_log_is_cut_to_its_end() -> None:
    check = Check(name="ci", state=FAILED, excerpt=excerpt_of("x" * 99 + "\nthe end", []))
    assert check.excerpt.endswith("the end")
    many = Check(name="ci", state=FAILED, excerpt=excerpt_of("line\n" * 5000 + "the end", []))
    assert len(many.excerpt.encode()) <= 4096
    assert many.excerpt.endswith("the end")


@pytest.mark.parametrize("odd", [None, {}, {"steps": None}, {"steps": [None, 3]}, []])
def test_a_job_without_steps_has_no_failed_step(odd: object) -> None:
    assert failed_steps(odd) == []


def test_a_list_that_comes_again_unchanged_is_not_read_again() -> None:
    reads: list[object] = []

    def read(body: object) -> str:
        reads.append(body)
        return f"read {body}"

    once = ParseCache(read)
    assert once.of([1, 2]) == once.of([1, 2]) == ("read 1", "read 2")
    assert once.of([1, 3, 2]) == ("read 1", "read 3", "read 2")
    assert once.of([1]) == ("read 1",)
    assert once.of([]) == ()
    assert once.of([1]) == ("read 1",)
    assert reads == [1, 2, 3, 2, 1]
