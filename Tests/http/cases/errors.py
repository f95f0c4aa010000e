"""Which status an error of the broker has at each HTTP endpoint."""

import json

import people
from cases.questions import ASKING, FREE, RULED, UNRULED, Deviations
from cases.token import FORM
from questions import ERRORS
from rig import case

TOGETHER = """
import concurrent.futures, json, sys
place, rows = json.loads(sys.argv[1])
def ask(row):
    answer = wire.ask(place, *row)
    return [answer.status, answer.body.decode("latin-1")]
with concurrent.futures.ThreadPoolExecutor(len(rows)) as pool:
    print(json.dumps(list(pool.map(ask, rows))))
"""
CLOUD = "https://management.azure.com/"
# Accounts whose provider answers with this.
FAULTS = {"away": 503, "cut": "close", "client": "invalid_client", "scope": "invalid_scope", "odd": 400}


def error_sections(scene):
    """Accounts that have no token yet, and a cloud of each kind for each of them, but for Google's: there is one."""
    names = ["nobody", "ended", "work", *FAULTS]
    parts = [scene.plain(), *(scene.plain(name) + f'[account.{name}]\nprovider = "{name}"\ngrant = "client_credentials"\n'
                              for name in FAULTS)]
    for name in names:
        parts.append(f'[[cloud]]\nkind = "azure"\nname = "{name}"\naccount = "{name}"\nresource = "{CLOUD}"\n'
                     f'[[cloud]]\nkind = "aws"\nname = "{name}"\naccount = "{name}"\n'
                     f'role_arn = "arn:aws:iam::123456789012:role/x"\nsts_endpoint = "{scene.sts.url}"\n')
    parts.append('[[cloud]]\nkind = "gcp"\naccount = "nobody"\nproject = "p"\nemail = "me@example.com"\n')
    parts += [f'[[rule]]\nuid = {FREE}\naccounts = ["*"]\naccess = ["use"]\n',
              f'[[rule]]\nuid = {RULED}\naccounts = ["work"]\naccess = ["use"]\nrequests = ["GET /other/*"]\n',
              f'[[rule]]\nuid = {ASKING}\naccounts = ["work"]\naccess = ["use"]\nconfirm = true\n'
              'confirm_timeout = "5s"\n']
    return "".join(parts)


def error_requests(account):
    """A request of every entry point for a token of the account."""
    # Without it, a redirect could have made a request of root.
    own = [("Grantd-Request", "1")]
    return {
        "/forward": ("GET", f"/forward/{account}/allowed/x", None, own),
        "/token": ("POST", "/token", f"grant_type=client_credentials&client_id={account}", FORM),
        "Google's metadata": ("GET", "/computeMetadata/v1/instance/service-accounts/default/token", None,
                              [("Metadata-Flavor", "Google")]),
        "Azure's identity": ("GET", f"/azure/{account}?api-version=2019-08-01&resource={CLOUD}", None,
                             [("X-IDENTITY-HEADER", "x")]),
        "AWS' credentials": ("GET", f"/aws/{account}", None, own),
    }


def check_errors(deviations, broker, error):
    """Of one row, at every entry point."""
    requests = error_requests(error.account)
    uid = {"ruled": RULED, "free": FREE, "unruled": UNRULED, "asking": ASKING, "root": 0}[error.caller]
    answers = people.run(uid, TOGETHER, json.dumps([broker.address, list(requests.values())]))
    for entry, (status, text) in zip(requests, answers, strict=True):
        value = json.loads(text) if text.startswith("{") else {}
        if entry == "/token":
            deviations.check(entry, error, [status, value.get("error")], list(error.token))
        elif entry == "Azure's identity":
            # The form of App Service has no member for the reason.
            deviations.check(entry, error, status, error.cloud)
        else:
            wanted = [error.forward if entry == "/forward" else error.cloud, error.reason]
            deviations.check(entry, error, [status, value.get("error", value.get("code"))], wanted)


@case("questions.errors", "setpriv")
def errors(scene):
    """Which status an error of the broker has."""
    deviations = Deviations()
    # Before the start: a broker gets tokens for these accounts by itself.
    scene.provider.faults |= FAULTS
    with scene.another(error_sections(scene), "system") as broker:
        for account in ("work", "ended"):
            broker.imported("p", account)
        scene.provider.kill("ended")
        scene.provider.faults["ended"] = "invalid_grant"
        try:
            broker.lost("ended")
            whole = broker.config.read_text()
            for error in ERRORS:
                # Google has one account for all.
                text = whole.replace('"gcp"\naccount = "nobody"', f'"gcp"\naccount = "{error.account}"')
                broker.config.write_text(text + error.sections)
                broker.must("reload")
                if error.sections:
                    check_errors(Deviations(), broker, error)
                if error.before:
                    broker.must(*error.before)
                check_errors(deviations, broker, error)
                if error.after:
                    broker.must(*error.after)
        finally:
            for name in (*FAULTS, "ended"):
                scene.provider.faults.pop(name, None)
    deviations.end()
