"""Cases with the real daemon."""

import itertools
import signal
import time

from rig import DOWN, PROVIDER, case, driving, must

CALLS = 10_000
THREADS = 4
PAUSE_SECONDS = 0.15
# So many also before the first measurement: Go collects no garbage below 4 MiB.
GROWTH_CALLS = 10_000
GROWTH_BYTES = 2 << 20
GROWTH_ROUNDS = 3


@case("token")
def token(stage, language):
    with driving(stage, language) as driver:
        answer = driver.ok(do="token", account="work")
        must(answer["access_token"] == stage.daemon.token("work"), answer)
        must(answer["account"] == "work" and answer["token_type"] == "Bearer" and answer["provider"] == PROVIDER, answer)
        must(answer["expires_at"] > time.time() and answer["generation"] > 0 and answer["scope"] == ["x"], answer)


@case("reasons")
def reasons(stage, language):
    with driving(stage, language) as driver:
        driver.fails("unknown_account", do="token", account="none")
        found = driver.fails("login_required", do="token", account="ended")
        must(f"grantctl login {PROVIDER} ended" in found["hint"] and found["is_type"], found)
        found = driver.fails("temporarily_unavailable", do="token", account="off", timeout=5)
        must(found["is_type"] and DOWN, found)
        driver.fails("", do="token", account="work", min_ttl=-1)


@case("report")
def report(stage, language):
    """A rejected generation is replaced, once."""
    account = f"work-{language.name}"
    with driving(stage, language) as driver:
        before = driver.ok(do="token", account=account)
        generation = driver.ok(do="report", account=account, generation=before["generation"])
        must(generation > before["generation"], f"{generation} after {before['generation']}")
        must(driver.ok(do="report", account=account, generation=before["generation"]) == generation, "replaced twice")
        after = driver.ok(do="token", account=account)
        must(after["access_token"] != before["access_token"] and after["generation"] == generation, after)


@case("401")
def unauthorized(stage, language):
    """A request that is answered 401 is sent once more with a new token, if its body can be sent again."""
    account, url = f"work-{language.name}", stage.server.url
    with driving(stage, language) as driver:
        first = driver.ok(do="token", account=account)["access_token"]
        must(driver.ok(do="fetch", account=account, url=f"{url}/resource") == {"status": 200, "body": ""}, "GET")
        stage.refused.add(first)
        done = driver.ok(do="fetch", account=account, url=f"{url}/resource", body="text")
        must(done == {"status": 200, "body": "text"}, done)
        second = driver.ok(do="token", account=account)["access_token"]
        must(second != first and stage.seen.count(first) == 2, "the refused token was sent again")
        stage.refused.add(second)
        done = driver.ok(do="fetch", account=account, url=f"{url}/resource", body="text", stream=True)
        must(done["status"] == 401, f"a body that can be read once was sent again: {done}")
        sent = len(stage.seen)
        must(driver.ok(do="fetch", account=account, url=f"{url}/always-401/{account}")["status"] == 401, "always")
        must(len(stage.seen) <= sent + 4, "more than one more attempt")


@case("events")
def events(stage, language):
    account = f"work-{language.name}"
    with driving(stage, language) as driver:
        driver.send(do="events", account=account, types=["token.refreshed", "account.removed"], count=1)
        said = driver.answer()
        must(said.get("ok") == "subscribed", f"not subscribed: {said}")
        stage.daemon.ctl("refresh", account)
        found = driver.answer()["ok"]
        must(found["type"] == "token.refreshed" and found["at"] > 0, found)
        # The shared connection is another one.
        driver.ok(do="token", account="work")


@case("accounts")
def accounts(stage, language):
    with driving(stage, language) as driver:
        found = {one["account"]: one["state"] for one in driver.ok(do="accounts")}
        must(found["ended"] == "login_required" and found["work"] in ("ok", "refreshing"), found)


@case("login")
def login(stage, language):
    """It waits until the user has signed in."""
    account = f"login-{language.name}"
    with driving(stage, language) as driver:
        driver.send(do="login", provider=PROVIDER, account=account)
        places = driver.answer()["ok"]
        stage.open(next(one["url"] for one in places if one["kind"] == "browser"))
        done = driver.answer()["ok"]
        must(done["state"] == "completed" and done["account"]["account"] == account, done)
        driver.ok(do="token", account=account)
        driver.fails("unknown_provider", do="login", provider="none", account=account)


@case("restart")
def restart(stage, language):
    """No call of 10,000 fails while the broker restarts."""
    language.need()
    with stage.restarting:
        daemon = stage.new_daemon(f"restarted-{language.name}")
        try:
            daemon.token("work")
            with driving(stage, language, daemon.socket) as driver:
                driver.ok(do="token", account="work")
                driver.send(do="many", account="work", count=CALLS, threads=THREADS)
                # In this thread: the daemon ends with the thread that started it.
                while daemon.starts < 3 and driver.lines.empty():
                    time.sleep(PAUSE_SECONDS)
                    daemon.end(signal.SIGTERM)
                    daemon.launch()
                done = driver.answer()
                must(done.get("ok") == {"good": CALLS, "failed": []}, done)
                must(daemon.starts > 1, "the calls ended before the restart")
        finally:
            daemon.close()


@case("growth")
def growth(stage, language):
    with driving(stage, language) as driver:
        sizes = []
        # A heap that is collected grows in steps, a leak each time.
        for _ in range(GROWTH_ROUNDS + 1):
            driver.ok(do="many", account="work", count=GROWTH_CALLS, threads=2)
            sizes.append(driver.resident())
            grown = [after - before for before, after in itertools.pairwise(sizes)]
            if grown and min(grown) < GROWTH_BYTES:
                return
        must(False, f"{[size >> 10 for size in grown]} KiB more after {GROWTH_CALLS} calls each")
