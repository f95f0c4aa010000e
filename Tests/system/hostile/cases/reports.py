"""Reports of refused tokens: they bind the reporter alone, end no grant, and `account.refresh` refuses nothing."""

import contextlib
import time

import measure
from actor import READY_SECONDS, ended
from caller import Caller, attempt
from grantd_testing import Wrong, wait_until
from machine import USERS, grantctl
from stage import hold

SECONDS, ANSWER_SECONDS = 1.5, 20
# A reporter that is paused waits as long.
PAUSED_SECONDS = 1
GENERATIONS = 40
# Until the provider's word about a dead token has come.
DEAD_SECONDS = 60
# What a reporter may cause in that time, whatever its budget is: a refresh every 100 ms would be none.
MOST_REFRESHES = 20
# One for a generation, by introspection and UserInfo.
MOST_QUESTIONS = 2


def report_blindly(_, account):
    """Without a token: generations are small numbers, so all of them are named, again and again."""
    count, caller = 0, Caller()
    while not ended.is_set():
        caller.attempt("token.report_rejected", account=account, generation=1 + count % GENERATIONS, timeout=0.2)
        count += 1
    return count


def report_own(_, account):
    """With each token that is handed out, at once."""
    count = 0
    while not ended.is_set():
        answer = attempt("token.get", account=account, timeout=1)
        generation = answer.get("generation", count)
        attempt("token.report_rejected", account=account, generation=generation, timeout=0.2)
        count += 1
    return count


def get_and_report(_, account):
    """Once: gets a token, reports it, asks again, as git's helper does in three processes."""
    answer = attempt("token.get", account=account)
    attempt("token.report_rejected", account=account, generation=answer["generation"], timeout=0.5)
    return answer["access_token"]


def ask_token(_, account, timeout=ANSWER_SECONDS):
    answer = attempt("token.get", account=account, timeout=timeout)
    return answer.get("access_token") or answer["reason"]


def ask_until_refused(_, account, seconds):
    end = time.monotonic() + seconds
    while "access_token" in (answer := attempt("token.get", account=account, timeout=ANSWER_SECONDS)) and (
            time.monotonic() < end):
        time.sleep(0.1)
    return answer.get("reason", "handed out still")


def send_refused(_, account):
    """Requests to an API that answers 401 to each token."""
    count = 0
    while not ended.is_set():
        attempt("request.send", account=account, method="GET", url="/refuse", timeout=1)
        count += 1
    return count


class Others:
    """The victims: the unit and root, while somebody attacks."""

    def __init__(self, stage, account):
        self.stage, self.account = stage, account

    def during(self, who, work, seconds=SECONDS):
        """What `work` did in that time, and what the unit met meanwhile."""
        victim = self.stage.act(self.stage.machine.unit(), measure.sample, self.account)
        victim.next(READY_SECONDS)
        attacker = self.stage.attack(who, work, self.account)
        time.sleep(seconds)
        did = attacker.finish()
        return did, victim.finish()


def by_capped(stage):
    """Reports of a caller that was never approved cause no refresh and refuse nobody a token."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    others = Others(stage, "shared")
    count, figures = others.during(stage.machine.user("capped"), report_blindly)
    refreshes = stage.provider.counts("main")["refreshes"]
    stage.provider.set("main", is_down=True)
    more, in_outage = others.during(stage.machine.user("capped"), report_blindly)
    return hold([
        (refreshes == 0, f"{count} reports, {refreshes} refreshes"),
        (measure.refused(figures)[0] == 0, f"the unit: {measure.told(figures)}"),
        (measure.refused(in_outage)[0] == 0, f"provider down, {more} reports: {measure.told(in_outage)}")])


def by_owner(stage):
    """Reports of one that has the token pause itself, are paced, and refuse nobody else a token."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    others = Others(stage, "shared")
    count, figures = others.during(stage.machine.user("owner"), report_own)
    refreshes = stage.provider.counts("main")["refreshes"]
    stage.provider.set("main", is_down=True)
    more, in_outage = others.during(stage.machine.user("owner"), report_own)
    return hold([
        (refreshes <= MOST_REFRESHES, f"{count} reports, {refreshes} refreshes in {SECONDS:g} s"),
        (measure.refused(figures)[0] == 0, f"the unit: {measure.told(figures)}"),
        (measure.refused(in_outage)[0] == 0, f"provider down, {more} reports: {measure.told(in_outage)}")])


def binds_reporter(stage):
    """A report keeps its token from the reporter's next process, also after a restart, and from nobody else."""
    owner, unit = stage.machine.user("owner"), stage.machine.unit()
    stage.begin("main")
    stage.sign_in("main", "shared")
    stage.provider.set("main", is_down=True)
    token = stage.once(owner, get_and_report, "shared")
    before = stage.once(owner, ask_token, "shared", PAUSED_SECONDS), stage.once(unit, ask_token, "shared")
    is_told = is_shown("shared", "owner")
    stage.machine.kill()
    stage.machine.resume()
    after = stage.once(owner, ask_token, "shared", PAUSED_SECONDS), stage.once(unit, ask_token, "shared")
    words = {token: "the token"}
    seen = ["reporter: {}, unit: {}".format(*(words.get(said, said) for said in pair)) for pair in (before, after)]
    return hold([
        (before[0] != token and before[1] == token, seen[0]),
        (after[0] != token and after[1] == token, f"after a restart {seen[1]}"),
        (not is_told, f"who is paused is not in: {', '.join(is_told)}" if is_told else "show, status, doctor tell")])


