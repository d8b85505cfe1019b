"""What people were told, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.notify.message import Notification, id_of
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path


async def test_what_was_told_is_listed_with_its_channels(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        it.world.settings('[[notify]]\nname = "phone"\nurl = "env:PHONE"\nevents = ["needs_you"]\n')
        store = it.store.notifications
        for number in (1, 2, 3):
            found = Notification(
                id=id_of(number), at=float(number), type="needs_you", task_id=f"T{number}"
            )
            await store.add(found, ["phone"], due_at=5.0)
        ((send, _), *_) = await store.waiting("phone")
        await store.retry([send], due_at=9.0, problem="no route")
        it.engine.shared.address = "http://127.0.0.1:4747"

        first = await it.get("/notifications?limit=2")
        rest = await it.get(f"/notifications?limit=2&cursor={first['next']}")

        assert [each["task_id"] for each in (*first["items"], *rest["items"])] == ["T3", "T2", "T1"]
        assert rest["next"] is None
        (one,) = rest["items"]
        assert one["url"] == "http://127.0.0.1:4747/t/T1"
        assert one["sends"] == [
            {
                "channel": "phone",
                "state": "waiting",
                "tries": 1,
                "due_at": 9.0,
                "settled_at": None,
                "problem": "no route",
            }
        ]
        (channel,) = first["channels"]
        assert (channel["name"], channel["kind"], channel["events"]) == (
            "phone",
            "url",
            ["needs_you"],
        )
        assert (channel["waiting"], channel["failing_since"], channel["problem"]) == (
            3,
            1.0,
            "no route",
        )
        await it.get("/notifications?limit=0", 422)
