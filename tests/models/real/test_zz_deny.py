import os
from tests.models.real.loops import *
from tests.models.script import *
import tests.models.real.loops as L
@__import__("pytest").mark.parametrize("name", os.environ.get("P","codex").split(","))
async def test_deny(model_server, tmp_path, name, monkeypatch):
    model=ByAttempt({1:[Shell("touch forbidden")]})
    played = model_server.play(again=model)
    old=L._settings_of
    def new(*a):
        f=old(*a)
        if name=="codex": f[".codex/rules/default.rules"]='prefix_rule(pattern=["touch"], decision="forbidden")\n'
        if name=="gemini": f[".gemini/policies/no.toml"]='[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "touch"\ndecision = "deny"\npriority = 999\n'
        if name=="opencode":
            c=json.loads(f[".config/opencode/opencode.json"]); c["permission"]={"bash":{"touch *":"deny"}}
            f[".config/opencode/opencode.json"]=json.dumps(c)
        return f
    monkeypatch.setattr(L,"_settings_of",new)
    async with real_loop(name, tmp_path, played, max_retries=1) as real:
        print(await real.run())
        print((await real.attempts())[0])
        print(real.told(1)[-2500:])
