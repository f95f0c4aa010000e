"""Access and Activity: the contents of one cell, and each filter."""

import subprocess
import urllib.parse

from attacks import OTHER_USER, as_visitor, system
from grantd_testing import wait_until
from views import WAIT_SECONDS, clean, press, reload
from world import ANSWER_SECONDS

RULES = (f'[[rule]]\nname = "reports"\nuid = {OTHER_USER}\naccounts = ["mail"]\naccess = ["use", "observe"]\n'
         'scopes = ["openid"]\n\n'
         '[[rule]]\nuid = 990\nunit = "backup.service"\naccounts = ["p*"]\naccess = ["use"]\nconfirm = true\n'
         'confirm_timeout = 120\n')
RECORDS = "[...document.querySelectorAll('main .records tbody tr')].map(r => [...r.cells].map(c => c.innerText.trim()))"


def visitor_asks(world, account):
    """Another user's program asks for a token."""
    as_visitor(world, "/")
    program = world.folder / "grantctl"
    return subprocess.run(
        [program, "--socket", world.broker.socket, "token", account, "--scope", "openid"], user=OTHER_USER, group=OTHER_USER,
        extra_groups=[], capture_output=True, text=True, timeout=ANSWER_SECONDS, cwd="/")


def cell(page, account, caller):
    """The text of a cell, by the headings of its row and of its column."""
    table = page.evaluate("[...document.querySelectorAll('main table tr')].map(r => [...r.cells].map(c => c.innerText.trim()))")
    column = next(number for number, text in enumerate(table[0]) if caller in text)
    return next(row[column] for row in table if row[0] == account)


def access_cell(stage):
    """A cell has the rule with its file and line, the caps, the approval, and the last use."""
    world = system(stage, RULES)
    page = world.open("/access")
    config = world.broker.config
    line = config.read_text().split("\n").index("[[rule]]") + 1
    mail = cell(page, "mail", f"uid {OTHER_USER}")
    for words in ("observe", "use", "only openid", f"reports, {config}:{line}", "no use in the audit trail"):
        assert words in mail, (words, mail)
    payroll = cell(page, "payroll", "backup.service")
    for words in ("use", "a user approves each release within 2 min", f"{config}:{line + 7}", "no use in the audit trail"):
        assert words in payroll, (words, payroll)
    assert "only" not in payroll and cell(page, "payroll", f"uid {OTHER_USER}") == "no", payroll
    assert visitor_asks(world, "mail").returncode == 0
    wait_until(lambda: reload(page) and "last used" in cell(page, "mail", f"uid {OTHER_USER}"), WAIT_SECONDS,
               "the cell shows the use", 0.3)
    assert "no use in the audit trail" in cell(page, "payroll", "backup.service")
    clean(page)


def access_many(stage):
    """A cell shows three rules, and the number of the others."""
    kinds = ("observe", "use", "login", "manage", "use")
    rules = "".join(f'[[rule]]\nname = "rule-{number}"\nuid = {OTHER_USER}\naccounts = ["mail"]\naccess = ["{kind}"]\n\n'
                    for number, kind in enumerate(kinds))
    world = system(stage, rules)
    mail = cell(world.open("/access"), "mail", f"uid {OTHER_USER}")
    assert "rule-2" in mail and "rule-3" not in mail and "and 2 more: grantctl explain shows them" in mail, mail


def activity_filters(stage):
    """Account, user, unit and refusals, alone and together; the export has the same records."""
    world = system(stage, RULES)
    world.broker.token("payroll")
    assert visitor_asks(world, "mail").returncode == 0
    assert visitor_asks(world, "payroll").returncode != 0
    page = world.open("/activity")
    visitor = f"uid {OTHER_USER}"

    def released():
        return [(row[1], row[4]) for row in page.evaluate(RECORDS) if visitor in row[3] and "token.get" in row[2]]

    wait_until(lambda: reload(page) and len(released()) == 2, WAIT_SECONDS, "the records are stored", 0.3)
    assert dict(released())["mail"] == "ok" and dict(released())["payroll"] != "ok", page.text()

    def filtered(**fields):
        page.open(world.origin + "/activity")
        for name, text in fields.items():
            if name == "refused":
                page.evaluate("document.getElementById('f-refused').click()")
            else:
                page.fill(f"#f-{name}", text)
        press(page, "Filter")
        shown = page.evaluate("[...document.querySelectorAll('.filters input:not([type=hidden])')].map("
                              "e => e.type === 'checkbox' ? e.checked : e.value)")
        assert shown == [fields.get("account", ""), fields.get("uid", ""), fields.get("unit", ""), "refused" in fields], shown
        return page.evaluate(RECORDS)

    rows = filtered(uid=str(OTHER_USER))
    assert rows and all(visitor in row[3] for row in rows), rows
    rows = filtered(refused="1")
    assert rows and all(row[4] != "ok" for row in rows) and any(row[1] == "payroll" for row in rows), rows
    rows = filtered(account="payroll", uid=str(OTHER_USER), refused="1")
    assert rows and all(row[1] == "payroll" and visitor in row[3] and row[4] != "ok" for row in rows), rows
    assert not filtered(account="mail", uid=str(OTHER_USER), refused="1") and "No record matches" in page.text()
    units = {record["unit"] for record in world.socket.call("audit.list", limit=500)["records"] if record.get("unit")}
    for unit in sorted(units)[:1]:
        rows = filtered(unit=unit)
        assert rows and all(unit in row[3] for row in rows), rows
    assert not filtered(unit="nothing-like-it.service") and "No record matches" in page.text()
    query = urllib.parse.urlencode({"account": "payroll", "uid": OTHER_USER, "refused": 1})
    answer = world.request(f"/activity.json?{query}", cookie=world.visit())
    assert f'"uid":{OTHER_USER}' in answer.text.replace(" ", "") and '"ok"' not in answer.text, answer.text
    clean(page)


CASES = {"access-cell": access_cell, "access-many": access_many, "activity-filters": activity_filters}
