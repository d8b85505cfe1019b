import os, time, json
from tests.models.real.loops import *
from tests.models.script import *
from tests.models.server import refusing
from lifecycle.machine.events import StopRequested
import pytest
LONG={"retry_interval":300.,"retry_interval_cap":300.,"trouble_interval":300.,"limit_interval":300.,"limit_margin":1.0}
NOW=int(time.time())
C={
 "reset": dict(again=Fault("usage_limit", resets_at=NOW+3600, retry_after=3600.)),
 "limit": dict(again=Fault("rate_limit")),
 "quota": dict(again=Fault("quota")),
 "over": dict(again=Fault("overloaded")),
 "auth": dict(again=Fault("auth")),
 "context": dict(again=Fault("context")),
 "cut": dict(again=answer("half of a sentence that is long enough", broken="cut")),
 "down": dict(again=Say("never"), url=True),
 "wait": dict(again=Fault("rate_limit", retry_after=3600.), settings={"idle_limit":6.0}),
 "hang": dict(again=Hang(), settings={"idle_limit":4.0}),
 "denied": dict(again=ByAttempt({1:[Shell("touch forbidden")]})),
 "huge": dict(again=ByAttempt({1:[Shell("loopwright signal task_complete --summary ok"), Say("ok")]}), task={"description":"word "*200_000}),
}
N=os.environ.get("P","codex").split(",")
ENV={("claude","reset"):lambda k:{"ANTHROPIC_API_KEY":"","CLAUDE_CODE_OAUTH_TOKEN":k}}
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", N)
@pytest.mark.parametrize("case", os.environ.get("K",",".join(C)).split(","))
async def test_probe(model_server, tmp_path, name, case):
    c=C[case]
    played = model_server.play(again=c["again"])
    env={}
    if case=="reset" and name=="claude": env={"ANTHROPIC_API_KEY":"","CLAUDE_CODE_OAUTH_TOKEN":played.key}
    if os.environ.get("FEW"): env["CLAUDE_CODE_MAX_RETRIES"]="2"
    else: env["CLAUDE_CODE_MAX_RETRIES"]=""
    args=()
    if case=="denied": args={"claude":("--disallowedTools","Bash(touch:*)")}.get(name,())
    with refusing() as dead:
      async with real_loop(name, tmp_path, played, url=dead if c.get("url") else "", env=env, args=args, **{**LONG, **c.get("settings",{})}) as real:
        t=time.monotonic()
        async with real.running(real.task(**c.get("task",{}))) as run:
            while not any(n.before=="Capturing" and n.after!="Capturing" for n in real.news) and time.monotonic()-t<float(os.environ.get("T","45")):
                await asyncio.sleep(.02)
            took=time.monotonic()-t
            rows=await real.attempts(); w=await real.work()
            print("\n=====",name,case,"%.1fs"%took, "turns",len(played.turns), "problems",played.problems)
            print([n.after for n in real.news][2:], "retry",w.tally.retry_count,"lim",w.tally.limits,"trb",w.tally.troubles,"until",getattr(w,"until",0)-time.time())
            for r in rows: print(r.outcome,r.exit_code,r.signal,"swept",r.swept,"|",r.error,"|",r.report)
            print(await real.why())
            pass
        print(real.told(1)[-1000:])
