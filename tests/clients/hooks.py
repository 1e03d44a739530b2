"""For schemathesis: the description cannot know how the nodes of a gateway are called, and a node that is not there is
waited for and then answered 503. So every node that a request wishes for becomes one that `baton up` starts."""
import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    wishes = case.body.get("baton") if isinstance(case.body, dict) else None
    for role in ("prefill", "decode"):
        if isinstance(wishes, dict) and isinstance(wishes.get(role), str):
            wishes[role] = role + "-0"
