"""A GitLab project that merges by merge trains.

Written from the pages "Merge trains" and "Merge trains API" of docs.gitlab.com: what is put on a
train is tested on a commit of its own, and is merged or dropped at the end of that pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.ci.forge.served_forge import Refusal
from tests.ci.forge_server import Reply, answers
from tests.ci.gitlab.gitlab_world import GitLabWorld
from tests.ci.gitlab.served_gitlab import API, MR, P, ServedGitLab

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ci.forge_server import Asked, ForgeServer
    from tests.ci.gitlab.served_gitlab_state import Merge
    from tests.ci.served_git import Origin

ENTRY = f"{P}/merge_trains/merge_requests/{{iid}}"
BY_HAND = "removed this merge request from the merge train"


class ServedTrains(ServedGitLab):
    """The same project with its trains on."""

    def __init__(self, server: ForgeServer, origin: Origin, now: Callable[[], float]) -> None:
        super().__init__(server, origin, now)
        self.settings |= {"merge_trains_enabled": True, "merge_pipelines_enabled": True}
        self.version = "18.2.1-ee"
        self.rebases = True
        """A train rebases by itself; older servers do not."""
        self.entries: list[tuple[int, str]] = []
        """The number and the head of each entry."""
        self.cars: dict[int, dict[str, Any]] = {}

    def routes(self) -> list[tuple[str, str, Callable[[Asked], Any]]]:
        return [
            *super().routes(),
            ("GET", f"{API}/version", lambda _: {"version": self.version}),
            ("GET", ENTRY, self._car),
            ("POST", ENTRY, self._add),
            ("GET", f"{MR}/notes", self._notes),
        ]

    def refresh(self) -> None:
        heads = {key: mr.head for key, mr in self.pulls.items()}
        super().refresh()
        for key in [key for key in self.cars if self.pulls[key].head != heads[key]]:
            self.drop(key, "source branch was updated.")
        for mr in self.pulls.values():
            if not any(row["sha"] == mr.head for row in self.pipelines):
                self.run(mr.head, mr.branch, "green")

    # --- the train ------------------------------------------------------------------------------

    def board(self, mr: Merge) -> dict[str, Any]:
        """Put it on the train, which tests it on a commit of its own."""
        self.entries.append((mr.number, mr.head))
        made = self.origin.test_merge(mr.base, mr.head)
        ref = f"refs/merge-requests/{mr.number}/train"
        self.run(made, ref, "held", source="merge_request_event")
        self.say(mr.number, 1, "started a merge train", system=True)
        mr.auto = True
        self.cars[mr.number] = {
            "id": self.new_id(), "merge_request": {"iid": mr.number, "project_id": 5},
            "pipeline": self.pipelines[-1], "target_branch": mr.base, "status": "fresh",
            "merged_at": None,
        }  # fmt: skip
        return self.cars[mr.number]

    def ends(self, number: int, *, green: bool) -> None:
        """Have the pipeline of the train end: it is merged or dropped."""
        mr, pipeline = self.pulls[number], self.cars[number]["pipeline"]
        pipeline["status"] = "success" if green else "failed"
        self.jobs = [row for row in self.jobs if row["pipeline"]["id"] != pipeline["id"]]
        self.job(pipeline, "unit", pipeline["status"])
        if not green:
            self.drop(number, "the pipeline did not succeed.")
            return
        made = self.origin.merge(mr.base, mr.head, f"Merge {mr.branch}")
        mr.merged = {"merge_commit_sha": made}
        mr.state, mr.updated, mr.auto = "merged", self.now(), False
        del self.cars[number]

    def group(self, number: int) -> str:
        """Return the commit on which it is tested, while it is on the train."""
        return str(self.cars[number]["pipeline"]["sha"]) if number in self.cars else ""

    def take_out(self, number: int) -> None:
        """Have a person take it off."""
        self.drop(number)

    def retarget(self, number: int, base: str) -> None:
        """Have it go into another branch, which takes it off the train."""
        if number in self.cars:
            self.drop(number, "target branch was changed.")
        self.pulls[number].base, self.pulls[number].updated = base, self.now()

    def drop(self, number: int, reason: str = "") -> None:
        """Take it off the train, by hand where no reason is given."""
        self.say(number, 1, BY_HAND + (f" because {reason}" if reason else ""), system=True)
        del self.cars[number]
        self.pulls[number].auto, self.pulls[number].updated = False, self.now()

    # --- answers --------------------------------------------------------------------------------

    def _car(self, asked: Asked) -> dict[str, Any]:
        car = self.cars.get(int(asked.names["iid"]))
        if car is None:
            raise Refusal(404, "404 Not Found")
        return car

    def _add(self, asked: Asked) -> Reply:
        mr, body = self._merge(asked), asked.json()
        if not self.settings["merge_trains_enabled"]:
            raise Refusal(403, "403 Forbidden")
        if body.get("sha") != mr.head:
            raise Refusal(409, f"SHA does not match HEAD of source branch: {mr.head}")
        old = int(self.version.split(".")[0]) < 17
        waits = body.get("when_pipeline_succeeds" if old else "auto_merge", False)
        word = self.detailed(mr, looks=False)
        if waits and word == "ci_still_running":
            mr.auto = True
            return answers([], status=202)
        if word != "mergeable" and not (self.rebases and word == "need_rebase"):
            raise Refusal(400, "Failed to merge")
        return answers([self.board(mr)], status=201)

    def _accept(self, asked: Asked) -> dict[str, Any]:
        self.faults.append(f"{asked.path} merges past the train")
        return super()._accept(asked)

    def _notes(self, asked: Asked) -> list[dict[str, Any]]:
        notes = [note for each in self._merge(asked).discussions for note in each["notes"]]
        return notes[::-1] if asked.query.get("sort", "desc") == "desc" else notes


class TrainWorld(GitLabWorld):
    """That project, for a provider."""

    makes = ServedTrains
    served: ServedTrains