def one_refresh(stage):
    """One refresh for a generation, however many who have it report it."""
    everybody = [stage.machine.user("owner"), stage.machine.unit(), stage.machine.user("other")]
    stage.begin("main", more=f'[[rule]]\nuid = {USERS["other"]}\naccounts = ["*"]\naccess = ["use"]\n')
    stage.sign_in("main", "shared")
    generations = {stage.ask_as(who, "token.get", account="shared")["generation"] for who in everybody}
    for who in everybody:
        stage.ask_as(who, "token.report_rejected", account="shared", generation=min(generations), timeout=ANSWER_SECONDS)
    refreshes = stage.provider.counts("main")["refreshes"]
    return hold([(refreshes == 1, f"{len(everybody)} reports of {len(generations)} generation, {refreshes} refreshes")])


def is_shown(account, user):
    """Which of the commands do not name a user that is paused, by name or number."""
    names = (str(USERS[user]), f"hostile-{user}")
    commands = {"show": ["show", account], "status": ["status"], "doctor": ["doctor"]}
    said = {name: grantctl(*words).stdout for name, words in commands.items()}
    return [name for name, text in said.items() if not any(word in text for word in names)]


def ends_no_grant(stage):
    """A report on an account without a refresh token has the provider asked; only the provider's answer ends it."""
    owner, unit = stage.machine.user("owner"), stage.machine.unit()
    stage.begin("main")
    stage.provider.set("main", gives_refresh_token=False)
    stage.sign_in("main", "short")
    stage.sign_in("main", "dead", "bob")
    before = stage.provider.counts("main")["asked_about"]
    token = stage.once(owner, get_and_report_again, "short", ANSWER_SECONDS)
    for _ in range(2):
        stage.once(owner, get_and_report_again, "short")
    said, state = stage.once(unit, ask_token, "short"), stage.state("short")
    with contextlib.suppress(Wrong):
        wait_until(lambda: stage.provider.counts("main")["asked_about"] > before, 60, "the provider is asked")
    asked = stage.provider.counts("main")["asked_about"] - before
    stage.provider.do("main", "end", user="bob")
    stage.once(owner, get_and_report_again, "dead")
    dead = stage.once(unit, ask_until_refused, "dead", DEAD_SECONDS)
    return hold([
        (said == token, f"a valid token: the unit gets {'it' if said == token else said}, state {state}"),
        (1 <= asked <= MOST_QUESTIONS, f"the provider was asked {asked} times after 3 reports"),
        (dead == "login_required", f"a dead one: {dead}")])


def get_and_report_again(_, account, timeout=PAUSED_SECONDS):
    """As a process that asks once and reports; where it is paused, the generation is what a first one has."""
    answer = attempt("token.get", account=account, timeout=timeout)
    attempt("token.report_rejected", account=account, generation=answer.get("generation", 1), timeout=2)
    return answer.get("access_token")


def by_request(stage):
    """`request.send` to an API that answers 401 to all refuses nobody else a token."""
    stage.begin("main")
    stage.sign_in("main", "shared")
    others = Others(stage, "shared")
    count, figures = others.during(stage.machine.user("owner"), send_refused)
    refreshes = stage.provider.counts("main")["refreshes"]
    stage.provider.set("main", is_down=True)
    more, in_outage = others.during(stage.machine.user("owner"), send_refused)
    return hold([
        (refreshes <= MOST_REFRESHES, f"{count} requests, {refreshes} refreshes in {SECONDS:g} s"),
        (measure.refused(figures)[0] == 0, f"the unit: {measure.told(figures)}"),
        (measure.refused(in_outage)[0] == 0, f"provider down, {more} requests: {measure.told(in_outage)}")])


def refresh_four_times(_, account):
    return [attempt("account.refresh", account=account, timeout=2).get("reason", "refreshed") for _ in range(4)]


def by_refresh(stage):
    """`account.refresh` may be asked by who may use the account, and refuses nobody the old token."""
    owner = stage.machine.user("owner")
    stage.begin("main")
    stage.sign_in("main", "shared")
    first = stage.once(owner, refresh_four_times, "shared")
    stage.provider.set("main", is_down=True)
    others = Others(stage, "shared")
    victim = stage.act(stage.machine.unit(), measure.sample, "shared")
    victim.next(READY_SECONDS)
    for _ in range(4):
        grantctl("--timeout", "2", "refresh", "shared")
    figures = victim.finish()
    by_user, in_outage = others.during(owner, lambda _, account: refresh_four_times(_, account), 1)
    return hold([
        ("refreshed" in first, f"by the user: {', '.join(first)}"),
        (measure.refused(figures)[0] == 0, f"provider down, four by root: the unit: {measure.told(figures)}"),
        (measure.refused(in_outage)[0] == 0, f"four by the user: {measure.told(in_outage)}"),
        ("not_permitted" not in by_user, f"who is told {', '.join(sorted(set(by_user)))}")])


CASES = {
    "report-by-capped": by_capped, "report-by-user": by_owner, "report-binds-reporter": binds_reporter,
    "report-one-refresh": one_refresh,
    "report-ends-no-grant": ends_no_grant, "request-refused": by_request, "refresh-refuses-nothing": by_refresh}
