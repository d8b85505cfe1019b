"""Issues are found by label, number and search, at each forge in its own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.errors import MissingError
from ci.forge.protocol import IssueQuery
from ci.issues import IssueReference
from lifecycle.errors import PlanError
from orchestrator.tasks.issues import query_of, read_issues
from orchestrator.tasks.planned import plan_of
from tests.ci.forge.upkeep.test_issues import forge

if TYPE_CHECKING:
    from tests.ci.forge.forge_world import ForgeWorld

__all__ = ["forge"]


async def test_open_issues_with_all_of_the_labels_are_found(
    forge: ForgeWorld,
) -> None:
    issues = forge.forge.issues
    assert issues is not None
    first = await forge.new_issue("ready", title="Add a page", body="With a\r\nheading.")
    both = await forge.new_issue("ready", "bug")
    await forge.new_issue("bug")
    closed = await forge.new_issue("ready")
    await issues.close(IssueReference(closed))
    ready = await issues.find(IssueQuery(labels=("ready",)))
    assert sorted(each.number for each in ready) == [first, both]
    (page,) = [each for each in ready if each.number == first]
    assert (page.title, page.body, page.labels) == ("Add a page", "With a\r\nheading.", ("ready",))
    narrow = await issues.find(IssueQuery(labels=("ready", "bug")))
    assert [each.number for each in narrow] == [both]


async def test_issues_are_found_by_number_whatever_their_state(
    forge: ForgeWorld,
) -> None:
    issues = forge.forge.issues
    assert issues is not None
    one, two = await forge.new_issue(), await forge.new_issue()
    await issues.close(IssueReference(two))
    found = await issues.find(IssueQuery(numbers=(two, one)))
    assert [(each.number, each.open) for each in found] == [(two, False), (one, True)]
    with pytest.raises(MissingError):
        await issues.find(IssueQuery(numbers=(9999,)))


async def test_issues_are_found_by_the_search_of_the_forge(forge: ForgeWorld) -> None:
    issues = forge.forge.issues
    assert issues is not None
    await forge.new_issue(title="Something else")
    wanted = await forge.new_issue(title="Say zebra twice")
    found = await issues.find(IssueQuery(search="zebra"))
    assert [each.number for each in found] == [wanted]


async def test_issues_become_tasks_in_the_order_of_their_priorities(
    forge: ForgeWorld,
) -> None:
    low = await forge.new_issue("ready", "P3", title="Later")
    high = await forge.new_issue("ready", "priority: high", title="Soon")
    last = await forge.new_issue("ready", title="Last", body=f"Depends on #{low}, #{high} and #7")
    found, place = await read_issues(forge.forge, query_of(forge.forge.name, "label=ready"))
    assert place == forge.forge.place
    read = plan_of(found, name="x", where="x", sources=[each.key for each in found.tasks])
    tasks = [(each.id, each.title, each.issue, each.dependencies) for each in read.plan.tasks]
    names = (f"issue-{low}", f"issue-{high}")
    assert tasks == [
        (f"issue-{high}", "Soon", f"{high}", ()),
        (f"issue-{low}", "Later", f"{low}", ()),
        (f"issue-{last}", "Last", f"{last}", names),
    ]
    with pytest.raises(PlanError, match="no open issue"):
        await read_issues(forge.forge, query_of(forge.forge.name, "label=nobody"))
